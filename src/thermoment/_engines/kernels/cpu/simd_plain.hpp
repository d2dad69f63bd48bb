// Four lanes in the vector types that GCC and Clang have for every processor. They become the instructions that the
// target always has: SSE2 on x86-64, NEON on 64-bit Arm.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thermoment {

struct Plain {
    static constexpr std::size_t lanes = 4;
    using Float = float __attribute__((vector_size(16)));
    using Word = std::uint32_t __attribute__((vector_size(16)));
    using Signed = std::int32_t __attribute__((vector_size(16)));
    using Long = std::uint64_t __attribute__((vector_size(32)));

    struct Product {
        Word high, low;
    };
    struct Parts {
        Float mantissa, exponent;
    };
    struct Neighbours {
        Float left, right;
    };

    static Float floats(float value) { return Float{} + value; }
    static Word words(std::uint32_t value) { return Word{} + value; }
    static Float load(const float* from) {
        Float x;
        std::memcpy(&x, from, sizeof x);
        return x;
    }
    static Word load(const std::uint32_t* from) {
        Word x;
        std::memcpy(&x, from, sizeof x);
        return x;
    }
    static void store(float* to, Float x) { std::memcpy(to, &x, sizeof x); }

    static Float add(Float x, Float y) { return x + y; }
    static Float sub(Float x, Float y) { return x - y; }
    static Float mul(Float x, Float y) { return x * y; }
    // Rounded twice where the processor has no fused operation: std::fma would be a slow call there.
    static Float fma(Float x, Float y, Float z) { return x * y + z; }
    static Float max(Float x, Float y) { return x > y ? x : y; }
    static Float min(Float x, Float y) { return x < y ? x : y; }
    static Float sqrt(Float x) { return Float{std::sqrt(x[0]), std::sqrt(x[1]), std::sqrt(x[2]), std::sqrt(x[3])}; }

    static Word add(Word x, Word y) { return x + y; }
    static Word bit_xor(Word x, Word y) { return x ^ y; }
    static Word bit_xor(Word x, Word y, Word z) { return x ^ y ^ z; }
    static Product multiply(Word x, Word y) {
        const Long product = __builtin_convertvector(x, Long) * __builtin_convertvector(y, Long);
        return {__builtin_convertvector(product >> 32, Word), __builtin_convertvector(product, Word)};
    }

    // Few processors convert unsigned numbers: the halves are exact, and their sum is rounded once.
    static Float from_unsigned(Word x) { return from_signed(x >> 16) * 0x1p16f + from_signed(x & 0xFFFF); }
    static Float from_signed(Word x) { return __builtin_convertvector(reinterpret_cast<Signed>(x), Float); }
    static Word truncated(Float x) { return reinterpret_cast<Word>(__builtin_convertvector(x, Signed)); }

    // from[index] and from[index + 1].
    static Neighbours gather(const float* from, Word index) {
        const float *a = from + index[0], *b = from + index[1], *c = from + index[2], *d = from + index[3];
        return {Float{a[0], b[0], c[0], d[0]}, Float{a[1], b[1], c[1], d[1]}};
    }
    static float sum(Float x) { return (x[0] + x[2]) + (x[1] + x[3]); }

    // x = mantissa * 2^exponent with 1 <= mantissa < 2, for normal x > 0.
    static Parts split(Float x) {
        const auto bits = reinterpret_cast<Word>(x);
        return {reinterpret_cast<Float>((bits & 0x007FFFFF) | 0x3F800000), from_signed((bits >> 23) - 127)};
    }

    // One bit per lane: |x| > limit.
    static std::uint32_t beyond(Float x, Float limit) {
        const Signed yes = (x > limit) | (-x > limit);
        return (yes[0] & 1) | (yes[1] & 2) | (yes[2] & 4) | (yes[3] & 8);
    }
};

}  // namespace thermoment
