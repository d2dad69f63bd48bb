// The fastest that W x could be: the product's instruction and nothing else, on numbers that stay in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coupling.hpp"

namespace thermoment {

// Sums that do not wait for each other: more than any processor has multiplications under way, fewer than its registers.
constexpr std::size_t independent_sums = 12;

// Multiplications of single numbers that were done in `rounds` rounds.
template <class V, class Product>
std::uint64_t multiply_only(std::uint64_t rounds) {
    typename V::Float sums[independent_sums];
    for (std::size_t i = 0; i < independent_sums; ++i) sums[i] = V::floats(static_cast<float>(i));
    // Of numbers known only at run time, so that nothing can be worked out beforehand.
    volatile typename Product::Unit unknown{};
    const auto w = Product::spread(unknown), x = Product::spread(unknown);
    for (std::uint64_t round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < independent_sums; ++i) sums[i] = Product::add(sums[i], w, x);
    alignas(64) float seen[V::lanes];
    volatile float used;
    for (std::size_t i = 0; i < independent_sums; ++i) {
        V::store(seen, sums[i]);
        used = seen[0];
    }
    static_cast<void>(used);
    return rounds * independent_sums * V::lanes * Product::nodes_per_row;
}

}  // namespace thermoment
