// The fastest that W x could be on this processor: the instruction of the native engine's product and nothing else, on
// numbers that stay in registers. limits.py compiles this file with -march=native.
#include <immintrin.h>

#include <cstdint>

#if defined(__AVX512BF16__)
using Sum = __m512;
using Factor = __m512bh;
constexpr std::uint64_t multiplications = 32;
static Sum add(Sum sum, Factor w, Factor x) { return _mm512_dpbf16_ps(sum, w, x); }
#elif defined(__AVX512F__)
using Sum = __m512;
using Factor = __m512;
constexpr std::uint64_t multiplications = 16;
static Sum add(Sum sum, Factor w, Factor x) { return _mm512_fmadd_ps(w, x, sum); }
#else
using Sum = __m256;
using Factor = __m256;
constexpr std::uint64_t multiplications = 8;
static Sum add(Sum sum, Factor w, Factor x) { return _mm256_fmadd_ps(w, x, sum); }
#endif

// Sums that do not wait for each other: more than any processor has multiplications under way, fewer than its registers.
constexpr int independent_sums = 12;

// Returns how many multiplications of single numbers were done in `rounds` rounds.
extern "C" std::uint64_t multiply_only(std::uint64_t rounds) {
    // The compiler must know neither the numbers nor that the sums are equal, and must believe that they are read: so
    // nothing can be left out.
    Factor w{}, x{};
    Sum sums[independent_sums] = {};
    asm volatile("" : "+v"(w), "+v"(x));
    for (Sum& sum : sums) asm volatile("" : "+v"(sum));
    for (std::uint64_t round = 0; round < rounds; ++round)
        for (Sum& sum : sums) sum = add(sum, w, x);
    for (Sum& sum : sums) asm volatile("" ::"v"(sum));
    return rounds * independent_sums * multiplications;
}
