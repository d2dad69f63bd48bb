#include "pack.hpp"

#include <cstdint>
#include <cstring>

#include "kernel.hpp"

namespace thermoment {

namespace {

// The upper half of a float32, rounded to nearest, ties to even.
std::uint32_t bfloat16(double value) {
    const float single = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

}  // namespace

Buffer pack_float32(const double* W, double scale, std::size_t n, std::size_t block) {
    Buffer packed = buffer(sizeof(float) * round_up(n, block) * n);
    auto* const out = reinterpret_cast<float*>(packed.data());
    for (std::size_t i = 0; i < n; ++i) {
        float* const column = out + i / block * block * n + i % block;
        for (std::size_t j = 0; j < n; ++j) column[j * block] = static_cast<float>(scale * W[i * n + j]);
    }
    return packed;
}

Buffer pack_bfloat16(const double* W, double scale, std::size_t n, std::size_t block) {
    const std::size_t rows = (n + 1) / 2;
    Buffer packed = buffer(sizeof(std::uint32_t) * round_up(n, block) * rows);
    auto* const out = reinterpret_cast<std::uint32_t*>(packed.data());
    for (std::size_t i = 0; i < n; ++i) {
        std::uint32_t* const column = out + i / block * block * rows + i % block;
        for (std::size_t j = 0; j < n; ++j) column[j / 2 * block] |= bfloat16(scale * W[i * n + j]) << (j % 2 * 16);
    }
    return packed;
}

}  // namespace thermoment
