#include "run.hpp"

#include <algorithm>
#include <utility>

namespace thermoment {

namespace {

// A sample is cut into at most this many parts, so that a few samples of many replicas keep all cores busy. It is the
// same for any number of threads: it decides in which order the replicas are summed.
constexpr std::size_t max_parts = 64;

}  // namespace

Run::Run(const Kernel& kernel, const Request& request) : kernel_(kernel), request_(request) {
    const Problem& problem = request.problem;
    n_tiles_ = (problem.n_replicas + kernel.tile_replicas - 1) / kernel.tile_replicas;
    n_parts_ = std::min(n_tiles_, max_parts);
    const bool* const end = request.bfloat16 + request.n_samples;
    if (std::find(request.bfloat16, end, true) != end) {
        halved_ = pack_bfloat16(request.W, request.mu_dt, problem.n_nodes);
        rest_ = pack_bfloat16_rest(request.W, request.mu_dt, rest_period, problem.n_nodes);
    }
    if (std::find(request.bfloat16, end, false) != end)
        single_ = pack_float32(request.W, request.mu_dt, problem.n_nodes);
    try {
        for (std::size_t k = 0; k < request.n_threads; ++k) threads_.emplace_back(&Run::work, this);
    } catch (...) {
        stop_and_join();
        throw;
    }
}

Run::~Run() { stop_and_join(); }

void Run::stop_and_join() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

std::size_t Run::wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return failure_ || done_ == request_.n_samples; });
    if (failure_) std::rethrow_exception(failure_);
    return done_;
}

void Run::work() {
    try {
        Buffer workspace = buffer(kernel_.workspace_bytes(request_.problem.n_nodes));
        std::vector<float> drive(round_up(request_.problem.n_nodes, 4));
        while (!stop_) {
            const std::size_t piece = next_++;
            if (piece >= request_.n_samples * n_parts_) return;
            run_part(piece / n_parts_, piece % n_parts_, workspace, drive);
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
        stop_ = true;
        changed_.notify_all();
    }
}

void Run::run_part(std::size_t sample, std::size_t part, Buffer& workspace, std::vector<float>& drive) {
    const Problem& problem = request_.problem;
    const double* const h = request_.drive + sample * problem.n_nodes;
    for (std::size_t i = 0; i < problem.n_nodes; ++i) drive[i] = static_cast<float>(request_.mu_dt * h[i]);
    const auto replica = [&](std::size_t p) {
        return std::min(p * n_tiles_ / n_parts_ * kernel_.tile_replicas, problem.n_replicas);
    };
    const auto words = [](const Buffer& packed) { return reinterpret_cast<const std::uint32_t*>(packed.data()); };
    const Coupling W = request_.bfloat16[sample]
                           ? Coupling{nullptr, words(halved_), words(rest_)}
                           : Coupling{reinterpret_cast<const float*>(single_.data()), nullptr, nullptr};
    const Block block{drive.data(), request_.sample_ids[sample], replica(part), replica(part + 1)};
    std::vector<double> sums(problem.n_orders * problem.n_nodes);
    std::uint64_t clipped = 0;
    kernel_.run(problem, W, block, workspace.data(), sums.data(), &clipped, &stop_);
    if (!stop_) hand_in(sample, part, std::move(sums), clipped);
}

void Run::hand_in(std::size_t sample, std::size_t part, std::vector<double> sums, std::uint64_t clipped) {
    const std::lock_guard lock(mutex_);
    clipped_ += clipped;
    Partial& partial = partial_.try_emplace(sample, Partial{{}, n_parts_}).first->second;
    partial.sums.resize(n_parts_);
    partial.sums[part] = std::move(sums);
    if (--partial.missing > 0) return;
    const std::size_t cells = request_.problem.n_orders * request_.problem.n_nodes;
    double* const raw = request_.raw + sample * cells;
    for (std::size_t k = 0; k < cells; ++k) {
        double total = 0;
        for (const std::vector<double>& one : partial.sums) total += one[k];
        raw[k] = total / static_cast<double>(request_.problem.n_replicas);
    }
    partial_.erase(sample);
    if (++done_ == request_.n_samples) changed_.notify_all();
}

}  // namespace thermoment
