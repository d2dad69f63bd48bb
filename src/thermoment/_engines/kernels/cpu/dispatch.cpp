#include "dispatch.hpp"

namespace thermoment {

extern const Kernel plain_kernel;
#ifdef THERMOMENT_AVX2
extern const Kernel avx2_kernel;
#endif
#ifdef THERMOMENT_AVX512
extern const Kernel avx512_kernel;
#endif
#ifdef THERMOMENT_AVX512BF16
extern const Kernel avx512bf16_kernel;
#endif

// The compiler's own test of the processor, which also asks whether the operating system saves the wide registers.
std::vector<Choice> kernels() {
    std::vector<Choice> choices;
#ifdef THERMOMENT_AVX512
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#ifdef THERMOMENT_AVX512BF16
    choices.push_back({&avx512bf16_kernel, avx512 && __builtin_cpu_supports("avx512bf16")});
#endif
    choices.push_back({&avx512_kernel, avx512});
#endif
#ifdef THERMOMENT_AVX2
    choices.push_back({&avx2_kernel, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
#endif
    choices.push_back({&plain_kernel, true});
    return choices;
}

}  // namespace thermoment
