// mu dt W x by mma.sync (Ampere and later): x is rounded into registers, W is read in the order in which it is multiplied.
//
// The columns that a thread holds of a sum are also the ones it must supply of a factor, so x never leaves its registers.
// W comes as fragments: for each 16 k and each pair of 8-column tiles, 16 bytes for each lane.

struct Product {
    static constexpr int GROUPS = 2, THREADS = 128 * GROUPS;
    static constexpr int W_BYTES = WIDTH * WIDTH * 2, SCRATCH = 4 * WIDTH;

    const uint4* fragments;
    float *drive_memory, *scratch_memory;
    u32 factor[64];

    __device__ Product(unsigned char* shared, int group, const Place& at, const uint4* W) {
#ifdef W_IN_SHARED
        for (int i = threadIdx.x; i < W_BYTES / 16; i += THREADS) ((uint4*)shared)[i] = W[i];
        fragments = (const uint4*)shared + at.lane;
        float* const rest = (float*)(shared + W_BYTES);
#else
        fragments = W + at.lane;
        float* const rest = (float*)shared;
#endif
        drive_memory = rest + group * (WIDTH + SCRATCH);
        scratch_memory = drive_memory + WIDTH;
    }

    __device__ float* drive() { return drive_memory; }
    __device__ float* scratch() { return scratch_memory; }

    // Rounds x. Keeps the largest magnitudes seen, as two halves.
    __device__ __forceinline__ void take(const float (&x)[128], u32 scale, u32& largest) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
            factor[i] = halves(x[2 * i], x[2 * i + 1], scale);
            largest = larger_magnitude(largest, factor[i]);
        }
    }

    __device__ __forceinline__ void add_to(float (&x)[128]) {
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
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
