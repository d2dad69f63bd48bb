// Combinations of tabulated curves, written once for every processor: what `meanfield` reads of its tables in every round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel.hpp"

namespace thermoment {

// A lane is a cell. A cubic piece has its coefficients of all shapes side by side, so the shapes at a cell are computed along the
// lanes and then turned round.
template <class Simd>
class CurveBlock {
    using Float = typename Simd::Float;
    using Word = typename Simd::Word;
    static constexpr std::size_t together = Curves::rows_together;

   public:
    explicit CurveBlock(const Curves& curves) : curves_(curves) {
        alignas(64) std::uint32_t starts[Simd::lanes];
        for (std::size_t r = 0; r < Simd::lanes; ++r) starts[r] = static_cast<std::uint32_t>(r * Curves::most_shapes);
        starts_ = Simd::load(starts);
    }

    // Cells `first` to `first` + Simd::lanes - 1.
    void run(std::size_t first) {
        for (std::size_t r = 0; r < Simd::lanes; ++r) shapes_at(first + r, values_ + r * Curves::most_shapes);
        Float shape[Curves::most_shapes];
        for (std::size_t b = 0; b < curves_.n_shapes; b += 2) {
            const auto two = Simd::gather(values_ + b, starts_);
            shape[b] = two.left;
            shape[b + 1] = two.right;
        }
        const std::size_t per_row = curves_.n_fields == 0 ? 1 : curves_.n_fields, n = curves_.n_rows * per_row;
        float* to = curves_.out + first;
        Float sum = Simd::floats(0);
        for (std::size_t e = 0, k = 0; e < n; e += together) {
            Float combined[together];
            combine(e, shape, combined);
            for (std::size_t j = 0; j < together && e + j < n; ++j) {
                if (curves_.n_fields == 0)
                    sum = combined[j];
                else
                    sum = Simd::fma(combined[j], read(curves_.fields + k * curves_.n_cells + first), sum);
                if (++k == per_row) {
                    write(to, sum);
                    to += curves_.n_cells;
                    sum = Simd::floats(0);
                    k = 0;
                }
            }
        }
    }

   private:
    // The cubics of all shapes at a cell.
    void shapes_at(std::size_t cell, float* to) const {
        const std::size_t stride = curves_.stride;
        const float* piece = curves_.pieces + curves_.piece[cell] * 4 * stride;
        const Float f = Simd::floats(curves_.along[cell]);
        for (std::size_t b = 0; b < stride; b += Simd::lanes) {
            Float y = Simd::fma(Simd::load(piece + b), f, Simd::load(piece + stride + b));
            y = Simd::fma(y, f, Simd::load(piece + 2 * stride + b));
            Simd::store(to + b, Simd::fma(y, f, Simd::load(piece + 3 * stride + b)));
        }
    }

    // Combinations e, e + 1, ...: as many sums as are needed to keep the processor busy, since each waits for its last term.
    void combine(std::size_t e, const Float* shape, Float (&sums)[together]) const {
        const float* weight = curves_.matrix + e * curves_.n_shapes;
        for (auto& sum : sums) sum = Simd::floats(0);
        for (std::size_t b = 0; b < curves_.n_shapes; ++b, weight += together)
            for (std::size_t j = 0; j < together; ++j) sums[j] = Simd::fma(Simd::floats(weight[j]), shape[b], sums[j]);
    }

    // They need not be aligned.
    static Float read(const float* from) {
        Float x;
        std::memcpy(&x, from, sizeof x);
        return x;
    }
    static void write(float* to, Float x) { std::memcpy(to, &x, sizeof x); }

    const Curves& curves_;
    Word starts_;
    alignas(64) float values_[Simd::lanes * Curves::most_shapes];
};

// At least as many cells as a vector has lanes. The last block may overlap the one before: it computes the same once more.
template <class Simd>
void sum_curves(const Curves& curves) {
    CurveBlock<Simd> block(curves);
    std::size_t first = 0;
    for (; first + Simd::lanes <= curves.n_cells; first += Simd::lanes) block.run(first);
    if (first < curves.n_cells) block.run(curves.n_cells - Simd::lanes);
}

}  // namespace thermoment
