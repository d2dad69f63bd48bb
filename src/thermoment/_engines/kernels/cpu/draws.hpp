// Sums over draws from the laws of single nodes, written once for every processor: what `meanfield` has fluctuate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel.hpp"
#include "noise.hpp"
#include "simd_pair.hpp"

namespace thermoment {

template <class Simd>
class Drawing {
    using V = Pair<Simd>;
    using Float = typename V::Float;
    using Law = Noise<V, false>;

   public:
    explicit Drawing(const Draws& draws) : draws_(draws) {
        for (std::size_t r = 0; r < V::lanes; ++r) {
            lanes_[r] = static_cast<std::uint32_t>(r * 4096);
            // In the last vector of draws the lanes that have none count as zero.
            live_[r] = (draws.n_draws - 1) / V::lanes * V::lanes + r < draws.n_draws ? 1.0f : 0.0f;
        }
    }

    void run() const {
        for (std::size_t sample = 0; sample < draws_.n_samples; ++sample) {
            const std::uint64_t id = draws_.sample_ids[sample];
            const Law noise(draws_.seed, draws_.stream, static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32), 1);
            const auto step = noise.at(draws_.step);
            for (std::size_t node = 0; node < draws_.n_nodes; node += 4) draw(noise, step, sample, node);
        }
    }

   private:
    // All draws of the four nodes from `node` on. A lane is a draw.
    void draw(const Law& noise, const typename Law::Step& step, std::size_t sample, std::size_t node) const {
        const std::size_t n_nodes = draws_.n_nodes - node < 4 ? draws_.n_nodes - node : 4;
        Float sums[4][Draws::most_orders];
        for (auto& of_node : sums)
            for (std::size_t k = 0; k < draws_.n_orders; ++k) of_node[k] = V::floats(0);
        for (std::size_t first = 0; first < draws_.n_draws; first += V::lanes) {
            const auto place = static_cast<std::uint32_t>(first * 4096 + node / 4);
            const auto words = noise.words(step, V::add(V::load(lanes_), V::words(place)));
            Float z[4] = {V::floats(0), V::floats(0), V::floats(0), V::floats(0)};
            noise.add_pair(words.a, words.b, z[0], z[1]);
            noise.add_pair(words.c, words.d, z[2], z[3]);
            const Float counts = first + V::lanes < draws_.n_draws ? V::floats(1) : V::load(live_);
            for (std::size_t q = 0; q < n_nodes; ++q) {
                const Float x = state(sample * draws_.n_nodes + node + q, z[q]);
                Float power = V::mul(counts, x);
                int p = 1;
                for (std::size_t k = 0; k < draws_.n_orders; ++k) {
                    for (; p < draws_.orders[k]; ++p) power = V::mul(power, x);
                    sums[q][k] = V::add(sums[q][k], power);
                }
            }
        }
        for (std::size_t k = 0; k < draws_.n_orders; ++k)
            for (std::size_t q = 0; q < n_nodes; ++q)
                draws_.sums[(sample * draws_.n_orders + k) * draws_.n_nodes + node + q] = V::sum(sums[q][k]);
    }

    // x = mean + spread Y(z), with Y linear between the points at which it is tabulated.
    Float state(std::size_t cell, Float z) const {
        const float last = static_cast<float>(draws_.width - 1), scale = last / (2 * draws_.end);
        const Float v = V::min(V::max(V::fma(z, V::floats(scale), V::floats(last / 2)), V::floats(0)), V::floats(last));
        const auto left = V::truncated(V::min(v, V::floats(last - 1)));
        const float* y = draws_.shapes + draws_.row[cell] * draws_.width;
        const auto at = V::gather(y, left);
        const Float Y = V::fma(V::sub(v, V::from_signed(left)), V::sub(at.right, at.left), at.left);
        return V::fma(V::floats(draws_.spread[cell]), Y, V::floats(draws_.mean[cell]));
    }

    const Draws& draws_;
    alignas(64) std::uint32_t lanes_[V::lanes];
    alignas(64) float live_[V::lanes];
};

template <class Simd>
void draw(const Draws& draws) {
    Drawing<Simd>(draws).run();
}

}  // namespace thermoment
