// What the scheduler and the kernels share: a kernel advances a block of replicas, of one sample or of several.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace thermoment {

// The recursion and how it is read, the same for all samples. Force terms are already multiplied by mu dt:
//   x <- x + linear x + cubic x^3 + drive + coupling x + sigma xi
struct Problem {
    std::size_t n_nodes;
    std::size_t n_replicas;
    std::uint64_t first_step;
    std::uint32_t seed;
    std::uint32_t stream;
    float linear;
    float cubic;
    float sigma;
    float clip;
    const int* orders;
    std::size_t n_orders;
};

// mu dt W as a kernel reads it (layouts in coupling.hpp): in float32, or in bfloat16 with the rest that rounding left,
// `rest_period` times as large and applied every `rest_period` steps.
struct Coupling {
    const float* single;
    const std::uint32_t* halved;
    const std::uint32_t* rest;
};
constexpr std::uint64_t rest_period = 16;

// A run of steps in which drive and coupling of a sample do not change.
struct Segment {
    std::uint64_t n_steps;
    bool read;           // whether sums are taken at its end
    const float* drive;  // mu dt h of the block's samples, each padded with zeros to whole groups of four nodes
    Coupling W;          // in float32 for all segments of a sample, or in bfloat16 for all
};

// Replicas `first` to `last` - 1 of one sample, or of several samples whose replicas all fit into one tile. Pointers are those
// of sample 0 and replica 0. The work is sum_n x_n+1 . (W - W^T) x_n / 2, times mu dt.
struct Block {
    const Segment* segments;
    std::size_t n_segments;
    const std::size_t* samples;       // (n_samples,): their numbers
    std::size_t n_samples;
    const std::uint64_t* sample_ids;  // by number of the sample
    std::size_t first;
    std::size_t last;
    const double* start;  // x before the first step, null where every x is 0; what follows are the steps within it
    std::size_t start_sample_stride, start_replica_stride;
    double* end;              // x after the last step, (S, n_replicas, n_nodes); null if not wanted
    double* work;             // work of the coupling until the first reading, (S, n_replicas); null if not accounted for
    std::size_t work_stride;  // from one reading to the next in `work`
    std::size_t n_reads;
};

// A product of a matrix that is mostly zeros with another one: row r of `out`, n_nodes numbers, is the sum over k from
// begin[r] to end[r] - 1 of value[k] times row index[k] of `matrix`. Strides are from one row to the next.
struct SparseProduct {
    std::size_t n_rows, n_nodes;
    const std::int32_t *begin, *end, *index;
    const float *value, *matrix;
    std::size_t matrix_stride;
    float* out;
    std::size_t out_stride;
};

// Draws x = mean + spread Y(z) of every node of every sample, z the noise of the contract at `step` with a draw in the place of a
// replica, and Y a shape that is tabulated at `width` points from -end to end and linear between them.
struct Draws {
    static constexpr std::size_t most_orders = 8;
    std::size_t n_samples, n_nodes, n_draws;
    const std::int32_t* orders;  // ascending, from 1
    std::size_t n_orders;
    std::uint32_t seed, stream, step;
    const std::uint64_t* sample_ids;
    const float *mean, *spread;  // (n_samples, n_nodes), as is row
    const std::int32_t* row;     // which shape a node has
    const float* shapes;
    std::size_t width;
    float end;
    float* sums;  // of x^p over the draws: (n_samples, n_orders, n_nodes)
};

// Combinations of shapes, which are cubic splines: at a cell, shape b is the cubic `piece` of it, `along` from 0 to 1. Row a of `out`
// is combination a of the shapes, or where there are fields the sum over k of field k times combination a n_fields + k.
struct Curves {
    static constexpr std::size_t most_shapes = 32, rows_together = 8;
    std::size_t n_cells;
    const std::int32_t* piece;  // (n_cells,), as is along
    const float* along;
    std::size_t n_shapes, stride;  // the stride is n_shapes filled up to whole vectors
    const float* pieces;           // coefficients, highest power first: (pieces, 4, stride), aligned to 64 bytes
    const float* matrix;           // the combinations: (rows / rows_together, n_shapes, rows_together), filled up with zeros
    std::size_t n_rows, n_fields;
    const float* fields;  // (n_fields, n_cells)
    float* out;           // (n_rows, n_cells)
};

// A product of some samples, n_rows rows of x, with a matrix of few rows, one a class. Both are stored row by row.
struct NarrowProduct {
    std::size_t n_rows, n_features, n_classes;
    const float *x, *other;
    float* out;
};

struct Kernel {
    const char* name;
    const char* description;
    bool has_bfloat16;
    std::size_t tile_replicas;  // replicas that are advanced together
    std::size_t (*workspace_bytes)(std::size_t n_nodes);
    // For each segment that is read, adds the sums of x^p over the replicas of the block to sums
    // (n_samples, n_reads, n_orders, n_nodes) and the block's clipped updates since the first step to clipped (n_reads,). The workspace is aligned to 64 bytes. Returns early, with sums
    // that mean nothing, once *stop is true.
    void (*run)(const Problem&, const Block&, void* workspace, double* sums, std::uint64_t* clipped,
                const std::atomic<bool>* stop);
    void (*sum_rows)(const SparseProduct&);
    void (*draw)(const Draws&);
    void (*sum_curves)(const Curves&);
    void (*project)(const NarrowProduct&);  // (C, F) times x^T: (C, n_rows)
    void (*collect)(const NarrowProduct&);  // (C, n_rows) times x: (C, F)
};

// Nodes come in whole groups of four in memory, as their noise does.
constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace thermoment
