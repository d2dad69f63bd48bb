// The product W x for a few nodes at a time, their sums in registers, in float32 or with bfloat16 factors.
//
// Packed W is [block of nodes][row of x][node in block]: what the inner loop reads, in the order in which it reads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel.hpp"

namespace thermoment {

// A row of x is one node, its replicas in float32.
template <class V>
struct Float32 {
    using Unit = float;
    static constexpr std::size_t nodes_per_row = 1;

    static const Unit* main(const Coupling& W) { return W.single; }
    static const Unit* rest(const Coupling&) { return nullptr; }

    template <std::size_t B, std::size_t T>
    static void accumulate(typename V::Float (&sum)[B][T], const Unit* W, const Unit* x, std::size_t rows) {
        for (std::size_t k = 0; k < rows; ++k, W += B, x += T * V::lanes) {
            typename V::Float column[T];
            for (std::size_t t = 0; t < T; ++t) column[t] = V::load(x + t * V::lanes);
            for (std::size_t i = 0; i < B; ++i) {
                const typename V::Float weight = V::floats(W[i]);
                for (std::size_t t = 0; t < T; ++t) sum[i][t] = V::fma(weight, column[t], sum[i][t]);
            }
        }
    }

    static void store(Unit* row, const typename V::Float* nodes) { V::store(row, nodes[0]); }
};

// A row of x is two nodes: a 32-bit lane holds the bfloat16 values of both for one replica, the even node below.
// Products are summed in float32.
template <class V>
struct Bfloat16 {
    using Unit = std::uint32_t;
    static constexpr std::size_t nodes_per_row = 2;

    static const Unit* main(const Coupling& W) { return W.halved; }
    static const Unit* rest(const Coupling& W) { return W.rest; }

    template <std::size_t B, std::size_t T>
    static void accumulate(typename V::Float (&sum)[B][T], const Unit* W, const Unit* x, std::size_t rows) {
        for (std::size_t k = 0; k < rows; ++k, W += B, x += T * V::lanes) {
            typename V::Word column[T];
            for (std::size_t t = 0; t < T; ++t) column[t] = V::load(x + t * V::lanes);
            for (std::size_t i = 0; i < B; ++i) {
                const typename V::Word weight = V::words(W[i]);
                for (std::size_t t = 0; t < T; ++t) sum[i][t] = V::dot(weight, column[t], sum[i][t]);
            }
        }
    }

    static void store(Unit* row, const typename V::Float* nodes) { V::store(row, V::to_bfloat16(nodes[0], nodes[1])); }
};

}  // namespace thermoment
