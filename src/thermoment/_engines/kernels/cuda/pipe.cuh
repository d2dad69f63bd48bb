// How W and x come to a multiprocessor of wide.cu: stages of shared memory, filled by the copy engine while others are multiplied.
//
// A stage is a block of 64 k: of W for the multiprocessor's columns, and of x for its rows. A row of a block is the 128 bytes of
// one column of the result, or of one replica, swizzled: its 16-byte chunk i lies at i ^ (row % 8). Every multiprocessor of a
// cluster reads its share of W and the copy engine hands it to all of them. CLUSTER is how many these are.

#define SUMS4(i) "+r"(sums[i]), "+r"(sums[i + 1]), "+r"(sums[i + 2]), "+r"(sums[i + 3])
#define SUMS16(i) SUMS4(i), SUMS4(i + 4), SUMS4(i + 8), SUMS4(i + 12)

constexpr int STAGES = 4;
constexpr u32 PIECE = ROWS * 128, X_STAGE = TILES * PIECE, W_STAGE = WIDTH * 128;
// Shared memory, in bytes.
constexpr u32 W_STAGES = 0, X_STAGES = W_STAGES + STAGES * W_STAGE;
constexpr u32 DRIVE = X_STAGES + STAGES * X_STAGE, BARRIERS = DRIVE + TILES * 2 * 5 * COLUMNS * 4;

// A place in the ring of stages. `parity` is that of the times the ring has gone round.
struct Stage {
    u32 number = 0, parity = 0;
    __device__ __forceinline__ void advance() {
        if (++number == STAGES) number = 0, parity ^= 1;
    }
    __device__ __forceinline__ u32 before() const { return number == 0 ? STAGES - 1 : number - 1; }
};

// The barriers of the stages: data is there, and room is there, in this multiprocessor and the others of its cluster.
struct Pipe {
    u32 data, room, written;  // addresses; data and room are the first of STAGES barriers

    __device__ explicit Pipe(u32 barriers) : data(barriers), room(barriers + 8 * STAGES), written(room + 8 * STAGES) {}

    __device__ void create() const {
        for (int i = 0; i < STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(data + 8 * i) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(room + 8 * i), "r"(2 * TILES * CLUSTER) : "memory");
        }
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(written), "r"(2 * TILES) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    __device__ __forceinline__ void wait_for_data(const Stage& stage) const { wait(data + 8 * stage.number, stage.parity); }
    __device__ __forceinline__ void wait_for_room(const Stage& stage) const { wait(room + 8 * stage.number, stage.parity ^ 1); }

    __device__ static __forceinline__ void wait(u32 barrier, u32 parity) {
        u32 done;
        do asm volatile("{.reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;"
                        "selp.u32 %0, 1, 0, done;}"
                        : "=r"(done)
                        : "r"(barrier), "r"(parity)
                        : "memory");
        while (!done);
    }

    // A group has written its x for all to see.
    __device__ __forceinline__ void say_written() const {
        if (threadIdx.x % 128 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(written) : "memory");
    }
    __device__ __forceinline__ void wait_for_written(u32 n) const { wait(written, n & 1); }

    // A group has read a stage: one of its threads says so to each multiprocessor of the cluster.
    __device__ __forceinline__ void give_back(u32 number) const {
        const u32 rank = threadIdx.x % 128;
        if (rank < CLUSTER)
            asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                         "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(room + 8 * number),
                         "r"(rank)
                         : "memory");
    }

    __device__ __forceinline__ void expect(const Stage& stage, u32 bytes) const {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(data + 8 * stage.number), "r"(bytes) : "memory");
    }

    // This multiprocessor's share of a block of W, to all of the cluster.
    __device__ __forceinline__ void load_W(const Stage& stage, const unsigned char* from, int rank) const {
        const u32 to = data - BARRIERS + W_STAGES + stage.number * W_STAGE + rank * (W_STAGE / CLUSTER);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                     ::"r"(to), "l"(from), "r"(W_STAGE / CLUSTER), "r"(data + 8 * stage.number), "h"((short)((1 << CLUSTER) - 1))
                     : "memory");
    }

    __device__ __forceinline__ void load_x(const Stage& stage, const unsigned char* from) const {
        const u32 to = data - BARRIERS + X_STAGES + stage.number * X_STAGE;
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                     "r"(X_STAGE), "r"(data + 8 * stage.number)
                     : "memory");
    }

    // A block of the multiprocessor's own x, from the stage that the groups wrote it to.
    __device__ __forceinline__ void store_x(unsigned char* to, u32 number) const {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(data - BARRIERS + X_STAGES + number * X_STAGE), "r"(X_STAGE)
                     : "memory");
    }
    __device__ static __forceinline__ void wait_for_stores() {
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;\n fence.proxy.async;" ::: "memory");
    }
};

// Waits until a count that others raise has come to `least`, and lets the copy engine read what they wrote before.
__device__ __forceinline__ void wait_until(const u32* count, u32 least) {
    u32 found;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(count) : "memory");
    while ((int)(found - least) < 0);
    asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

// What ordinary stores wrote is read by the tensor cores and the copy engine, once a barrier is passed.
__device__ __forceinline__ void show_to_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void store_matrices(u32 to, const u32 (&v)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]),
                 "r"(v[3])
                 : "memory");
}

// Address, 1024 bytes between groups of eight rows, swizzle of 128 bytes.
__device__ __forceinline__ u64 descriptor(u32 address) {
    return (u64)(address >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// sums <- W x + onto * sums, for 16 of the columns of x.
__device__ __forceinline__ void multiply(u32 (&sums)[COLUMNS / 4], u64 a, u64 b, int onto) {
    asm volatile(
        "{.reg .pred onto; setp.ne.b32 onto, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
        "%23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, onto, 1, 1, 0, 0;}"
        : SUMS16(0), SUMS16(16)
        : "l"(a), "l"(b), "r"(onto));
}
