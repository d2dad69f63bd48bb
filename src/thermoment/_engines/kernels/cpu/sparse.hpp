// A product with a matrix that is mostly zeros: sums of rows of the other one, written once for every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel.hpp"

namespace thermoment {

// From node `first` on, as many blocks of nodes as there are left, each of `width` vectors, or of one number where Float is
// float. Returns the first node that is left. Simd is there so that no two kernels share an instance.
template <class Simd, class Float, std::size_t width>
std::size_t sum_blocks(const SparseProduct& product, std::size_t first) {
    constexpr std::size_t lanes = sizeof(Float) / sizeof(float);
    for (; first + width * lanes <= product.n_nodes; first += width * lanes)
        for (std::size_t r = 0; r < product.n_rows; ++r) {
            Float sum[width] = {};
            for (std::int32_t k = product.begin[r]; k < product.end[r]; ++k) {
                const float* row = product.matrix + product.index[k] * product.matrix_stride + first;
                for (std::size_t w = 0; w < width; ++w) {
                    Float part;
                    std::memcpy(&part, row + w * lanes, sizeof part);  // it need not be aligned
                    sum[w] += product.value[k] * part;
                }
            }
            std::memcpy(product.out + r * product.out_stride + first, sum, sizeof sum);
        }
    return first;
}

// A block is the nodes whose sums fit into half of the registers: a processor has at least twice as many of them as each has lanes.
// Then come smaller blocks. A node's sum is taken in order in any of them.
template <class Simd>
void sum_rows(const SparseProduct& product) {
    using Float = typename Simd::Float;
    std::size_t node = sum_blocks<Simd, Float, Simd::lanes>(product, 0);
    node = sum_blocks<Simd, Float, 4>(product, node);
    node = sum_blocks<Simd, Float, 1>(product, node);
    sum_blocks<Simd, float, 1>(product, node);
}

}  // namespace thermoment
