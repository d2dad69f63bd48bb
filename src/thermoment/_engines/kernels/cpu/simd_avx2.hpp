// Eight lanes: AVX2 with FMA.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace thermoment {

struct Avx2 {
    using Float = __m256;
    using Word = __m256i;
    static constexpr std::size_t lanes = 8;

    struct Product {
        Word high, low;
    };
    struct Parts {
        Float mantissa, exponent;
    };
    struct Neighbours {
        Float left, right;
    };

    static Float floats(float value) { return _mm256_set1_ps(value); }
    static Word words(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
    static Float load(const float* from) { return _mm256_load_ps(from); }
    static void store(float* to, Float value) { _mm256_store_ps(to, value); }
    static Word load(const std::uint32_t* from) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(from)); }

    static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
    static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
    static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
    static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
    static Float sqrt(Float a) { return _mm256_sqrt_ps(a); }

    static Word add(Word a, Word b) { return _mm256_add_epi32(a, b); }
    static Word bit_xor(Word a, Word b) { return _mm256_xor_si256(a, b); }
    static Word bit_xor(Word a, Word b, Word c) { return bit_xor(bit_xor(a, b), c); }

    // The processor multiplies 32 by 32 bits in every other lane: the even lanes, then the odd ones moved over.
    static Product multiply(Word a, Word b) {
        const Word even = _mm256_mul_epu32(a, b);
        const Word odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
        return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
                _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
    }

    // AVX2 converts signed numbers only: the halves are exact, and their sum is rounded once.
    static Float from_unsigned(Word a) {
        const Float upper = from_signed(_mm256_srli_epi32(a, 16));
        const Float lower = from_signed(_mm256_and_si256(a, words(0xFFFF)));
        return fma(upper, floats(0x1p16f), lower);
    }
    static Float from_signed(Word a) { return _mm256_cvtepi32_ps(a); }
    static Word truncated(Float a) { return _mm256_cvttps_epi32(a); }

    // from[index] and from[index + 1].
    static Neighbours gather(const float* from, Word index) {
        return {_mm256_i32gather_ps(from, index, sizeof(float)), _mm256_i32gather_ps(from + 1, index, sizeof(float))};
    }
    static float sum(Float a) {
        const __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
    }

    // a = mantissa * 2^exponent with 1 <= mantissa < 2, for normal a > 0.
    static Parts split(Float a) {
        const Word bits = _mm256_castps_si256(a);
        const Word exponent = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), words(127));
        const Word mantissa = _mm256_or_si256(_mm256_and_si256(bits, words(0x007FFFFF)), words(0x3F800000));
        return {_mm256_castsi256_ps(mantissa), from_signed(exponent)};
    }

    // One bit per lane: |a| > limit.
    static std::uint32_t beyond(Float a, Float limit) {
        const Float magnitude = _mm256_andnot_ps(floats(-0.0f), a);
        return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(magnitude, limit, _CMP_GT_OQ)));
    }
};

}  // namespace thermoment
