// The fused kernel of the cuda engine for up to 256 nodes: state and noise in registers, W x on the tensor cores, only moments
// leave the chip. README.md beside this file explains tiles, registers, the order of the nodes and the two products.
//
// Compiled at run time. HOPPER selects wgmma; without it mma.sync is used. The clip is almost never reached, so the plain
// kernel only notes the largest magnitude seen, and the samples where it may have been reached are done again with CLIP.

constexpr int CHAINS = 4;  // calls of Philox that a thread has under way side by side

#include "node.cuh"

#ifdef HOPPER
#include "product_wgmma.cuh"
#else
#include "product_mma.cuh"
#endif

// Shared memory: W where W_IN_SHARED, what the product needs for each tile, then for each group its drive and room to add
// its warps' sums up.
extern "C" __global__ __launch_bounds__(THREADS, 1) void langevin(const uint4* __restrict__ W,
                                                                  const __grid_constant__ Task task) {
    extern __shared__ __align__(1024) uint4 shared[];
    uint4* after_W = shared;
#ifdef W_IN_SHARED
    constexpr int W_CHUNKS = WIDTH * WIDTH / 8;
    for (int i = threadIdx.x; i < W_CHUNKS; i += THREADS) shared[i] = W[i];
    W = shared;
    after_W += W_CHUNKS;
#endif
    Place at;
    at.group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same in a warp, and the compiler is to know it
    at.warp = threadIdx.x / 32 % 4;
    at.tile = at.group / 2;
    at.group_column = at.group % 2 * COLUMNS;
    at.column = at.group_column + at.warp / (ROWS / WARP_ROWS) * WARP_COLUMNS;
    at.lane = threadIdx.x % 32;
    at.row = at.warp % (ROWS / WARP_ROWS) * WARP_ROWS + at.lane / 4;
    at.c = at.lane % 4;
    Product product(W, after_W, at);
    float* const drive = (float*)(after_W + TILES * Product::SHARED_CHUNKS) + at.group * 5 * COLUMNS;
    float* const scratch = drive + COLUMNS;
    __syncthreads();

    const int n_tiles = task.n_samples * task.blocks;
    for (int tile = blockIdx.x * TILES + at.tile; tile < n_tiles; tile += gridDim.x * TILES) {
        const int sample = tile / task.blocks, first_replica = tile % task.blocks * ROWS;
        const u64 id = task.ids[sample];
        const int column = threadIdx.x % COLUMNS;
        drive[column] = task.drive[(u64)sample * WIDTH + at.group_column + column];
        group_barrier(at);
        const u32 first_place = (u32)(first_replica + at.row) * 4096 + at.column / 4 + at.c;
        State x;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; ++i) x[i] = 0.0f;
        u32 largest = 0;
#ifdef CLIP
        u64 beyond = 0;
#endif
#pragma unroll 1
        for (u32 n = 0; n < task.n_steps; ++n) {
#ifdef CLIP
            beyond += clip_and_count(x, at, task, first_replica, 0);
#endif
            product.start(x, largest);
            const Uniform uniform = uniform_part(task.keys, n, id);
            const u32 place = step_place(first_place, uniform);
#pragma unroll
            for (int k = 0; k < COLUMNS / 16; k += CHAINS / 2)
                own_part(x, at, task, drive + at.column - at.group_column, uniform, place, k);
            product.add_to(x, task.unit);
        }
#ifdef CLIP
        beyond += clip_and_count(x, at, task, first_replica, 0);
        if (beyond) atomicAdd(&task.clipped[sample], beyond);
#else
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) rounded(x, i, largest);
        if (reaches(largest, task.limit)) task.unsure[sample] = 1;
#endif
        float* const out = task.sums + (u64)tile * __popc(task.orders) * WIDTH + at.group_column;
        write_sums(x, at, task, out, WIDTH, first_replica, scratch);
    }
}
