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

double value_of(std::uint32_t half) {
    const std::uint32_t bits = half << 16;
    float single;
    std::memcpy(&single, &bits, sizeof single);
    return single;
}

// entry(W_ij), in bfloat16, two columns of W to a word.
template <class Entry>
Buffer pack_pairs(const double* W, std::size_t n, Entry entry) {
    const std::size_t rows = (n + 1) / 2;
    Buffer packed = buffer(sizeof(std::uint32_t) * round_up(n, 4) * rows);
    auto* const out = reinterpret_cast<std::uint32_t*>(packed.data());
    for (std::size_t i = 0; i < n; ++i) {
        std::uint32_t* const column = out + i / 4 * 4 * rows + i % 4;
        for (std::size_t j = 0; j < n; ++j) column[j / 2 * 4] |= bfloat16(entry(W[i * n + j])) << (j % 2 * 16);
    }
    return packed;
}

}  // namespace

Buffer pack_float32(const double* W, double scale, std::size_t n) {
    Buffer packed = buffer(sizeof(float) * round_up(n, 4) * n);
    auto* const out = reinterpret_cast<float*>(packed.data());
    for (std::size_t i = 0; i < n; ++i) {
        float* const column = out + i / 4 * 4 * n + i % 4;
        for (std::size_t j = 0; j < n; ++j) column[j * 4] = static_cast<float>(scale * W[i * n + j]);
    }
    return packed;
}

Buffer pack_bfloat16(const double* W, double scale, std::size_t n) {
    return pack_pairs(W, n, [=](double w) { return scale * w; });
}

Buffer pack_bfloat16_rest(const double* W, double scale, double period, std::size_t n) {
    return pack_pairs(W, n, [=](double w) { return period * (scale * w - value_of(bfloat16(scale * w))); });
}

}  // namespace thermoment
