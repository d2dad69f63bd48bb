// The segments of a run: steps in a row under one drive and one W. Both kernels have this beside node.cuh.
//
// Without SEGMENTS a run is one segment from x = 0, of which only moments leave the kernel. The compiler knows that, and the
// machine code has nothing of segments in it.

struct Segment {
    u32 n_steps;
    int drive, coupling;  // which of the task's drives, and which W
    int read;             // whether moments are read at its end
    float unit;           // of this W
};

// What the host asks for beside the task, where there are segments. Drives are then (drives, samples, nodes) and sums (readings,
// samples, blocks, orders, nodes), both in the order of the nodes; counts of clipped updates and what is unsure have a row for each
// reading. task.n_steps is that of all segments.
struct Course {
    const Segment* segments;
    const float* start;                // x before the first step, null for 0
    float* states;                     // (samples, replicas, nodes): x at the end, null where nobody wants it
    u64 sample_stride, replica_stride; // of start
    int n_segments;
    u32 first_step;                    // its number in the noise contract
};

__device__ __forceinline__ int segment_count(const Course& course) { return SEGMENTED ? course.n_segments : 1; }
__device__ __forceinline__ u32 first_step(const Course& course) { return SEGMENTED ? course.first_step : 0; }
__device__ __forceinline__ Segment segment_of(const Course& course, const Task& task, int s) {
    if (SEGMENTED) return course.segments[s];
    return {task.n_steps, 0, 0, 1, task.unit};
}

// The drive of a column, counted from `first_column` on, of `width` in all.
__device__ __forceinline__ float drive_at(const Task& task, int drive, int sample, int width, int first_column, int column) {
    if (!SEGMENTED) return task.drive[(u64)sample * width + first_column + column];
    const int node = node_of_column(first_column + column);
    return node < task.n_nodes ? task.drive[((u64)drive * task.n_samples + sample) * task.n_nodes + node] : 0.0f;
}

// Calls visit(x[i], number) for each node of the thread that is more than padding; number is that of replica and node in (replicas,
// nodes), with `stride` from a replica to the next.
template <class Visit>
__device__ __forceinline__ void visit_nodes(State& x, const Place& at, const Task& task, int first_replica, int first_node,
                                            u64 stride, Visit visit) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) {
        const int replica = first_replica + at.row + block_row(i / 4) + 8 * (i / 2 % 2);
        const int node = first_node + at.column + node_of(i, at.c);
        if (replica < task.n_replicas && node < task.n_nodes) visit(x[i], replica * stride + node);
    }
}

// x before the first step.
__device__ __forceinline__ void begin(State& x, const Course& course, const Place& at, const Task& task, int sample,
                                      int first_replica, int first_node) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) x[i] = 0.0f;
    if (!SEGMENTED || !course.start) return;
    const float* const from = course.start + sample * course.sample_stride;
    visit_nodes(x, at, task, first_replica, first_node, course.replica_stride, [&](float& own, u64 i) { own = from[i]; });
}

// Hands x out after the last step.
__device__ __forceinline__ void finish(State& x, const Course& course, const Place& at, const Task& task, int sample,
                                       int first_replica, int first_node) {
    if (!SEGMENTED || !course.states) return;
    float* const to = course.states + (u64)sample * task.n_replicas * task.n_nodes;
    visit_nodes(x, at, task, first_replica, first_node, task.n_nodes, [&](float& own, u64 i) { to[i] = own; });
}

// Rounds x for the product before every step, and keeps it within the clip.
#ifdef SEGMENTS

// Clips and counts in every step in which the clip is reached, so that a run has the same bits however it is cut. With CLIP it
// does so in all steps.
struct Guard {
    bool real;  // whether the tile is one of the task's
    int first_replica, first_node, sample, reading = 0;
    u32 pairs[COLUMNS / 4] = {};

    __device__ __forceinline__ void look(State& x, const Place& at, const Task& task) {
        u32 largest = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) pairs[i] = rounded(x, i, largest);
        const u64 where = (u64)reading * task.n_samples + sample;
#ifndef CLIP
        // Whole warps do it: the product needs them together.
        if (__builtin_expect(!__any_sync(~0u, reaches(largest, task.limit)), 1)) return;
        if (real) task.unsure[where] = 1;
#endif
        const u32 beyond = clip_and_count(x, at, task, first_replica, first_node);
        if (beyond) atomicAdd(&task.clipped[where], (u64)beyond);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) pairs[i] = halves(x[2 * i], x[2 * i + 1]);
    }
    __device__ __forceinline__ u32 pair(const State&, int i) const { return pairs[i]; }
    __device__ __forceinline__ void look_at_end(State& x, const Place& at, const Task& task) { look(x, at, task); }
};

#else

// Only watches the largest magnitude. Where that reaches the clip, the host has the sample done again, with CLIP.
struct Guard {
    bool real;
    int first_replica, first_node, sample, reading = 0;
    u32 largest = 0;

    __device__ __forceinline__ void look(State&, const Place&, const Task&) const {}
    __device__ __forceinline__ u32 pair(const State& x, int i) { return rounded(x, i, largest); }
    __device__ __forceinline__ void look_at_end(State& x, const Place&, const Task& task) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) rounded(x, i, largest);
        if (real && reaches(largest, task.limit)) task.unsure[sample] = 1;
    }
};

#endif
