// The recursion on a tile: all nodes of a vector of replicas, small enough to stay in the cache of a core.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coupling.hpp"
#include "kernel.hpp"
#include "noise.hpp"
#include "simd_pair.hpp"

namespace thermoment {

// Where `accounts` is true, the tile also sums the work of the coupling's antisymmetric part. With x_-1 = 0 before the
// first step of a segment of T steps,
//   sum_n x_n+1 . (W - W^T) x_n / 2 = sum_n (x_n+1 - x_n-1) . W x_n / 2 - x_T-1 . W x_T / 2,
// so that the W x_n of the step is all it takes, and one more product at the end.
// Where `mixed` is true, lanes hold replicas of several samples, and the tile spreads their drives over the lanes.
template <class V, class Product, bool accounts, bool mixed>
class Tile {
    using Float = typename V::Float;
    using Unit = typename Product::Unit;

   public:
    Tile(const Problem& problem, const Block& block, std::size_t first_replica, std::size_t n_live, void* workspace)
        : problem_(problem),
          block_(block),
          first_replica_(first_replica),
          per_sample_(mixed ? n_live / block.n_samples : n_live),
          noise_(problem.seed, problem.stream, sample_words(0), sample_words(32), problem.sigma),
          n_(problem.first_step),
          rows_((problem.n_nodes + Product::nodes_per_row - 1) / Product::nodes_per_row),
          n_live_(n_live) {
        const std::size_t cells = round_up(problem.n_nodes, 4) * V::lanes;
        x_ = static_cast<float*>(workspace);
        factor_ = reinterpret_cast<Unit*>(x_ + cells);
        next_factor_ = factor_ + cells / Product::nodes_per_row;
        before_ = reinterpret_cast<float*>(next_factor_ + cells / Product::nodes_per_row);
        drives_ = before_ + cells;
        for (std::size_t k = 0; k < cells; ++k) x_[k] = 0;
        for (std::size_t k = 0; k < cells / Product::nodes_per_row; ++k) factor_[k] = next_factor_[k] = 0;
        for (std::size_t r = 0; r < V::lanes; ++r) {
            places_[r] = static_cast<std::uint32_t>(replica(r) * 4096);
            if (r < n_live) live_ |= std::uint32_t{1} << r;
        }
        if (block.start) start();
    }

    // Takes the steps of a segment. Returns false if it was stopped.
    bool run(const Segment& segment, const std::atomic<bool>& stop) {
        W_ = Product::main(segment.W);
        rest_ = Product::rest(segment.W);
        drive_ = segment.drive;
        if constexpr (mixed) spread_drives();
        const std::uint64_t end = n_ + segment.n_steps;
        if constexpr (accounts)
            for (std::size_t k = 0; k < round_up(problem_.n_nodes, 4) * V::lanes; ++k) before_[k] = 0;
        for (std::uint64_t n = n_; n < end; ++n) {
            const auto step = noise_.at(static_cast<std::uint32_t>(n));
            const bool with_rest = rest_ && n % rest_period == rest_period - 1;
            for (std::size_t node = 0; node < problem_.n_nodes; node += 4) {
                if (stop.load(std::memory_order_relaxed)) return false;
                advance(step, node, with_rest);
            }
            Unit* const old = factor_;
            factor_ = next_factor_;
            next_factor_ = old;
            if constexpr (accounts) add_work(0.5);
        }
        if constexpr (accounts) {
            for (std::size_t node = 0; node < problem_.n_nodes; node += 4) look_back(node);
            add_work(-0.5);
        }
        n_ = end;
        return true;
    }

    // Adds the sums of x^p over the live replicas of each sample, in float64 and in the order of the replicas. `sums` is
    // that of the first sample.
    void add_powers(double* sums) const {
        const std::size_t stride = block_.n_reads * problem_.n_orders * problem_.n_nodes;
        for (std::size_t i = 0; i < problem_.n_nodes; ++i) {
            for (std::size_t r = 0; r < n_live_; ++r) {
                const double x = x_[i * V::lanes + r];
                double power = 1;
                for (std::size_t q = 0, p = 0; q < problem_.n_orders; ++q) {
                    for (; p < static_cast<std::size_t>(problem_.orders[q]); ++p) power *= x;
                    sums[slot(r) * stride + q * problem_.n_nodes + i] += power;
                }
            }
        }
    }

    // Writes x of the live replicas.
    void copy_state() const {
        for (std::size_t r = 0; r < n_live_; ++r) {
            double* const state = block_.end + row(r) * problem_.n_nodes;
            for (std::size_t i = 0; i < problem_.n_nodes; ++i) state[i] = x_[i * V::lanes + r];
        }
    }

    // Writes the work since the first step of the live replicas into that of a reading, (S, n_replicas).
    void copy_work(double* work) const {
        for (std::size_t r = 0; r < n_live_; ++r) work[row(r)] = work_[r];
    }

    std::uint64_t clipped() const { return clipped_; }

   private:
    // Which of the block's samples lane r has, which of its replicas, and its row in an array (S, n_replicas).
    std::size_t slot(std::size_t r) const { return mixed ? r / per_sample_ : 0; }
    std::size_t replica(std::size_t r) const { return first_replica_ + (mixed ? r % per_sample_ : r); }
    std::size_t row(std::size_t r) const { return block_.samples[slot(r)] * problem_.n_replicas + replica(r); }

    // 32 bits of the sample id of all lanes, `shift` and up. Lanes without a replica repeat the last sample.
    typename Noise<V, mixed>::Shared sample_words(unsigned shift) const {
        alignas(64) std::uint32_t words[V::lanes];
        for (std::size_t r = 0; r < V::lanes; ++r) {
            const std::size_t k = slot(r) < block_.n_samples ? slot(r) : block_.n_samples - 1;
            words[r] = static_cast<std::uint32_t>(block_.sample_ids[block_.samples[k]] >> shift);
        }
        if constexpr (mixed)
            return V::load(words);
        else
            return words[0];
    }

    // The drives of the segment as the lanes need them, [node][replica].
    void spread_drives() {
        const std::size_t padded = round_up(problem_.n_nodes, 4);
        for (std::size_t i = 0; i < padded; ++i)
            for (std::size_t r = 0; r < V::lanes; ++r)
                drives_[i * V::lanes + r] = r < n_live_ ? drive_[slot(r) * padded + i] : 0;
    }

    // x of the live replicas, and the factors that go with it.
    void start() {
        for (std::size_t r = 0; r < n_live_; ++r) {
            const double* const state = block_.start + block_.samples[slot(r)] * block_.start_sample_stride +
                                        replica(r) * block_.start_replica_stride;
            for (std::size_t i = 0; i < problem_.n_nodes; ++i) x_[i * V::lanes + r] = static_cast<float>(state[i]);
        }
        for (std::size_t node = 0; node < problem_.n_nodes; node += Product::nodes_per_row) {
            Float x[Product::nodes_per_row];
            for (std::size_t q = 0; q < Product::nodes_per_row; ++q) x[q] = V::load(x_ + (node + q) * V::lanes);
            Product::store(factor_ + node / Product::nodes_per_row * V::lanes, x);
        }
    }

    // One step of the group of four nodes from `node` on.
    void advance(const typename Noise<V, mixed>::Step& step, std::size_t node, bool with_rest) {
        // The sum over W x starts at the small change and not at x, so that x is rounded once a step.
        Float change[4];
        own_change(step, node, change);
        [[maybe_unused]] Float own[4];
        if constexpr (accounts)
            for (std::size_t q = 0; q < 4; ++q) own[q] = change[q];
        accumulate<V, Product>(change, W_ + node * rows_, factor_, rows_);
        if (with_rest) accumulate<V, Product>(change, rest_ + node * rows_, factor_, rows_);
        if constexpr (accounts) push(node, own, change);
        for (std::size_t i = 0; i < 4; i += Product::nodes_per_row) move(node + i, change + i);
    }

    // What the nodes of a group do by themselves: well, drive and noise.
    void own_change(const typename Noise<V, mixed>::Step& step, std::size_t node, Float (&change)[4]) const {
        const auto group = static_cast<std::uint32_t>(node / 4);
        const auto words = noise_.words(step, V::add(V::load(places_), V::words(group)));
        for (std::size_t q = 0; q < 4; ++q) {
            const Float x = V::load(x_ + (node + q) * V::lanes);
            const Float well = V::fma(V::mul(x, x), V::floats(problem_.cubic), V::floats(problem_.linear));
            if constexpr (mixed)
                change[q] = V::fma(x, well, V::load(drives_ + (node + q) * V::lanes));
            else
                change[q] = V::fma(x, well, V::floats(drive_[node + q]));
        }
        noise_.add_pair(words.a, words.b, change[0], change[1]);
        noise_.add_pair(words.c, words.d, change[2], change[3]);
    }

    // x <- clip(x + change) for the nodes of a row. Nodes that only fill a group up stay at zero.
    void move(std::size_t node, const Float* change) {
        const Float upper = V::floats(problem_.clip), lower = V::floats(-problem_.clip);
        Float y[Product::nodes_per_row];
        for (std::size_t q = 0; q < Product::nodes_per_row; ++q) {
            y[q] = V::floats(0.0f);
            if (node + q >= problem_.n_nodes) continue;
            float* const x = x_ + (node + q) * V::lanes;
            y[q] = V::add(V::load(x), change[q]);
            if (const std::uint32_t beyond = V::beyond(y[q], upper) & live_) count(beyond);
            y[q] = V::max(lower, V::min(upper, y[q]));
            V::store(x, y[q]);
        }
        Product::store(next_factor_ + node / Product::nodes_per_row * V::lanes, y);
    }

    // Adds x_n+1 . W x_n - x_n-1 . W x_n of a group to the work of the step; x_n is kept for the next step.
    void push(std::size_t node, const Float (&own)[4], const Float (&change)[4]) {
        const Float upper = V::floats(problem_.clip), lower = V::floats(-problem_.clip);
        for (std::size_t q = 0; q < 4 && node + q < problem_.n_nodes; ++q) {
            float* const before = before_ + (node + q) * V::lanes;
            const Float x = V::load(x_ + (node + q) * V::lanes);
            const Float after = V::max(lower, V::min(upper, V::add(x, change[q])));
            step_work_ = V::fma(V::sub(after, V::load(before)), V::sub(change[q], own[q]), step_work_);
            V::store(before, x);
        }
    }

    // Adds x_T-1 . W x_T of a group to the work, once the last step of a segment is done.
    void look_back(std::size_t node) {
        Float pushed[4];
        for (std::size_t q = 0; q < 4; ++q) pushed[q] = V::floats(0.0f);
        accumulate<V, Product>(pushed, W_ + node * rows_, factor_, rows_);
        for (std::size_t q = 0; q < 4 && node + q < problem_.n_nodes; ++q)
            step_work_ = V::fma(V::load(before_ + (node + q) * V::lanes), pushed[q], step_work_);
    }

    // Takes the work of a step into the sums, which are float64.
    void add_work(double factor) {
        alignas(64) float gained[V::lanes];
        V::store(gained, step_work_);
        for (std::size_t r = 0; r < V::lanes; ++r) work_[r] += factor * static_cast<double>(gained[r]);
        step_work_ = V::floats(0.0f);
    }

    void count(std::uint32_t beyond) {
        for (; beyond; beyond &= beyond - 1) ++clipped_;
    }

    const Problem& problem_;
    const Block& block_;
    std::size_t first_replica_;
    std::size_t per_sample_;  // replicas of each sample in this tile
    const Noise<V, mixed> noise_;
    std::uint64_t n_;  // the number of the next step
    const Unit* W_ = nullptr;
    const Unit* rest_ = nullptr;
    const float* drive_ = nullptr;
    std::size_t rows_;
    std::size_t n_live_;
    float* x_;                // [node][replica]
    Unit* factor_;            // x as W x reads it, [row][replica]
    Unit* next_factor_;       // the same after this step, while other groups still read the old one
    float* before_;           // x before the last step, [node][replica]; used where the tile accounts for work
    float* drives_;           // drives of several samples, [node][replica]; used where the tile has several
    Float step_work_ = V::floats(0.0f);
    double work_[V::lanes] = {};
    std::uint32_t live_ = 0;  // a bit for each replica that does not only fill the vector up
    alignas(64) std::uint32_t places_[V::lanes];
    std::uint64_t clipped_ = 0;
};

template <class V>
std::size_t workspace_bytes(std::size_t n_nodes) {
    return 5 * sizeof(float) * round_up(n_nodes, 4) * 2 * V::lanes;
}

template <class V, class Product, bool accounts, bool mixed>
void run_tile(const Problem& problem, const Block& block, std::size_t first, std::size_t n_live, void* workspace,
              double* sums, std::uint64_t* clipped, const std::atomic<bool>& stop) {
    Tile<V, Product, accounts, mixed> tile(problem, block, first, n_live, workspace);
    double* work = block.work;
    for (const Segment *segment = block.segments, *end = segment + block.n_segments; segment != end; ++segment) {
        if (!tile.run(*segment, stop)) return;
        if (!segment->read) continue;
        tile.add_powers(sums);
        *clipped++ += tile.clipped();
        if constexpr (accounts) {
            tile.copy_work(work);
            work += block.work_stride;
        }
        sums += problem.n_orders * problem.n_nodes;
    }
    if (block.end) tile.copy_state();
}

// Two vectors of replicas at a time; one where no more are left. A replica's bits are the same in either, and alone or
// beside those of other samples.
template <class V, template <class> class Product, bool accounts>
void run_tiles(const Problem& problem, const Block& block, void* workspace, double* sums, std::uint64_t* clipped,
               const std::atomic<bool>* stop) {
    using Two = Pair<V>;
    if (block.n_samples > 1) {
        const std::size_t n_live = block.n_samples * (block.last - block.first);
        const auto run =
            n_live > V::lanes ? run_tile<Two, Product<Two>, accounts, true> : run_tile<V, Product<V>, accounts, true>;
        return run(problem, block, block.first, n_live, workspace, sums, clipped, *stop);
    }
    for (std::size_t first = block.first; first < block.last && !stop->load(std::memory_order_relaxed);) {
        const std::size_t left = block.last - first, n_live = left < Two::lanes ? left : Two::lanes;
        const auto run =
            n_live > V::lanes ? run_tile<Two, Product<Two>, accounts, false> : run_tile<V, Product<V>, accounts, false>;
        run(problem, block, first, n_live, workspace, sums, clipped, *stop);
        first += n_live;
    }
}

template <class V, template <class> class Product>
void run_block(const Problem& problem, const Block& block, void* workspace, double* sums, std::uint64_t* clipped,
               const std::atomic<bool>* stop) {
    const auto run = block.work ? run_tiles<V, Product, true> : run_tiles<V, Product, false>;
    run(problem, block, workspace, sums, clipped, stop);
}

}  // namespace thermoment
