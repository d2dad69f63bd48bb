// mu dt W x by wgmma (Hopper): x from registers, W from shared memory, the sum added onto the state in registers.
//
// W is in four blocks of 64 k. A row of a block is the 128 bytes of one column of the result, swizzled: its 16-byte chunk i
// lies at i ^ (row % 8).

#define F4(i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)

struct Product {
    u64 w_descriptor;

    __device__ Product(const uint4* W, int) {
        // What was written by ordinary stores is read by the tensor cores.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        // Address, 1024 bytes between groups of eight rows, swizzle of 128 bytes.
        const u32 address = (u32)__cvta_generic_to_shared(W);
        w_descriptor = (u64)(address >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    }

    __device__ __forceinline__ void add_to(float (&x)[128], const u32 (&factor)[64]) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < WIDTH / 16; ++k)
            multiply(x, &factor[4 * k], w_descriptor + ((k / 4 * WIDTH * 128 + k % 4 * 32) >> 4));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }

    __device__ static __forceinline__ void multiply(float (&x)[128], const u32* a, u64 b) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
            "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
            "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, "
            "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
            "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "
            "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
            "%123, %124, %125, %126, %127}, {%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
            : F64(0), F64(64)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};
