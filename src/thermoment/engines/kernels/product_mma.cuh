// mu dt W x by mma.sync (Ampere and later): x from registers, W from shared or global memory, sums in float32.
//
// The columns that a thread holds of a sum are the ones it must supply of a factor, so x never leaves its registers. W comes
// as fragments: for each 16 k and each pair of 8-column tiles, 16 bytes for each lane.

struct Product {
    static constexpr int SHARED_CHUNKS = 0;
    static constexpr int PAIRS = 4;  // whose sums are under way side by side

    const uint4* fragments;
    u32 factor[WIDTH / 4];

    __device__ Product(const uint4* W, uint4*, const Place& at) : fragments(W + at.lane) {}

    // Keeps x as it is now. Nothing runs beside the own step: mma.sync waits for its result.
    __device__ __forceinline__ void start(const State& x, u32& largest) {
#pragma unroll
        for (int i = 0; i < WIDTH / 4; ++i) factor[i] = rounded(x, i, largest);
    }

    // Adds mu dt W x of the kept x.
    __device__ __forceinline__ void add_to(State& x, float unit) {
#ifndef WITHOUT_PRODUCT  // to measure what the rest takes
#pragma unroll
        for (int first = 0; first < 16; first += PAIRS) {
            float sums[8 * PAIRS] = {};
#pragma unroll
            for (int k = 0; k < 16; ++k) {
#pragma unroll
                for (int pair = 0; pair < PAIRS; ++pair) {
                    const uint4 w = fragments[(16 * k + first + pair) * 32];
                    multiply(&sums[8 * pair], &factor[4 * k], w.x, w.y);
                    multiply(&sums[8 * pair + 4], &factor[4 * k], w.z, w.w);
                }
            }
#pragma unroll
            for (int i = 0; i < 8 * PAIRS; ++i) x[8 * first + i] = fmaf(sums[i], unit, x[8 * first + i]);
        }
#endif
    }

    __device__ static __forceinline__ void multiply(float* sums, const u32* a, u32 b0, u32 b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
