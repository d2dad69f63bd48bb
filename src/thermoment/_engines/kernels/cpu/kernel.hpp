// What the scheduler and the kernels share: a kernel advances a block of replicas of one sample.
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
    const float* drive;  // mu dt h, padded with zeros to whole groups of four nodes
    Coupling W;          // in float32 for all segments of a sample, or in bfloat16 for all
};

// Replicas `first` to `last` - 1 of one sample. The work is sum_n x_n+1 . (W - W^T) x_n / 2, times mu dt.
struct Block {
    const Segment* segments;
    std::size_t n_segments;
    std::uint64_t sample_id;
    std::size_t first;
    std::size_t last;
    const double* start;       // x of replica 0 before the first step, (n_nodes,); null where every x is 0
    std::size_t start_stride;  // from one replica's x to the next one's in `start`
    double* end;               // x of replica 0 after the last step, (n_replicas, n_nodes); null if not wanted
    double* work;              // work of the coupling on replica 0 until the first reading; null if not accounted for
    std::size_t work_stride;   // from one reading to the next in `work`, (n_reads, ..., n_replicas)
};

struct Kernel {
    const char* name;
    const char* description;
    bool has_bfloat16;
    std::size_t tile_replicas;  // replicas that are advanced together
    std::size_t (*workspace_bytes)(std::size_t n_nodes);
    // For each segment that is read, adds the block's sums of x^p to sums (n_reads, n_orders, n_nodes) and its clipped
    // updates since the first step to clipped (n_reads,). The workspace is aligned to 64 bytes. Returns early, with sums
    // that mean nothing, once *stop is true.
    void (*run)(const Problem&, const Block&, void* workspace, double* sums, std::uint64_t* clipped,
                const std::atomic<bool>* stop);
};

// Nodes come in whole groups of four in memory, as their noise does.
constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace thermoment
