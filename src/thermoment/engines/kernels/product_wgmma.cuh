// mu dt W x by wgmma (Hopper): x goes to shared memory in half precision, the sum is added onto the state in registers.
//
// A row of x is 512 bytes of k, four blocks of 128 bytes (64 k), each swizzled: 16-byte chunk i of row r lies at i ^ (r % 8).
// The k-th element of a row is column col(k): chunk 4 q + c holds the columns 8 j + 2 c + e of j = 4 q to 4 q + 3, which are
// one thread's, so a thread writes whole chunks. W has its k in the same order.

#define F4(i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)

struct Product {
    static constexpr int GROUPS = 2, THREADS = 128 * GROUPS;
    static constexpr int W_BYTES = WIDTH * WIDTH * 2, X_BYTES = ROWS * WIDTH * 2;

    unsigned char* x_memory;
    float* drive_memory;
    u32 x_address, w_address;
    u32 chunk_address;  // where this thread's chunk of its first row goes, for q = 0
    int group;

    __device__ Product(unsigned char* shared, int group, const Place& at, const uint4* W) : group(group) {
        x_memory = shared + W_BYTES + group * X_BYTES;
        drive_memory = (float*)(shared + W_BYTES + GROUPS * X_BYTES) + group * WIDTH;
        for (int i = threadIdx.x; i < W_BYTES / 16; i += THREADS) ((uint4*)shared)[i] = W[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        x_address = (u32)__cvta_generic_to_shared(x_memory);
        chunk_address = x_address + at.row * 128 + ((at.c ^ (at.row % 8)) << 4);
        w_address = (u32)__cvta_generic_to_shared(shared);
    }

    __device__ float* drive() { return drive_memory; }
    __device__ float* scratch() { return (float*)x_memory; }

    // Rounds x and writes it where the product reads it. Keeps the largest magnitudes seen, as two halves.
    __device__ __forceinline__ void take(const float (&x)[128], u32 scale, u32& largest) {
#pragma unroll
        for (int q = 0; q < 8; ++q) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                u32 v[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    v[i] = halves(x[16 * q + 4 * i + 2 * r], x[16 * q + 4 * i + 2 * r + 1], scale);
                    largest = larger_magnitude(largest, v[i]);
                }
                // Chunks 4 (q % 2) + c of block q / 2: the swizzle of the odd one differs in the bit worth 64 bytes.
                const u32 to = (chunk_address ^ (q % 2 * 64)) + q / 2 * (ROWS * 128) + r * (8 * 128);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                             : "memory");
            }
        }
    }

    __device__ __forceinline__ void add_to(float (&x)[128]) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        warpgroup_barrier(group);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < WIDTH / 16; ++k)
            multiply(x, descriptor(x_address + k / 4 * (ROWS * 128) + k % 4 * 32),
                     descriptor(w_address + k / 4 * (WIDTH * 128) + k % 4 * 32));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        // The next step writes where another warp's product may still read.
        warpgroup_barrier(group);
    }

    // Address, 1024 bytes between groups of eight rows, swizzle of 128 bytes.
    __device__ static __forceinline__ u64 descriptor(u32 address) {
        return (u64)(address >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    }

    __device__ static __forceinline__ void multiply(float (&x)[128], u64 a, u64 b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
            "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
            "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, "
            "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
            "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "
            "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
            "%123, %124, %125, %126, %127}, %128, %129, 1, 1, 1, 0, 0;"
            : F64(0), F64(64)
            : "l"(a), "l"(b));
    }
};
