// The fused kernel of the cuda engine for up to 256 nodes: state and noise in registers, W x on the tensor cores, only moments
// leave the chip. README.md beside this file explains tiles, registers, the order of the nodes and the two products.
//
// Compiled at run time. HOPPER selects wgmma; without it mma.sync is used. SEGMENTS is for runs of several segments, or from another
// start than x = 0, or whose states are wanted. CLIP, with SEGMENTS, clips and counts in every step with accurate functions: the
// clip is almost never reached, so samples where it may have been are done again with it.

constexpr int CHAINS = 4;  // calls of Philox that a thread has under way side by side

#include "node.cuh"
#include "segments.cuh"

#ifdef HOPPER
#include "product_wgmma.cuh"
#else
#include "product_mma.cuh"
#endif

constexpr int W_CHUNKS = WIDTH * WIDTH / 8;  // of 16 bytes

// Brings W to where the product reads it from.
__device__ __forceinline__ const uint4* in_place(const uint4* __restrict__ W, uint4* shared) {
#ifdef W_IN_SHARED
    for (int i = threadIdx.x; i < W_CHUNKS; i += THREADS) shared[i] = W[i];
    return shared;
#else
    return W;
#endif
}

// Shared memory: W where W_IN_SHARED, what the product needs for each tile, then for each group its drive and room to add
// its warps' sums up. W is (couplings, W_CHUNKS), the first of which is there from the beginning.
extern "C" __global__ __launch_bounds__(THREADS, 1) void langevin(const uint4* __restrict__ W,
                                                                  const __grid_constant__ Task task,
                                                                  const __grid_constant__ Course course) {
    extern __shared__ __align__(1024) uint4 shared[];
    const uint4* const first_W = in_place(W, shared);
#ifdef W_IN_SHARED
    uint4* const after_W = shared + W_CHUNKS;
#else
    uint4* const after_W = shared;
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
    Product product(first_W, after_W, at);
    float* const drive = (float*)(after_W + TILES * Product::SHARED_CHUNKS) + at.group * 5 * COLUMNS;
    float* const scratch = drive + COLUMNS;
    __syncthreads();

    int coupling = 0;
    const int n_tiles = task.n_samples * task.blocks, width = SEGMENTED ? task.n_nodes : WIDTH;
    // All tiles of a multiprocessor change W together. So one that has nothing left to do goes on beside the other.
    for (int tile = blockIdx.x * TILES + at.tile; tile - (SEGMENTED ? at.tile : 0) < n_tiles; tile += gridDim.x * TILES) {
        const bool real = !SEGMENTED || tile < n_tiles;
        const int sample = real ? tile / task.blocks : 0;
        const int first_replica = real ? tile % task.blocks * ROWS : task.n_replicas;
        const u64 id = task.ids[sample];
        const u32 first_place = (u32)(first_replica + at.row) * 4096 + at.column / 4 + at.c;
        Guard guard{real, first_replica, 0, sample};
        State x;
        begin(x, course, at, task, sample, first_replica, 0);
        u32 n = first_step(course);
#pragma unroll 1
        for (int s = 0; s < segment_count(course); ++s) {
            const Segment segment = segment_of(course, task, s);
            if (SEGMENTED && segment.coupling != coupling) {
                coupling = segment.coupling;
                __syncthreads();  // nobody needs the W before any more
                product.use(in_place(W + (u64)coupling * W_CHUNKS, shared), at);
                __syncthreads();
            }
            const int column = threadIdx.x % COLUMNS;
            drive[column] = drive_at(task, segment.drive, sample, WIDTH, at.group_column, column);
            group_barrier(at);
#pragma unroll 1
            for (const u32 end = n + segment.n_steps; n < end; ++n) {
                guard.look(x, at, task);
                product.start(x, guard);
                const Uniform uniform = uniform_part(task.keys, n, id);
                const u32 place = step_place(first_place, uniform);
#pragma unroll
                for (int k = 0; k < COLUMNS / 16; k += CHAINS / 2)
                    own_part(x, at, task, drive + at.column - at.group_column, uniform, place, k);
                product.add_to(x, segment.unit);
            }
            if (!segment.read) continue;
            guard.look_at_end(x, at, task);
            const u64 row = (u64)guard.reading * n_tiles + tile;
            float* const out = task.sums + row * __popc(task.orders) * width + at.group_column;
            if (real) write_sums(x, at, task, out, width, first_replica, at.group_column, scratch);
            ++guard.reading;
        }
        finish(x, course, at, task, sample, first_replica, 0);
    }
}
