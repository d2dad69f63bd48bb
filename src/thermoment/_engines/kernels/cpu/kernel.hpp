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
    std::uint64_t n_steps;
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

// Replicas `first` to `last` - 1 of one sample.
struct Block {
    const float* drive;  // mu dt h, padded with zeros to whole groups of four nodes
    std::uint64_t sample_id;
    std::size_t first;
    std::size_t last;
};

struct Kernel {
    const char* name;
    const char* description;
    bool has_bfloat16;
    std::size_t tile_replicas;  // replicas that are advanced together
    std::size_t (*workspace_bytes)(std::size_t n_nodes);
    // Adds the block's sums of x^p to sums (n_orders, n_nodes) and its clipped updates to *clipped. The workspace is
    // aligned to 64 bytes. Returns early, with sums that mean nothing, once *stop is true.
    void (*run)(const Problem&, const Coupling&, const Block&, void* workspace, double* sums, std::uint64_t* clipped,
                const std::atomic<bool>* stop);
};

// Nodes come in whole groups of four in memory, as their noise does.
constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace thermoment
