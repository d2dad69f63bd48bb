// Eight lanes in plain C++, for any processor. The loops have a fixed length, so a compiler turns most of them into the
// vector instructions that its target always has: SSE2 on x86-64, NEON on 64-bit Arm.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thermoment {

struct Plain {
    static constexpr std::size_t lanes = 8;

    struct alignas(32) Float {
        float lane[lanes];
    };
    struct alignas(32) Word {
        std::uint32_t lane[lanes];
    };
    struct Product {
        Word high, low;
    };
    struct Parts {
        Float mantissa, exponent;
    };

    template <class Result, class Function>
    static Result each(Function f) {
        Result result;
        for (std::size_t k = 0; k < lanes; ++k) result.lane[k] = f(k);
        return result;
    }

    static Float floats(float value) {
        return each<Float>([=](std::size_t) { return value; });
    }
    static Word words(std::uint32_t value) {
        return each<Word>([=](std::size_t) { return value; });
    }
    static Float load(const float* from) {
        return each<Float>([=](std::size_t k) { return from[k]; });
    }
    static Word load(const std::uint32_t* from) {
        return each<Word>([=](std::size_t k) { return from[k]; });
    }
    static void store(float* to, const Float& value) { std::memcpy(to, value.lane, sizeof value.lane); }

    static Float add(const Float& a, const Float& b) {
        return each<Float>([&](std::size_t k) { return a.lane[k] + b.lane[k]; });
    }
    static Float sub(const Float& a, const Float& b) {
        return each<Float>([&](std::size_t k) { return a.lane[k] - b.lane[k]; });
    }
    static Float mul(const Float& a, const Float& b) {
        return each<Float>([&](std::size_t k) { return a.lane[k] * b.lane[k]; });
    }
    // Rounded twice where the processor has no fused operation: std::fma would be a slow call there.
    static Float fma(const Float& a, const Float& b, const Float& c) {
        return each<Float>([&](std::size_t k) { return a.lane[k] * b.lane[k] + c.lane[k]; });
    }
    static Float max(const Float& a, const Float& b) {
        return each<Float>([&](std::size_t k) { return a.lane[k] > b.lane[k] ? a.lane[k] : b.lane[k]; });
    }
    static Float min(const Float& a, const Float& b) {
        return each<Float>([&](std::size_t k) { return a.lane[k] < b.lane[k] ? a.lane[k] : b.lane[k]; });
    }
    static Float sqrt(const Float& a) {
        return each<Float>([&](std::size_t k) { return std::sqrt(a.lane[k]); });
    }

    static Word add(const Word& a, const Word& b) {
        return each<Word>([&](std::size_t k) { return a.lane[k] + b.lane[k]; });
    }
    static Word bit_xor(const Word& a, const Word& b) {
        return each<Word>([&](std::size_t k) { return a.lane[k] ^ b.lane[k]; });
    }
    static Word bit_xor(const Word& a, const Word& b, const Word& c) { return bit_xor(bit_xor(a, b), c); }

    static Product multiply(const Word& a, const Word& b) {
        Product product;
        for (std::size_t k = 0; k < lanes; ++k) {
            const std::uint64_t wide = static_cast<std::uint64_t>(a.lane[k]) * b.lane[k];
            product.high.lane[k] = static_cast<std::uint32_t>(wide >> 32);
            product.low.lane[k] = static_cast<std::uint32_t>(wide);
        }
        return product;
    }

    static Float from_unsigned(const Word& a) {
        return each<Float>([&](std::size_t k) {
            const auto upper = static_cast<std::int32_t>(a.lane[k] >> 16), lower = static_cast<std::int32_t>(a.lane[k] & 0xFFFF);
            return static_cast<float>(upper) * 0x1p16f + static_cast<float>(lower);
        });
    }
    static Float from_signed(const Word& a) {
        return each<Float>([&](std::size_t k) { return static_cast<float>(static_cast<std::int32_t>(a.lane[k])); });
    }

    // a = mantissa * 2^exponent with 1 <= mantissa < 2, for normal a > 0.
    static Parts split(const Float& a) {
        Word bits;
        std::memcpy(bits.lane, a.lane, sizeof bits.lane);
        const Word exponent = each<Word>([&](std::size_t k) { return (bits.lane[k] >> 23) - 127; });
        const Word mantissa = each<Word>([&](std::size_t k) { return (bits.lane[k] & 0x007FFFFF) | 0x3F800000; });
        Parts parts{{}, from_signed(exponent)};
        std::memcpy(parts.mantissa.lane, mantissa.lane, sizeof mantissa.lane);
        return parts;
    }

    // One bit per lane: |a| > limit.
    static std::uint32_t beyond(const Float& a, const Float& limit) {
        std::uint32_t bits = 0;
        for (std::size_t k = 0; k < lanes; ++k) bits |= static_cast<std::uint32_t>(std::fabs(a.lane[k]) > limit.lane[k]) << k;
        return bits;
    }
};

}  // namespace thermoment
