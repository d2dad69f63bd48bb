// mu dt W x by mma.sync (Ampere and later): x from registers, W from shared or global memory, sums in half precision.
//
// The columns that a thread holds of a sum are the ones it must supply of a factor, so x never leaves its registers. W comes
// as fragments: for each 16 k and each pair of 8-column tiles, 16 bytes for each lane.

struct Product {
    static constexpr int SHARED_CHUNKS = 0;

    const uint4* fragments;
    u32 sums[WIDTH / 4];

    __device__ Product(const uint4* W, uint4*, const Place& at) : fragments(W + at.lane) {}

    __device__ __forceinline__ void start(const State&, u32&) {
#pragma unroll
        for (int i = 0; i < WIDTH / 4; ++i) sums[i] = 0;
    }

    // Multiplies columns 16 k to 16 k + 15 of x, which may change afterwards: so noise can be made for some while others are
    // multiplied. The sums of all columns are under way side by side, as the next product of one waits for its last.
    __device__ __forceinline__ void take(const State& x, int k, u32& largest) {
        u32 factor[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) factor[i] = rounded(x, 4 * k + i, largest);
#ifndef WITHOUT_PRODUCT  // to measure what the rest takes
#pragma unroll
        for (int pair = 0; pair < 16; ++pair) {
            const uint4 w = fragments[(16 * k + pair) * 32];
            multiply(&sums[4 * pair], factor, w.x, w.y);
            multiply(&sums[4 * pair + 2], factor, w.z, w.w);
        }
#endif
    }

    // Adds mu dt W x of the x that was taken.
    __device__ __forceinline__ void add_to(State& x, float unit) {
#pragma unroll
        for (int i = 0; i < WIDTH / 4; ++i) add_halves(&x[2 * i], sums[i], unit);
    }

    __device__ static __forceinline__ void multiply(u32* sums, const u32* a, u32 b0, u32 b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
            : "+r"(sums[0]), "+r"(sums[1])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
