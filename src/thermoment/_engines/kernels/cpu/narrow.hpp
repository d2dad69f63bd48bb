// Products of a block of samples with a narrow matrix, written once for every processor.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernel.hpp"

namespace thermoment {

// Of `rows` samples from `row` on and `classes` rows of the matrix from `c` on: sums over the features, along the lanes.
template <class Simd, std::size_t rows, std::size_t classes>
void project_tile(const NarrowProduct& product, std::size_t row, std::size_t c) {
    using Float = typename Simd::Float;
    const std::size_t n = product.n_features;
    const float *x = product.x + row * n, *matrix = product.other + c * n;
    Float sum[rows][classes] = {};
    std::size_t f = 0;
    for (; f + Simd::lanes <= n; f += Simd::lanes) {
        Float part[rows];
        for (std::size_t r = 0; r < rows; ++r) std::memcpy(&part[r], x + r * n + f, sizeof(Float));  // it need not be aligned
        for (std::size_t k = 0; k < classes; ++k) {
            Float weight;
            std::memcpy(&weight, matrix + k * n + f, sizeof weight);
            for (std::size_t r = 0; r < rows; ++r) sum[r][k] += part[r] * weight;
        }
    }
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t k = 0; k < classes; ++k) {
            float total = Simd::sum(sum[r][k]);
            for (std::size_t rest = f; rest < n; ++rest) total += x[r * n + rest] * matrix[k * n + rest];
            product.out[(c + k) * product.n_rows + row + r] = total;
        }
}

template <class Simd, std::size_t rows>
void project_rows(const NarrowProduct& product, std::size_t row) {
    constexpr std::size_t together = 5;
    std::size_t c = 0;
    for (; c + together <= product.n_classes; c += together) project_tile<Simd, rows, together>(product, row, c);
    for (; c < product.n_classes; ++c) project_tile<Simd, rows, 1>(product, row, c);
}

// matrix x^T.
template <class Simd>
void project(const NarrowProduct& product) {
    constexpr std::size_t rows = Simd::lanes > 8 ? 4 : 2;  // as many sums as there are registers for
    std::size_t row = 0;
    for (; row + rows <= product.n_rows; row += rows) project_rows<Simd, rows>(product, row);
    for (; row < product.n_rows; ++row) project_rows<Simd, 1>(product, row);
}

// Of `width` vectors of features from `first` on, or of one number where Float is float, and of `classes` rows of the matrix: sums
// over the samples. Returns the first feature that is left. Simd is there so that no two kernels share an instance.
template <class Simd, class Float, std::size_t width, std::size_t classes>
std::size_t collect_blocks(const NarrowProduct& product, std::size_t c, std::size_t first) {
    constexpr std::size_t lanes = sizeof(Float) / sizeof(float);
    const std::size_t n = product.n_features, n_rows = product.n_rows;
    const float *x = product.x, *matrix = product.other + c * n_rows;
    for (; first + width * lanes <= n; first += width * lanes) {
        Float sum[classes][width] = {};
        for (std::size_t row = 0; row < n_rows; ++row) {
            Float part[width];
            for (std::size_t w = 0; w < width; ++w) std::memcpy(&part[w], x + row * n + first + w * lanes, sizeof(Float));
            for (std::size_t k = 0; k < classes; ++k)
                for (std::size_t w = 0; w < width; ++w) sum[k][w] += matrix[k * n_rows + row] * part[w];
        }
        for (std::size_t k = 0; k < classes; ++k)
            std::memcpy(product.out + (c + k) * n + first, sum[k], sizeof sum[k]);
    }
    return first;
}

template <class Simd, std::size_t classes>
void collect_classes(const NarrowProduct& product, std::size_t c) {
    std::size_t feature = collect_blocks<Simd, typename Simd::Float, 2, classes>(product, c, 0);
    feature = collect_blocks<Simd, typename Simd::Float, 1, classes>(product, c, feature);
    collect_blocks<Simd, float, 1, classes>(product, c, feature);
}

// matrix x.
template <class Simd>
void collect(const NarrowProduct& product) {
    constexpr std::size_t together = Simd::lanes > 8 ? 10 : 5;
    std::size_t c = 0;
    for (; c + together <= product.n_classes; c += together) collect_classes<Simd, together>(product, c);
    for (; c < product.n_classes; ++c) collect_classes<Simd, 1>(product, c);
}

}  // namespace thermoment
