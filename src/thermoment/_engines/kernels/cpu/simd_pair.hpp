// Two vectors that go through the same operations side by side, as one vector of twice the lanes. A processor starts
// several operations a cycle but each takes a few: neighbours that do not wait for each other keep it busy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thermoment {

template <class V>
struct Pair {
    static constexpr std::size_t lanes = 2 * V::lanes;
    static_assert(lanes <= 32, "beyond() has a bit for each lane");

    struct Float {
        typename V::Float a, b;
    };
    struct Word {
        typename V::Word a, b;
    };
    struct Product {
        Word high, low;
    };
    struct Parts {
        Float mantissa, exponent;
    };
    struct Neighbours {
        Float left, right;
    };

    static Float floats(float value) { return {V::floats(value), V::floats(value)}; }
    static Word words(std::uint32_t value) { return {V::words(value), V::words(value)}; }
    static Float load(const float* from) { return {V::load(from), V::load(from + V::lanes)}; }
    static Word load(const std::uint32_t* from) { return {V::load(from), V::load(from + V::lanes)}; }
    static void store(float* to, Float x) {
        V::store(to, x.a);
        V::store(to + V::lanes, x.b);
    }
    static void store(std::uint32_t* to, Word x) {
        V::store(to, x.a);
        V::store(to + V::lanes, x.b);
    }

    static Float add(Float x, Float y) { return {V::add(x.a, y.a), V::add(x.b, y.b)}; }
    static Float sub(Float x, Float y) { return {V::sub(x.a, y.a), V::sub(x.b, y.b)}; }
    static Float mul(Float x, Float y) { return {V::mul(x.a, y.a), V::mul(x.b, y.b)}; }
    static Float fma(Float x, Float y, Float z) { return {V::fma(x.a, y.a, z.a), V::fma(x.b, y.b, z.b)}; }
    static Float max(Float x, Float y) { return {V::max(x.a, y.a), V::max(x.b, y.b)}; }
    static Float min(Float x, Float y) { return {V::min(x.a, y.a), V::min(x.b, y.b)}; }
    static Float sqrt(Float x) { return {V::sqrt(x.a), V::sqrt(x.b)}; }

    static Word add(Word x, Word y) { return {V::add(x.a, y.a), V::add(x.b, y.b)}; }
    static Word bit_xor(Word x, Word y) { return {V::bit_xor(x.a, y.a), V::bit_xor(x.b, y.b)}; }
    static Word bit_xor(Word x, Word y, Word z) { return {V::bit_xor(x.a, y.a, z.a), V::bit_xor(x.b, y.b, z.b)}; }
    static Product multiply(Word x, Word y) {
        const auto a = V::multiply(x.a, y.a), b = V::multiply(x.b, y.b);
        return {{a.high, b.high}, {a.low, b.low}};
    }

    static Float from_unsigned(Word x) { return {V::from_unsigned(x.a), V::from_unsigned(x.b)}; }
    static Float from_signed(Word x) { return {V::from_signed(x.a), V::from_signed(x.b)}; }
    static Word truncated(Float x) { return {V::truncated(x.a), V::truncated(x.b)}; }

    static Neighbours gather(const float* from, Word index) {
        const auto a = V::gather(from, index.a), b = V::gather(from, index.b);
        return {{a.left, b.left}, {a.right, b.right}};
    }
    static float sum(Float x) { return V::sum(V::add(x.a, x.b)); }

    static Parts split(Float x) {
        const auto a = V::split(x.a), b = V::split(x.b);
        return {{a.mantissa, b.mantissa}, {a.exponent, b.exponent}};
    }
    static std::uint32_t beyond(Float x, Float limit) {
        return V::beyond(x.a, limit.a) | V::beyond(x.b, limit.b) << V::lanes;
    }

    static Float dot(Word w, Word x, Float sum) { return {V::dot(w.a, x.a, sum.a), V::dot(w.b, x.b, sum.b)}; }
    static Word to_bfloat16(Float even, Float odd) {
        return {V::to_bfloat16(even.a, odd.a), V::to_bfloat16(even.b, odd.b)};
    }
};

}  // namespace thermoment
