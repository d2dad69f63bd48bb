// The fused kernel of the cuda engine for more than 256 nodes, on Hopper: a tile is cut by columns over several multiprocessors.
// README.md beside this file explains how they work together.
//
// Compiled at run time, like langevin.cu with and without SEGMENTS and CLIP.

constexpr int CHAINS = 2;  // calls of Philox that a thread has under way side by side

#include "node.cuh"
#include "segments.cuh"
#include "pipe.cuh"

constexpr int PARTS = COLUMNS / 16;  // of the own step, a call of own_part each
constexpr int LOADER = THREADS, PUBLISHER = THREADS + 32;  // threads that bring W and x, and that take x out
constexpr int CHUNK = 8;             // blocks of k that are added up in half precision

// What the host asks for beside the task.
struct Network {
    const unsigned char* W;   // (couplings, column blocks, blocks of k, WIDTH, 128 bytes)
    unsigned char* x;         // (rows, 2, column blocks * 4, TILES, ROWS, 128 bytes): x in half precision, of every other step
    u32* published;           // (rows, 32): how many times x was shown by one of the row, a line of the cache each
    int columns, k_blocks;    // column blocks of WIDTH; blocks of 64 k that hold nodes
};

// Where a multiprocessor stands. A row is those that share two tiles, a block of columns each. A cluster is the same column
// block of CLUSTER rows: they share W as it comes.
struct Standing {
    int column, row, rows, rank;
};

// mu dt W x, in sums of CHUNK blocks of k, in half precision. The first blocks of k are this multiprocessor's own columns, whose x
// the groups write into the stages themselves; then come those of the others in turn.
struct StreamedProduct {
    Stage stage;                   // the next to be multiplied
    u32 row_address, first_chunk;  // where this lane's row of x is in the first stage, and where its first chunk is in it
    u64 x_descriptor, w_descriptor;
    int own_blocks;
    u32 sums[COLUMNS / 4];

    __device__ StreamedProduct(u32 shared, const Place& at, const Standing& in, const Network& network)
        : own_blocks(min(4, network.k_blocks - 4 * in.column)) {
        x_descriptor = descriptor(shared + X_STAGES + at.tile * PIECE);
        w_descriptor = descriptor(shared + W_STAGES + at.group_column * 128);
        const int row = 16 * at.warp + at.lane % 16;
        row_address = shared + X_STAGES + at.tile * PIECE + row * 128;
        first_chunk = (at.lane / 16 ^ row % 8) << 4;
    }

    // Shows x to the other group of the tile, and has it shown to the other multiprocessors of the row.
    __device__ __forceinline__ void show(const State& x, Guard& guard, const Place& at, const Pipe& pipe) {
        wait_for_other(READ, at.group);
#pragma unroll
        for (int k = 0; k < COLUMNS / 16; ++k) {
            u32 v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = guard.pair(x, 4 * k + i);
            const int block = at.group_column / 64 + k / 4;
            const u32 to = row_address + (stage.number + block) % STAGES * X_STAGE + (first_chunk ^ k % 4 * 32);
            if (block < own_blocks) store_matrices(to, v);
        }
        show_to_async_proxy();
        say_to_other(WRITTEN, at.group);
        wait_for_other(WRITTEN, at.group);
        pipe.say_written();
    }

    // Starts the product with block number i of k in the order of this multiprocessor, and gives back the stage before.
    __device__ __forceinline__ void multiply_block(const Pipe& pipe, int i) {
        pipe.wait_for_data(stage);
        const u64 a = x_descriptor + stage.number * (X_STAGE >> 4);
        const u64 b = w_descriptor + stage.number * (W_STAGE >> 4);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; ++k) multiply(sums, a + 2 * k, b + 2 * k, i % CHUNK > 0 || k > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (i % CHUNK) {
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            pipe.give_back(stage.before());
        }
        stage.advance();
    }

    // Waits for the blocks that were started and adds their sums.
    __device__ __forceinline__ void add_to(State& x, float unit, const Pipe& pipe) {
        asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS16(0), SUMS16(16)::"memory");
        pipe.give_back(stage.before());
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) add_halves(&x[2 * i], sums[i], unit);
    }
};

// Brings the blocks of W and x in the order in which they are multiplied, as many ahead as there are stages. One thread does it.
__device__ void load(const Pipe& pipe, const Standing& in, const Network& network, const Course& course, u32 n_steps) {
    const unsigned char* W = network.W + (u64)in.column * network.k_blocks * W_STAGE + in.rank * (W_STAGE / CLUSTER);
    int s = -1, coupling = 0;  // the segment, and its W
    u32 left = 0;              // of the segment's steps
    const u64 half = (u64)network.columns * 4 * X_STAGE;
    const unsigned char* const x = network.x + in.row * 2 * half;
    Stage stage;
    for (u32 n = 0; n < n_steps; ++n) {
        if (SEGMENTED && left-- == 0) {
            s = s + 1 < course.n_segments ? s + 1 : 0;
            const int next = course.segments[s].coupling;
            W += (i64)(next - coupling) * network.columns * network.k_blocks * W_STAGE;
            coupling = next;
            left = course.segments[s].n_steps - 1;
        }
        bool all_shown = false;
        for (int i = 0; i < network.k_blocks; ++i, stage.advance()) {
            int k = 4 * in.column + i;
            if (k >= network.k_blocks) k -= network.k_blocks;
            const bool own = k / 4 == in.column;
            pipe.wait_for_room(stage);
            pipe.expect(stage, own ? W_STAGE : W_STAGE + X_STAGE);
            pipe.load_W(stage, W + (u64)k * W_STAGE, in.rank);
            if (own) continue;
            if (!all_shown) wait_until(network.published + 32 * in.row, network.columns * (n + 1));
            all_shown = true;
            pipe.load_x(stage, x + (n & 1) * half + (u64)k * X_STAGE);
        }
    }
}

// Shows every x that the groups have written to the other multiprocessors of the row. One thread does it. The groups write the
// next x only when those of the others have come, and then this one is out too.
__device__ void publish(const Pipe& pipe, const Standing& in, const Network& network, u32 n_steps) {
    const u64 half = (u64)network.columns * 4 * X_STAGE;
    unsigned char* const to = network.x + in.row * 2 * half + (u64)4 * in.column * X_STAGE;
    const int own_blocks = min(4, network.k_blocks - 4 * in.column);
    Stage stage;
    for (u32 n = 0; n < n_steps; ++n) {
        pipe.wait_for_written(n);
        for (int i = 0; i < own_blocks; ++i) pipe.store_x(to + (n & 1) * half + i * X_STAGE, (stage.number + i) % STAGES);
        pipe.wait_for_stores();
        stage.number = (stage.number + network.k_blocks) % STAGES;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(network.published + 32 * in.row) : "memory");
    }
}

// What the groups do that hold x.
__device__ __forceinline__ void compute(unsigned char* memory, u32 shared, const Pipe& pipe, const Standing& in, const Task& task,
                                        const Network& network, const Course& course, int rounds, int n_tiles) {
    Place at;
    at.group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same in a warp, and the compiler is to know it
    at.warp = threadIdx.x / 32 % 4;
    at.tile = at.group / 2;
    at.column = at.group_column = at.group % 2 * COLUMNS;
    at.lane = threadIdx.x % 32;
    at.row = at.warp * 16 + at.lane / 4;
    at.c = at.lane % 4;
    StreamedProduct product(shared, at, in, network);
    float* const drive = (float*)(memory + DRIVE) + at.group * 5 * COLUMNS;
    float* const scratch = drive + COLUMNS;
    const int width = network.columns * WIDTH, out_width = SEGMENTED ? task.n_nodes : width;
    const int first_node = in.column * WIDTH;
    say_to_other(READ, at.group);

#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        const int tile = (round * in.rows + in.row) * TILES + at.tile;
        const bool real = tile < n_tiles;
        const int sample = real ? tile / task.blocks : 0;
        const int first_replica = real ? tile % task.blocks * ROWS : task.n_replicas;
        const u64 id = task.ids[sample];
        const u32 first_place = (u32)(first_replica + at.row) * 4096 + (first_node + at.column) / 4 + at.c;
        Guard guard{real, first_replica, first_node, sample};
        State x;
        begin(x, course, at, task, sample, first_replica, first_node);
        u32 n = first_step(course);
#pragma unroll 1
        for (int s = 0; s < segment_count(course); ++s) {
            const Segment segment = segment_of(course, task, s);
            const int column = threadIdx.x % COLUMNS;
            group_barrier(at);
            drive[column] = drive_at(task, segment.drive, sample, width, first_node + at.column, column);
            group_barrier(at);
#pragma unroll 1
            for (const u32 end = n + segment.n_steps; n < end; ++n) {
                guard.look(x, at, task);
                product.show(x, guard, at, pipe);
                const Uniform uniform = uniform_part(task.keys, n, id);
                const u32 place = step_place(first_place, uniform);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    if (part % 2 == 0) product.multiply_block(pipe, part / 2);
                    own_part(x, at, task, drive, uniform, place, part);
                }
#pragma unroll 1
                for (int i = PARTS / 2; i < network.k_blocks; ++i) {
                    if (i % CHUNK == 0) product.add_to(x, segment.unit, pipe);
                    product.multiply_block(pipe, i);
                }
                product.add_to(x, segment.unit, pipe);
                say_to_other(READ, at.group);
            }
            if (!segment.read) continue;
            guard.look_at_end(x, at, task);
            const u64 row = (u64)guard.reading * n_tiles + tile;
            float* const out = task.sums + row * __popc(task.orders) * out_width + first_node + at.group_column;
            if (real) write_sums(x, at, task, out, out_width, first_replica, first_node + at.group_column, scratch);
            ++guard.reading;
        }
        finish(x, course, at, task, sample, first_replica, first_node);
    }
    wait_for_other(READ, at.group);
}

extern "C" __global__ __launch_bounds__(THREADS + 128, 1) __cluster_dims__(CLUSTER)
    void wide(const __grid_constant__ Task task, const __grid_constant__ Network network, const __grid_constant__ Course course) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const u32 shared = (u32)__cvta_generic_to_shared(memory);
    const Pipe pipe(shared + BARRIERS);
    Standing in;
    in.rank = blockIdx.x % CLUSTER;
    in.column = blockIdx.x / CLUSTER % network.columns;
    in.row = blockIdx.x / CLUSTER / network.columns * CLUSTER + in.rank;
    in.rows = gridDim.x / network.columns;
    if (threadIdx.x == 0) pipe.create();
    __syncwarp();
    meet_cluster();

    const int n_tiles = task.n_samples * task.blocks;
    const int rounds = (n_tiles + TILES * in.rows - 1) / (TILES * in.rows);  // the same for all, so that they stay together
    if (threadIdx.x >= LOADER) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == LOADER) load(pipe, in, network, course, rounds * task.n_steps);
        if (threadIdx.x == PUBLISHER) publish(pipe, in, network, rounds * task.n_steps);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
        compute(memory, shared, pipe, in, task, network, course, rounds, n_tiles);
    }
    meet_cluster();
}
