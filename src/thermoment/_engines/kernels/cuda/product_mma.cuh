// mu dt W x by mma.sync (Ampere and later), after the own step: x from shared memory, W from there or from global memory, sums
// in half precision. While a warp multiplies, others make noise: of the other tile, and where the halves of a tile drift apart.
//
// Two groups hold a tile and show each other x in half precision. x is in four blocks of 64 columns. A row of a block is the
// 128 bytes of one replica, swizzled: its 16-byte chunk i lies at i ^ (row % 8). W comes as fragments: for each 16 k and each
// 16 columns, 16 bytes for each lane.

struct Product {
    static constexpr int SHARED_CHUNKS = ROWS * WIDTH / 8;  // of 16 bytes: x of a tile

    const uint4* fragments;  // of the warp's columns
    u32 to, from;            // where this lane writes its first pair, and reads its row of the first factor
    int group;

    __device__ Product(const uint4* W, uint4* after_W, const Place& at)
        : fragments(W + at.column / 16 * 32 + at.lane), group(at.group) {
        const u32 x_address = (u32)__cvta_generic_to_shared(after_W + at.tile * SHARED_CHUNKS);
        const int swizzle = 16 * (at.lane / 4), row = at.row - at.lane / 4 + at.lane % 16;
        to = x_address + (at.column / 64 * ROWS + at.row) * 128 + swizzle + 4 * at.c;
        // ldmatrix: lanes 8 i to 8 i + 7 have the rows of matrix i, which are rows 0-7 and 8-15 of a chunk, then of the next.
        from = x_address + row * 128 + 16 * (at.lane / 16 ^ row % 8);
    }

    // Multiplies by another W from now on.
    __device__ __forceinline__ void use(const uint4* W, const Place& at) { fragments = W + at.column / 16 * 32 + at.lane; }

    // Shows x as it is now. The own step may change it.
    __device__ __forceinline__ void start(const State& x, Guard& guard) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) {
            const int j = i / 2, rows = block_row(j) + 8 * (i % 2);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"((to ^ 2 * block_column(j)) + rows * 128), "r"(guard.pair(x, i))
                         : "memory");
        }
        say_to_other(WRITTEN, group);
    }

    // Multiplies the x that was shown and adds the product.
    __device__ __forceinline__ void add_to(State& x, float unit) {
        u32 sums[COLUMNS / 4] = {};
        wait_for_other(WRITTEN, group);
#pragma unroll
        for (int k = 0; k < WIDTH / 16; ++k) multiply(sums, k);
        say_to_other(READ, group);
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) add_halves(&x[2 * i], sums[i], unit);
        wait_for_other(READ, group);  // the next step may write
    }

    // sums <- sums + W x, for 16 of the columns of x.
    __device__ __forceinline__ void multiply(u32 (&sums)[COLUMNS / 4], int k) {
        u32 factor[WARP_ROWS / 16][4];
#pragma unroll
        for (int m = 0; m < WARP_ROWS / 16; ++m)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(factor[m][0]), "=r"(factor[m][1]), "=r"(factor[m][2]), "=r"(factor[m][3])
                         : "r"((from ^ k % 4 * 32) + (k / 4 * ROWS + 16 * m) * 128)
                         : "memory");
#pragma unroll
        for (int pair = 0; pair < WARP_COLUMNS / 16; ++pair) {
            const uint4 w = fragments[(16 * k + pair) * 32];
#pragma unroll
            for (int m = 0; m < WARP_ROWS / 16; ++m) {
                u32* const first = &sums[WARP_COLUMNS / 4 * m + 4 * pair];
                multiply_block(first, factor[m], w.x, w.y);
                multiply_block(first + 2, factor[m], w.z, w.w);
            }
        }
    }

    __device__ static __forceinline__ void multiply_block(u32* sums, const u32* a, u32 b0, u32 b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
            : "+r"(sums[0]), "+r"(sums[1])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
