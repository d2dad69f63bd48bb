// One node of the cuda engine: its noise, its own step, its clip, its moments, and where it lies in the registers of a thread.
// Both kernels are made of these: langevin.cu (up to 256 nodes) and wide.cu (more). CHAINS, the calls of Philox that a thread
// has under way side by side, is the kernel's to say.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr int WIDTH = 256;   // nodes, padded
constexpr int ROWS = 64;     // replicas of a tile, 16 to a warp
constexpr int TILES = 2;     // that a multiprocessor works on: their states and sums fill its registers
constexpr int MAX_ORDER = 8;
#ifdef SEGMENTS
constexpr bool SEGMENTED = true;  // see segments.cuh
#else
constexpr bool SEGMENTED = false;
#endif

// What the host asks for. A kernel's parameters are in constant memory: operands of the instructions that use them.
struct Task {
    const float* drive;     // (samples, WIDTH): mu dt h in column order
    const u64* ids;         // (samples,)
    float* sums;            // (samples, blocks, orders, WIDTH)
    u64* clipped;           // (samples,): updates beyond the clip, with SEGMENTS
    unsigned char* unsure;  // (samples,): set where an update may have been beyond, without CLIP
    int n_samples, blocks;  // a block is a tile's replicas
    int n_replicas, n_nodes;
    u32 n_steps, orders;    // orders: bit p - 1 for order p
    float linear, cubic, log_scale, clip;
    float unit;             // what 1 in a sum of the product stands for: a power of two
    u32 limit;              // the clip in half precision, rounded as x is
    u32 keys[20];           // of the rounds of Philox, (10, 2)
};

struct Uniform {  // what the first three rounds of Philox have in common for all nodes and replicas of a sample and step
    u32 round1_a, round2_c, round3_a, round3_c, round3_d;
};

__device__ __forceinline__ u32 high(u64 product) { return (u32)(product >> 32); }
__device__ __forceinline__ u64 times_M0(u32 a) { return (u64)0xD2511F53u * a; }
__device__ __forceinline__ u64 times_M1(u32 c) { return (u64)0xCD9E8D57u * c; }

// The counter is (step, place, sample): only its second word, place = replica * 4096 + group, differs between threads.
__device__ __forceinline__ Uniform uniform_part(const u32* keys, u32 step, u64 sample) {
    const u64 first_a = times_M0(step), first_c = times_M1((u32)sample);
    const u64 second_c = times_M1(high(first_a) ^ (u32)(sample >> 32) ^ keys[1]);
    const u64 third_a = times_M0(high(second_c) ^ (u32)first_c ^ keys[2]);
    return {high(first_c) ^ keys[0], (u32)first_a ^ keys[3], (u32)second_c ^ keys[4], high(third_a) ^ keys[5],
            (u32)third_a};
}

// Philox4x32-10 for several places side by side: each waits for itself only, so together they keep the pipes busy.
// A round maps (a, b, c, d) to (hi(M1 c) ^ b ^ k0, lo(M1 c), hi(M0 a) ^ d ^ k1, lo(M0 a)).
__device__ __forceinline__ void philox(const u32* keys, const Uniform& u, const u32 (&place)[CHAINS], u32 (&w)[CHAINS][4]) {
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) {
        const u64 second_a = times_M0(place[i]);
        const u64 third_c = times_M1(high(second_a) ^ u.round2_c);
        w[i][0] = high(third_c) ^ u.round3_a;
        w[i][1] = (u32)third_c;
        w[i][2] = u.round3_c ^ (u32)second_a;
        w[i][3] = u.round3_d;
    }
#pragma unroll
    for (int r = 3; r < 10; ++r) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
            const u64 from_a = times_M0(w[i][0]), from_c = times_M1(w[i][2]);
            w[i][0] = high(from_c) ^ w[i][1] ^ keys[2 * r];
            w[i][1] = (u32)from_c;
            w[i][2] = high(from_a) ^ w[i][3] ^ keys[2 * r + 1];
            w[i][3] = (u32)from_a;
        }
    }
}

// sigma r (cos t, sin t) of many pairs of words. log_scale = -2 ln(2) sigma^2, so that sigma r = sqrt(log_scale log2 u).
__device__ __forceinline__ void box_muller(const u32 (&w)[CHAINS][4], float log_scale, float (&radius)[2 * CHAINS],
                                           float (&cosine)[2 * CHAINS], float (&sine)[2 * CHAINS]) {
#pragma unroll
    for (int i = 0; i < 2 * CHAINS; ++i) {
        const float u = fmaf(__uint2float_rn(w[i / 2][i % 2 * 2]), 0x1p-32f, 0x1p-33f);
        const float turn = __int2float_rn((int)w[i / 2][i % 2 * 2 + 1]);  // 2^32 of these are a full turn
#ifdef CLIP
        // Where updates are counted against a limit, the accurate functions: there is no hurry.
        radius[i] = log2f(u);
        sincospif(turn * 0x1p-31f, &sine[i], &cosine[i]);
#else
        const float angle = turn * 1.4629180792671596e-9f;
        asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(radius[i]) : "f"(u));
        asm("sin.approx.ftz.f32 %0, %1;" : "=f"(sine[i]) : "f"(angle));
        asm("cos.approx.ftz.f32 %0, %1;" : "=f"(cosine[i]) : "f"(angle));
#endif
    }
#pragma unroll
    for (int i = 0; i < 2 * CHAINS; ++i) {
#ifdef CLIP
        radius[i] = sqrtf(radius[i] * log_scale);
#else
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(radius[i]) : "f"(radius[i] * log_scale));
#endif
    }
}

// Two floats in half precision.
__device__ __forceinline__ u32 halves(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// x <- x + unit sum, for two sums in half precision.
__device__ __forceinline__ void add_halves(float* x, u32 sums, float unit) {
    float low, high;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(low), "=f"(high) : "r"(sums));
    x[0] = fmaf(low, unit, x[0]);
    x[1] = fmaf(high, unit, x[1]);
}

__device__ __forceinline__ u32 larger_magnitude(u32 a, u32 b) {
    u32 c;
#if __CUDA_ARCH__ >= 860
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
#else
    asm("max.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b & 0x7FFF7FFF));
#endif
    return c;
}

// Halves without sign compare like integers.
__device__ __forceinline__ bool reaches(u32 magnitudes, u32 limit) {
    return (magnitudes & 0x7FFF) >= limit || (magnitudes >> 16 & 0x7FFF) >= limit;
}

// A group of four warps holds all rows of a tile and half of its columns. A warp of the group has WARP_ROWS of the rows: 16
// with wgmma, which leaves its sums so; 32 with mma.sync, which then reads W half as often.
#ifdef HOPPER
constexpr int WARP_ROWS = 16;
#else
constexpr int WARP_ROWS = 32;
#endif
constexpr int COLUMNS = WIDTH / 2;
constexpr int WARP_COLUMNS = COLUMNS * (ROWS / WARP_ROWS) / 4;
constexpr int THREADS = 256 * TILES;

// What a thread holds of a tile. x[4 j + 2 r + e] is row lane / 4 + 8 r and column 2 c + e of block j: the layout in which the
// tensor cores leave a sum. A block is 16 rows and 8 columns of the warp, which begin at block_row and block_column.
// The four columns of blocks 2 k and 2 k + 1 are four nodes that share a call of Philox.
typedef float State[COLUMNS / 2];
__device__ constexpr int block_row(int j) { return j / (WARP_COLUMNS / 8) * 16; }
__device__ constexpr int block_column(int j) { return j % (WARP_COLUMNS / 8) * 8; }

// Where a thread stands.
struct Place {
    int group, tile;    // of the multiprocessor's groups and tiles
    int group_column;   // the group's first column of the tile
    int column, row;    // the warp's first column and the thread's first row of the tile
    int warp, lane, c;  // within the group, the warp, four lanes
};

// Number 0 is of all threads, 1 to 4 are the groups', the next are for the product.
__device__ __forceinline__ void barrier(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void group_barrier(const Place& at) { barrier(1 + at.group, 128); }

// Where the two groups of a tile meet, each says so at the other's barrier and waits at its own.
constexpr int WRITTEN = 5, READ = 9;  // the first of four barriers each
__device__ __forceinline__ void say_to_other(int barriers, int group) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barriers + (group ^ 1)) : "memory");
}
__device__ __forceinline__ void wait_for_other(int barriers, int group) { barrier(barriers + group, 256); }

// The first place of a step as own_part takes it. Places differ by bits of replica and group that are zero in it, so that they
// can be set by one operation. The compiler must not see that they are the same in every step: it would keep all sums in registers.
__device__ __forceinline__ u32 step_place(u32 first_place, const Uniform& uniform) {
    first_place ^= uniform.round1_a;
    asm volatile("" : "+r"(first_place));
    return first_place;
}

// Well, drive and noise of one step, x <- x (linear + cubic x^2) + mu dt h + sigma xi, for a thread's nodes from pair of blocks
// k on, as many as CHAINS calls of Philox are for.
__device__ __forceinline__ void own_part(State& x, const Place& at, const Task& task, const float* drive,
                                         const Uniform& uniform, u32 step_place, int k) {
    u32 place[CHAINS], w[CHAINS][4];
    float radius[2 * CHAINS], cosine[2 * CHAINS], sine[2 * CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) {
        const int j = 2 * (k + i / 2);
        place[i] = step_place ^ ((block_row(j) + 8 * (i % 2)) * 4096 | block_column(j) / 4);
    }
    philox(task.keys, uniform, place, w);
    box_muller(w, task.log_scale, radius, cosine, sine);
#pragma unroll
    for (int i = 0; i < 2 * CHAINS; ++i) {
        const int j = 2 * k + i / 4 * 2 + i % 2, r = i / 2 % 2;
        const float2 h = *(const float2*)&drive[block_column(j) + 2 * at.c];
        float &a = x[4 * j + 2 * r], &b = x[4 * j + 2 * r + 1];
        a = fmaf(a, fmaf(a * a, task.cubic, task.linear), fmaf(radius[i], cosine[i], h.x));
        b = fmaf(b, fmaf(b * b, task.cubic, task.linear), fmaf(radius[i], sine[i], h.y));
    }
}

// Rounds x to half precision, as the product takes it, and keeps the largest magnitudes seen, as two halves.
__device__ __forceinline__ u32 rounded(const State& x, int i, u32& largest) {
    const u32 pair = halves(x[2 * i], x[2 * i + 1]);
    largest = larger_magnitude(largest, pair);
    return pair;
}

// The node of x[i], counted from the first node of the warp.
__device__ __forceinline__ int node_of(int i, int c) {
    const int j = i / 4;
    return block_column(j) / 16 * 16 + 4 * c + 2 * (j % 2) + i % 2;
}

// The node of a column. Blocks of 16 columns are 16 nodes, in another order.
__device__ __forceinline__ int node_of_column(int column) {
    return column / 16 * 16 + 4 * (column % 8 / 2) + 2 * (column / 8 % 2) + column % 2;
}

// Clips every x and returns how many were beyond, padding left out.
__device__ __forceinline__ u32 clip_and_count(State& x, const Place& at, const Task& task, int first_replica, int first_node) {
    u32 beyond = 0;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) {
        const int row = at.row + block_row(i / 4) + 8 * (i / 2 % 2), node = first_node + at.column + node_of(i, at.c);
        const bool real = first_replica + row < task.n_replicas && node < task.n_nodes;
        beyond += real && fabsf(x[i]) > task.clip;
        x[i] = fminf(fmaxf(x[i], -task.clip), task.clip);
    }
    return beyond;
}

// Sums of x^p over the tile's replicas: of 16 rows by shuffles, then the four of these in order through `scratch`.
// They go to `out`, where the group's columns begin in it, order by order `width` apart. Of segments they are in the order of the
// nodes, of which the group's first is `first_node`.
__device__ void write_sums(const State& x, const Place& at, const Task& task, float* out, int width, int first_replica,
                           int first_node, float* scratch) {
    float* const own = scratch + at.row / 16 * COLUMNS + at.column - at.group_column + 2 * at.c;
    for (int p = 1; p <= MAX_ORDER; ++p) {
        if (!(task.orders >> (p - 1) & 1)) continue;
        group_barrier(at);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int replica = first_replica + at.row + block_row(j);
                const float a = replica < task.n_replicas ? x[4 * j + e] : 0.0f;
                const float b = replica + 8 < task.n_replicas ? x[4 * j + 2 + e] : 0.0f;
                float power_a = a, power_b = b;
                for (int q = 1; q < p; ++q) power_a *= a, power_b *= b;
                float sum = power_a + power_b;
                for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
                if (at.lane < 4) own[block_row(j) / 16 * COLUMNS + block_column(j) + e] = sum;
            }
        }
        group_barrier(at);
        const int column = threadIdx.x % COLUMNS;  // a group has as many threads
        const int to = SEGMENTED ? node_of_column(column) : column;
        if (!SEGMENTED || first_node + to < task.n_nodes)
            out[to] = (scratch[column] + scratch[COLUMNS + column]) +
                      (scratch[2 * COLUMNS + column] + scratch[3 * COLUMNS + column]);
        out += width;
    }
    group_barrier(at);
}

