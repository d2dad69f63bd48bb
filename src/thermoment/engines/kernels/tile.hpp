// The recursion on a tile: all nodes of a vector of replicas, small enough to stay in the cache of a core.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coupling.hpp"
#include "kernel.hpp"
#include "noise.hpp"
#include "simd_pair.hpp"

namespace thermoment {

template <class V, class Product, std::size_t B>
class Tile {
    using Float = typename V::Float;
    using Word = typename V::Word;
    using Unit = typename Product::Unit;
    static_assert(B % 4 == 0, "a block is whole groups of nodes that share a Philox call");

   public:
    Tile(const Problem& problem, const Unit* W, const Unit* rest, const Block& block, std::size_t first_replica, std::size_t n_live,
         void* workspace)
        : problem_(problem),
          noise_(problem.seed, problem.stream, block.sample_id, problem.sigma),
          W_(W),
          rest_(rest),
          drive_(block.drive),
          rows_((problem.n_nodes + Product::nodes_per_row - 1) / Product::nodes_per_row),
          n_live_(n_live) {
        const std::size_t cells = round_up(problem.n_nodes, B) * V::lanes;
        x_ = static_cast<float*>(workspace);
        factor_ = reinterpret_cast<Unit*>(x_ + cells);
        next_factor_ = factor_ + cells / Product::nodes_per_row;
        for (std::size_t k = 0; k < cells; ++k) x_[k] = 0;
        for (std::size_t k = 0; k < cells / Product::nodes_per_row; ++k) factor_[k] = next_factor_[k] = 0;
        for (std::size_t r = 0; r < V::lanes; ++r) {
            places_[r] = static_cast<std::uint32_t>((first_replica + r) * 4096);
            if (r < n_live) live_ |= std::uint32_t{1} << r;
        }
    }

    // Returns false if it was stopped.
    bool run(const std::atomic<bool>& stop) {
        for (std::uint64_t n = 0; n < problem_.n_steps; ++n) {
            const auto step = noise_.at(static_cast<std::uint32_t>(n));
            for (std::size_t first = 0; first < problem_.n_nodes; first += B) {
                if (stop.load(std::memory_order_relaxed)) return false;
                advance(step, first, rest_ && n % rest_period == rest_period - 1);
            }
            Unit* const made = next_factor_;
            next_factor_ = factor_;
            factor_ = made;
        }
        return true;
    }

    // Adds the sums of x^p over the live replicas, in float64 and in the order of the replicas.
    void add_powers(double* sums) const {
        for (std::size_t i = 0; i < problem_.n_nodes; ++i) {
            for (std::size_t r = 0; r < n_live_; ++r) {
                const double x = x_[i * V::lanes + r];
                double power = 1;
                for (std::size_t q = 0, p = 0; q < problem_.n_orders; ++q) {
                    for (; p < static_cast<std::size_t>(problem_.orders[q]); ++p) power *= x;
                    sums[q * problem_.n_nodes + i] += power;
                }
            }
        }
    }

    std::uint64_t clipped() const { return clipped_; }

   private:
    void advance(const typename Noise<V>::Step& step, std::size_t first, bool with_rest) {
        alignas(64) float own[B * V::lanes] = {};
        for (std::size_t i = 0; i < B && first + i < problem_.n_nodes; i += 4)
            own_change(step, first + i, own + i * V::lanes);

        // The sum starts at the small change and not at x, so that x is rounded once a step.
        Float change[B];
        for (std::size_t i = 0; i < B; ++i) change[i] = V::load(own + i * V::lanes);
        Product::accumulate(change, W_ + first * rows_, factor_, rows_);
        if (with_rest) Product::accumulate(change, rest_ + first * rows_, factor_, rows_);
        for (std::size_t i = 0; i < B; ++i) V::store(own + i * V::lanes, change[i]);

        for (std::size_t i = 0; i < B; i += Product::nodes_per_row) move(first + i, own + i * V::lanes);
    }

    // What the four nodes of a group do by themselves: well, drive and noise.
    void own_change(const typename Noise<V>::Step& step, std::size_t node, float* out) const {
        const Word place = V::add(V::load(places_), V::words(static_cast<std::uint32_t>(node / 4)));
        const auto words = noise_.words(step, place);
        Float change[4];
        for (std::size_t q = 0; q < 4; ++q) {
            const Float x = V::load(x_ + (node + q) * V::lanes);
            const Float well = V::fma(V::mul(x, x), V::floats(problem_.cubic), V::floats(problem_.linear));
            change[q] = V::fma(x, well, V::floats(drive_[node + q]));
        }
        noise_.add_pair(words.a, words.b, change[0], change[1]);
        noise_.add_pair(words.c, words.d, change[2], change[3]);
        for (std::size_t q = 0; q < 4; ++q) V::store(out + q * V::lanes, change[q]);
    }

    // x <- clip(x + change) for the nodes of a row. Nodes that only fill a block up stay at zero.
    void move(std::size_t node, const float* change) {
        const Float upper = V::floats(problem_.clip), lower = V::floats(-problem_.clip);
        Float y[Product::nodes_per_row];
        for (std::size_t q = 0; q < Product::nodes_per_row; ++q) {
            y[q] = V::floats(0.0f);
            if (node + q >= problem_.n_nodes) continue;
            float* const x = x_ + (node + q) * V::lanes;
            y[q] = V::add(V::load(x), V::load(change + q * V::lanes));
            if (const std::uint32_t beyond = V::beyond(y[q], upper) & live_) count(beyond);
            y[q] = V::max(lower, V::min(upper, y[q]));
            V::store(x, y[q]);
        }
        Product::store(next_factor_ + node / Product::nodes_per_row * V::lanes, y);
    }

    void count(std::uint32_t beyond) {
        for (; beyond; beyond &= beyond - 1) ++clipped_;
    }

    const Problem& problem_;
    const Noise<V> noise_;
    const Unit* W_;
    const Unit* rest_;
    const float* drive_;
    std::size_t rows_;
    std::size_t n_live_;
    float* x_;           // [node][replica]
    Unit* factor_;       // x as W x reads it, [row][replica]
    Unit* next_factor_;  // the same after this step, while blocks still read the old one
    std::uint32_t live_ = 0;  // a bit for each replica that does not only fill the vector up
    alignas(64) std::uint32_t places_[V::lanes];
    std::uint64_t clipped_ = 0;
};

template <class V, std::size_t B>
std::size_t workspace_bytes(std::size_t n_nodes) {
    return 3 * sizeof(float) * round_up(n_nodes, B) * 2 * V::lanes;
}

template <class V, class Product, std::size_t B>
void run_tile(const Problem& problem, const Coupling& W, const Block& block, std::size_t first, std::size_t n_live,
              void* workspace, double* sums, std::uint64_t* clipped, const std::atomic<bool>& stop) {
    Tile<V, Product, B> tile(problem, Product::main(W), Product::rest(W), block, first, n_live, workspace);
    if (!tile.run(stop)) return;
    tile.add_powers(sums);
    *clipped += tile.clipped();
}

// Two vectors of replicas at a time; one where no more are left. A replica's bits are the same in either.
template <class V, template <class> class Product, std::size_t B>
void run_block(const Problem& problem, const Coupling& W, const Block& block, void* workspace, double* sums,
               std::uint64_t* clipped, const std::atomic<bool>* stop) {
    using Two = Pair<V>;
    for (std::size_t first = block.first; first < block.last && !stop->load(std::memory_order_relaxed);) {
        const std::size_t left = block.last - first, n_live = left < Two::lanes ? left : Two::lanes;
        const auto run = n_live > V::lanes ? run_tile<Two, Product<Two>, B> : run_tile<V, Product<V>, B>;
        run(problem, W, block, first, n_live, workspace, sums, clipped, *stop);
        first += n_live;
    }
}

}  // namespace thermoment
