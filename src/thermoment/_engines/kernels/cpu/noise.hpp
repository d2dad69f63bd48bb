// The noise contract (thermoment/noise.py) on vectors: a lane is a replica, and one Philox call gives each lane the
// noise of the four nodes of a group, so nothing is ever shuffled between lanes.
#pragma once

#include <cstdint>
#include <type_traits>

namespace thermoment {

// A vector of one lane: 32-bit words that are the same for all replicas.
struct OneWord {
    using Word = std::uint32_t;
    struct Product {
        Word high, low;
    };
    static Word words(std::uint32_t value) { return value; }
    static Word bit_xor(Word a, Word b, Word c) { return a ^ b ^ c; }
    static Word bit_xor(Word a, Word b) { return a ^ b; }
    static Product multiply(Word a, Word b) {
        const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
        return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
    }
};

// V is one of the vector types of simd_*.hpp: V::Float and V::Word hold V::lanes floats or 32-bit words.
template <class V, bool mixed>
struct Noise {
    using Float = typename V::Float;
    using Word = typename V::Word;
    // What depends on sample and step alone: a vector where lanes have different samples, else a word for all.
    using S = std::conditional_t<mixed, V, OneWord>;
    using Shared = typename S::Word;

    struct Words {
        Word a, b, c, d;
    };

    static constexpr int rounds = 10;
    static constexpr std::uint32_t M0 = 0xD2511F53, M1 = 0xCD9E8D57;

    std::uint32_t keys[rounds][2];
    Shared sample_low, sample_high;
    // -2 ln(u) sigma^2 = exponent * log_slope + polynomial in (mantissa - 1)
    float log_slope;
    float log_terms[8];

    Noise(std::uint32_t seed, std::uint32_t stream, Shared sample_low, Shared sample_high, float sigma)
        : sample_low(sample_low), sample_high(sample_high) {
        for (int r = 0; r < rounds; ++r) {
            keys[r][0] = seed + static_cast<std::uint32_t>(r) * 0x9E3779B9;
            keys[r][1] = stream + static_cast<std::uint32_t>(r) * 0xBB67AE85;
        }
        // Minimax fit of -2 ln(1 + f) / f on [0, 1]: within 7e-8 of the logarithm.
        constexpr double fit[8] = {-1.9999928474, 0.9997481108, -0.6635965109, 0.4814613760,
                                   -0.3352952600, 0.1906442344, -0.0721684545, 0.0129050529};
        const double variance = static_cast<double>(sigma) * sigma;
        log_slope = static_cast<float>(-2 * 0.6931471805599453 * variance);
        for (int k = 0; k < 8; ++k) log_terms[k] = static_cast<float>(fit[k] * variance);
    }

    // A step's share of the first three rounds. The counter is (step, replica and group, sample): only its second word
    // differs between the groups of nodes, so most of these rounds is the same for all of them and done once a step; in
    // scalars where all lanes have the same sample.
    struct Step {
        Shared round1_a, round2_c, round3_a, round3_c, round3_d;
    };

    Step at(std::uint32_t n) const {
        const auto sample = S::multiply(sample_low, S::words(M1));
        const auto step = OneWord::multiply(n, M0);
        const Shared c1 = S::bit_xor(sample_high, S::words(step.high ^ keys[0][1]));
        const auto second = S::multiply(c1, S::words(M1));
        const Shared a2 = S::bit_xor(second.high, sample.low, S::words(keys[1][0]));
        const auto third = S::multiply(a2, S::words(M0));
        Step s;
        s.round1_a = S::bit_xor(sample.high, S::words(keys[0][0]));
        s.round2_c = S::words(step.low ^ keys[1][1]);
        s.round3_a = S::bit_xor(second.low, S::words(keys[2][0]));
        s.round3_c = S::bit_xor(third.high, S::words(keys[2][1]));
        s.round3_d = third.low;
        return s;
    }

    // Philox4x32-10 where the second counter word is `place` = replica * 4096 + group. A round maps (a, b, c, d) to
    // (hi(M1 c) ^ b ^ k0, lo(M1 c), hi(M0 a) ^ d ^ k1, lo(M0 a)).
    Words words(const Step& s, Word place) const {
        const auto p2 = V::multiply(V::bit_xor(place, spread(s.round1_a)), V::words(M0));
        const auto p3 = V::multiply(V::bit_xor(p2.high, spread(s.round2_c)), V::words(M1));
        Words w{V::bit_xor(p3.high, spread(s.round3_a)), p3.low, V::bit_xor(p2.low, spread(s.round3_c)),
                spread(s.round3_d)};
        for (int r = 3; r < rounds; ++r) {
            const auto from_a = V::multiply(w.a, V::words(M0));
            const auto from_c = V::multiply(w.c, V::words(M1));
            w = {V::bit_xor(from_c.high, w.b, V::words(keys[r][0])), from_c.low,
                 V::bit_xor(from_a.high, w.d, V::words(keys[r][1])), from_a.low};
        }
        return w;
    }

    // Adds sigma r cos t to x and sigma r sin t to y: Box-Muller with r = sqrt(-2 ln((w0 + 1/2) / 2^32)) and
    // t = 2 pi w1 / 2^32. Read as a signed number, w1 is the angle in [-pi, pi), in which both functions have
    // polynomials short enough to need no further reduction: within 1e-7 (sin) and 2e-8 (cos), before rounding.
    void add_pair(Word w0, Word w1, Float& x, Float& y) const {
        const Float u = V::fma(V::from_unsigned(w0), V::floats(0x1p-32f), V::floats(0x1p-33f));
        const auto parts = V::split(u);
        const Float f = V::sub(parts.mantissa, V::floats(1.0f));
        Float log = V::floats(log_terms[7]);
        for (int k = 6; k >= 0; --k) log = V::fma(log, f, V::floats(log_terms[k]));
        log = V::fma(log, f, V::mul(parts.exponent, V::floats(log_slope)));
        // Rounding may leave the logarithm of u = 1 on the wrong side of zero.
        const Float radius = V::sqrt(V::max(log, V::floats(0.0f)));

        const Float v = V::mul(V::from_signed(w1), V::floats(0x1p-31f));
        const Float z = V::mul(v, v);
        x = V::fma(radius, polynomial(cos_terms, z), x);
        y = V::fma(V::mul(radius, v), polynomial(sin_terms, z), y);
    }

   private:
    // cos(pi v) and sin(pi v) / v in v^2, |v| <= 1.
    static constexpr float cos_terms[7] = {1.0f,           -4.93480110f,    4.05869579f,  -1.33516157f,
                                           0.2350352556f, -0.02536341362f, 0.00159529201f};
    static constexpr float sin_terms[6] = {3.14159131f,    -5.16767788f,   2.54988074f,
                                           -0.598282039f, 0.0804792717f, -0.00599182211f};

    template <int count>
    static Float polynomial(const float (&terms)[count], Float z) {
        Float value = V::floats(terms[count - 1]);
        for (int k = count - 2; k >= 0; --k) value = V::fma(value, z, V::floats(terms[k]));
        return value;
    }

    static Word spread(Shared word) {
        if constexpr (mixed)
            return word;
        else
            return V::words(word);
    }
};

}  // namespace thermoment
