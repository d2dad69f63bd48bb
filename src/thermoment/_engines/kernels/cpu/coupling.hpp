// The product W x for the four nodes of a group, their sums in registers, in float32 or with bfloat16 factors.
//
// Packed W is [group][row of x][node of the group], the order in which the inner loop reads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel.hpp"

namespace thermoment {

// A row of x is one node, its replicas in float32.
template <class V>
struct Float32 {
    using Unit = float;
    using Row = typename V::Float;
    static constexpr std::size_t nodes_per_row = 1;

    static const Unit* main(const Coupling& W) { return W.single; }
    static const Unit* rest(const Coupling&) { return nullptr; }

    static Row spread(Unit w) { return V::floats(w); }
    static typename V::Float add(typename V::Float sum, Row w, Row x) { return V::fma(w, x, sum); }

    static void store(Unit* row, const typename V::Float* nodes) { V::store(row, nodes[0]); }
};

// A row of x is two nodes: a 32-bit lane holds the bfloat16 values of both for one replica, the even node below.
// Products are summed in float32.
template <class V>
struct Bfloat16 {
    using Unit = std::uint32_t;
    using Row = typename V::Word;
    static constexpr std::size_t nodes_per_row = 2;

    static const Unit* main(const Coupling& W) { return W.halved; }
    static const Unit* rest(const Coupling& W) { return W.rest; }

    static Row spread(Unit w) { return V::words(w); }
    static typename V::Float add(typename V::Float sum, Row w, Row x) { return V::dot(w, x, sum); }

    static void store(Unit* row, const typename V::Float* nodes) { V::store(row, V::to_bfloat16(nodes[0], nodes[1])); }
};

// Adds W x of the four nodes of a group to their sums. W points to the group, x to the first of `rows` rows.
template <class V, class Product>
void accumulate(typename V::Float (&sum)[4], const typename Product::Unit* W, const typename Product::Unit* x,
                std::size_t rows) {
    for (std::size_t k = 0; k < rows; ++k, W += 4, x += V::lanes) {
        const auto column = V::load(x);
        for (std::size_t i = 0; i < 4; ++i) sum[i] = Product::add(sum[i], Product::spread(W[i]), column);
    }
}

}  // namespace thermoment
