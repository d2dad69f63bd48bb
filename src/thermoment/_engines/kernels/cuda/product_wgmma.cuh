// mu dt W x by wgmma (Hopper), beside the own step: x and W from shared memory, sums in half precision.
//
// Two groups hold a tile and show each other x in half precision. x and W are in four blocks of 64 k. A row of a block is the
// 128 bytes of one replica, or of one column of the result, swizzled: its 16-byte chunk i lies at i ^ (row % 8).

#define SUMS4(i) "+r"(sums[i]), "+r"(sums[i + 1]), "+r"(sums[i + 2]), "+r"(sums[i + 3])
#define SUMS16(i) SUMS4(i), SUMS4(i + 4), SUMS4(i + 8), SUMS4(i + 12)

struct Product {
    static constexpr int SHARED_CHUNKS = ROWS * WIDTH / 8;  // of 16 bytes: x of a tile

    u64 x_descriptor, w_descriptor;
    u32 row_address, first_chunk;  // where this lane's row of the group's x is, and where its first chunk is in it
    int group;
    u32 sums[COLUMNS / 4];

    __device__ Product(const uint4* W, uint4* after_W, const Place& at) : group(at.group) {
        const u32 x_address = (u32)__cvta_generic_to_shared(after_W + at.tile * SHARED_CHUNKS);
        x_descriptor = descriptor(x_address);
        w_descriptor = descriptor((u32)__cvta_generic_to_shared(W) + at.column * 128);
        // stmatrix: lanes 8 i to 8 i + 7 have the rows of matrix i, which are rows 0-7 and 8-15 of a chunk, then of the next.
        const int row = 16 * at.warp + at.lane % 16;
        row_address = x_address + (at.column / 64 * ROWS + row) * 128;
        first_chunk = (at.lane / 16 ^ row % 8) << 4;
        show_to_tensor_cores();  // W
    }

    // Another W lies in its place.
    __device__ __forceinline__ void use(const uint4*, const Place&) { show_to_tensor_cores(); }

    // Starts the product with x as it is now. The own step runs beside it, and may change x.
    __device__ __forceinline__ void start(const State& x, Guard& guard) {
#pragma unroll
        for (int k = 0; k < COLUMNS / 16; ++k) {
            u32 v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = guard.pair(x, 4 * k + i);
            const u32 to = row_address + k / 4 * ROWS * 128 + (first_chunk ^ k % 4 * 32);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
                         "r"(v[2]), "r"(v[3])
                         : "memory");
        }
        show_to_tensor_cores();
        say_to_other(WRITTEN, group);
        wait_for_other(WRITTEN, group);
        // Addresses and descriptors are cheap, registers are not: they are not to be kept through the own step.
        asm volatile("" : "+l"(x_descriptor), "+l"(w_descriptor), "+r"(first_chunk));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < WIDTH / 16; ++k)
            multiply(x_descriptor + ((k / 4 * ROWS * 128 + k % 4 * 32) >> 4),
                     w_descriptor + ((k / 4 * WIDTH * 128 + k % 4 * 32) >> 4), k > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    // Waits for the product and adds it.
    __device__ __forceinline__ void add_to(State& x, float unit) {
        asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS16(0), SUMS16(16)::"memory");
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) add_halves(&x[2 * i], sums[i], unit);
        say_to_other(READ, group);  // the next step may write
        wait_for_other(READ, group);
    }

    // sums <- W x + onto * sums, for 16 of the columns of x.
    __device__ __forceinline__ void multiply(u64 a, u64 b, int onto) {
        asm volatile(
            "{.reg .pred onto; setp.ne.b32 onto, %34, 0;"
            "wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
            "%23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, onto, 1, 1, 0, 0;}"
            : SUMS16(0), SUMS16(16)
            : "l"(a), "l"(b), "r"(onto));
    }

    // What ordinary stores wrote is read by the tensor cores, once a barrier is passed.
    __device__ static __forceinline__ void show_to_tensor_cores() {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }

    // Address, 1024 bytes between groups of eight rows, swizzle of 128 bytes.
    __device__ static __forceinline__ u64 descriptor(u32 address) {
        return (u64)(address >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    }
};
