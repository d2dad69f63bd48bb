// mu dt W x by mma.sync (Ampere and later): x from registers, W from shared or global memory in the order it is multiplied.
//
// W comes as fragments: for each 16 k and each pair of 8-column tiles, 16 bytes for each lane.

struct Product {
    const uint4* fragments;

    __device__ Product(const uint4* W, int lane) : fragments(W + lane) {}

    __device__ __forceinline__ void add_to(float (&x)[128], const u32 (&factor)[64]) {
#pragma unroll
        for (int k = 0; k < 16; ++k) {
#pragma unroll
            for (int pair = 0; pair < 16; ++pair) {
                const uint4 w = fragments[(16 * k + pair) * 32];
                multiply(&x[8 * pair], &factor[4 * k], w.x, w.y);
                multiply(&x[8 * pair + 4], &factor[4 * k], w.z, w.w);
            }
        }
    }

    __device__ static __forceinline__ void multiply(float* x, const u32* a, u32 b0, u32 b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
