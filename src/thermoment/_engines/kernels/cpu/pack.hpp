// W in the layouts of coupling.hpp.
#pragma once

#include <cstddef>
#include <vector>

namespace thermoment {

// Memory aligned for every kernel.
struct alignas(64) CacheLine {
    unsigned char bytes[64];
};
using Buffer = std::vector<CacheLine>;
inline Buffer buffer(std::size_t bytes) { return Buffer((bytes + sizeof(CacheLine) - 1) / sizeof(CacheLine)); }

// scale * W (n, n), filled up to whole groups of nodes with zeros.
Buffer pack_float32(const double* W, double scale, std::size_t n);
Buffer pack_bfloat16(const double* W, double scale, std::size_t n);
// period * (scale * W - what pack_bfloat16 gives), again in bfloat16.
Buffer pack_bfloat16_rest(const double* W, double scale, double period, std::size_t n);

}  // namespace thermoment
