// Which kernels were built, and which of them this processor can run.
#pragma once

#include <vector>

#include "kernel.hpp"

namespace thermoment {

struct Choice {
    const Kernel* kernel;
    bool runs_here;
};

// Fastest first. The last one runs everywhere.
std::vector<Choice> kernels();

}  // namespace thermoment
