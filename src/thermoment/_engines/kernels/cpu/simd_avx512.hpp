// Sixteen lanes: AVX-512 F, BW, DQ and VL.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace thermoment {

struct Avx512 {
    using Float = __m512;
    using Word = __m512i;
    static constexpr std::size_t lanes = 16;

    struct Product {
        Word high, low;
    };
    struct Parts {
        Float mantissa, exponent;
    };
    struct Neighbours {
        Float left, right;
    };

    static Float floats(float value) { return _mm512_set1_ps(value); }
    static Word words(std::uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
    static Float load(const float* from) { return _mm512_load_ps(from); }
    static void store(float* to, Float value) { _mm512_store_ps(to, value); }
    static Word load(const std::uint32_t* from) { return _mm512_load_si512(from); }
    static void store(std::uint32_t* to, Word value) { _mm512_store_si512(to, value); }

    static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
    static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
    static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
    static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
    static Float sqrt(Float a) { return _mm512_sqrt_ps(a); }

    static Word add(Word a, Word b) { return _mm512_add_epi32(a, b); }
    static Word bit_xor(Word a, Word b) { return _mm512_xor_si512(a, b); }
    static Word bit_xor(Word a, Word b, Word c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }

    // The processor multiplies 32 by 32 bits in every other lane: the even lanes, then the odd ones moved over.
    static Product multiply(Word a, Word b) {
        const Word even = _mm512_mul_epu32(a, b);
        const Word odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
        return {_mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_CDAB),
                _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, _MM_PERM_CDAB)};
    }

    static Float from_unsigned(Word a) { return _mm512_cvtepu32_ps(a); }
    static Float from_signed(Word a) { return _mm512_cvtepi32_ps(a); }
    static Word truncated(Float a) { return _mm512_cvttps_epi32(a); }

    // from[index] and from[index + 1], which are gathered together: half as many loads.
    static Neighbours gather(const float* from, Word index) {
        const auto lower = _mm512_castsi512_ps(_mm512_i32gather_epi64(_mm512_castsi512_si256(index), from, sizeof(float)));
        const auto upper =
            _mm512_castsi512_ps(_mm512_i32gather_epi64(_mm512_extracti64x4_epi64(index, 1), from, sizeof(float)));
        return {_mm512_permutex2var_ps(lower, every_other(0), upper), _mm512_permutex2var_ps(lower, every_other(1), upper)};
    }
    static float sum(Float a) { return _mm512_reduce_add_ps(a); }

    // a = mantissa * 2^exponent with 1 <= mantissa < 2, for normal a > 0.
    static Parts split(Float a) {
        return {_mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), _mm512_getexp_ps(a)};
    }

    // One bit per lane: |a| > limit.
    static std::uint32_t beyond(Float a, Float limit) {
        return _mm512_cmp_ps_mask(_mm512_abs_ps(a), limit, _CMP_GT_OQ);
    }

   private:
    static Word every_other(int first) {
        const Word even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        return _mm512_add_epi32(even, _mm512_set1_epi32(first));
    }
};

}  // namespace thermoment
