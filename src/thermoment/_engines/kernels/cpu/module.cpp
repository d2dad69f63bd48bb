// The Python face of the kernels: thermoment._engines._native.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "curve_call.hpp"
#include "dispatch.hpp"
#include "draw_call.hpp"
#include "narrow_calls.hpp"
#include "run.hpp"
#include "sparse_calls.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace thermoment;

namespace {

template <class T, std::size_t n>
using In = nb::ndarray<const T, nb::ndim<n>, nb::c_contig, nb::device::cpu>;
template <std::size_t n>
using Out = nb::ndarray<double, nb::ndim<n>, nb::c_contig, nb::device::cpu>;

// How soon Ctrl-C is noticed.
constexpr std::chrono::milliseconds patience{50};

const Kernel& find(const std::string& isa) {
    for (const Choice& choice : kernels())
        if (isa == choice.kernel->name && choice.runs_here) return *choice.kernel;
    throw std::runtime_error("This processor cannot run the kernel " + isa + ".");
}

std::vector<std::tuple<std::string, std::string, bool, bool>> list_kernels() {
    std::vector<std::tuple<std::string, std::string, bool, bool>> list;
    for (const auto& [kernel, runs_here] : kernels())
        list.emplace_back(kernel->name, kernel->description, runs_here, kernel->has_bfloat16);
    return list;
}

// Fills `raw`, and `states` and `work` if given, and returns the number of clipped updates from the first step to each reading.
// Python's signals and `report` are served by this thread.
std::vector<std::uint64_t> moments(const std::string& isa, const std::vector<In<double, 2>>& W,
                                   const std::vector<In<double, 2>>& drive, const std::vector<std::uint64_t>& n_steps,
                                   const std::vector<bool>& read, std::uint64_t first_step,
                                   const std::optional<In<double, 3>>& start, In<std::uint64_t, 1> sample_ids,
                                   In<bool, 1> bfloat16, const std::vector<int>& orders, std::size_t n_replicas,
                                   std::uint32_t seed, std::uint32_t stream, double mu_dt, double linear, double cubic,
                                   double sigma, double clip, std::size_t n_threads, Out<4> raw,
                                   const std::optional<Out<3>>& states, const std::optional<Out<3>>& work,
                                   const nb::callable& report) {
    const std::size_t n_nodes = drive.at(0).shape(1);
    const Problem problem{n_nodes,
                          n_replicas,
                          first_step,
                          seed,
                          stream,
                          static_cast<float>(linear),
                          static_cast<float>(cubic),
                          static_cast<float>(sigma),
                          static_cast<float>(clip),
                          orders.data(),
                          orders.size()};
    std::vector<Stretch> stretches;
    for (std::size_t k = 0; k < n_steps.size(); ++k)
        stretches.push_back({n_steps[k], read.at(k), W.at(k).data(), drive.at(k).data()});
    // A single sample or replica in `start` stands for all.
    const auto stride = [&](int axis, std::size_t length) {
        return start && start->shape(axis) > 1 ? length : std::size_t{0};
    };
    const Request request{problem,
                          stretches,
                          mu_dt,
                          start ? start->data() : nullptr,
                          stride(0, start ? start->shape(1) * n_nodes : 0),
                          stride(1, n_nodes),
                          states ? states->data() : nullptr,
                          sample_ids.data(),
                          bfloat16.data(),
                          sample_ids.shape(0),
                          n_threads,
                          raw.data(),
                          work ? work->data() : nullptr};
    const Kernel& kernel = find(isa);
    nb::gil_scoped_release released;
    Run run(kernel, request);
    for (std::size_t reported = 0; reported < request.n_samples;) {
        const std::size_t done = run.wait_for(patience);
        const nb::gil_scoped_acquire acquired;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (done > reported) report(done);
        reported = done;
    }
    return run.clipped();
}

}  // namespace

NB_MODULE(_native, module) {
    module.attr("curve_sums") = nb::capsule(reinterpret_cast<void*>(&curve_sums));
    module.attr("draw_sums") = nb::capsule(reinterpret_cast<void*>(&draw_sums));
    module.attr("narrow_product") = nb::capsule(reinterpret_cast<void*>(&narrow_product));
    module.attr("narrow_sums") = nb::capsule(reinterpret_cast<void*>(&narrow_sums));
    module.attr("sparse_product") = nb::capsule(reinterpret_cast<void*>(&sparse_product));
    module.attr("sparse_transposed_product") = nb::capsule(reinterpret_cast<void*>(&sparse_transposed_product));
    module.attr("rest_period") = rest_period;
    module.def("kernels", &list_kernels, "(name, description, runs here, has bfloat16) of each kernel, fastest first.");
    module.def("moments", &moments, nb::kw_only(), "isa"_a, "W"_a, "drive"_a, "n_steps"_a, "read"_a, "first_step"_a,
               "start"_a.none(), "sample_ids"_a, "bfloat16"_a, "orders"_a, "n_replicas"_a, "seed"_a, "stream"_a,
               "mu_dt"_a, "linear"_a, "cubic"_a, "sigma"_a, "clip"_a, "n_threads"_a, "raw"_a, "states"_a.none(),
               "work"_a.none(), "report"_a,
               "Fills `raw`, and `states` and `work` if given, and returns the clipped updates up to each reading.");
}
