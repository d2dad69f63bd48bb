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
    // Samples of few replicas share a tile, if that leaves work for every thread.
    group_ = std::clamp<std::size_t>((request.n_samples + request.n_threads - 1) / request.n_threads, 1,
                                     std::max<std::size_t>(kernel.tile_replicas / problem.n_replicas, 1));
    n_reads_ = 0;
    for (const Stretch& one : request.stretches) n_reads_ += one.read;
    clipped_.assign(n_reads_, 0);
    const bool* const end = request.bfloat16 + request.n_samples;
    const bool some_halved = std::find(request.bfloat16, end, true) != end;
    const bool some_single = std::find(request.bfloat16, end, false) != end;
    for (std::size_t sample = 0; sample < request.n_samples; ++sample) order_.push_back(sample);
    const auto single = std::stable_partition(order_.begin(), order_.end(), [&](std::size_t s) { return request.bfloat16[s]; });
    n_halved_ = static_cast<std::size_t>(single - order_.begin());
    for (const Stretch& one : request.stretches) {
        const auto [place, is_new] = packed_.try_emplace(one.W);
        if (!is_new) continue;
        Packed& packed = place->second;
        if (some_halved) {
            packed.halved = pack_bfloat16(one.W, request.mu_dt, problem.n_nodes);
            packed.rest = pack_bfloat16_rest(one.W, request.mu_dt, rest_period, problem.n_nodes);
        }
        if (some_single) packed.single = pack_float32(one.W, request.mu_dt, problem.n_nodes);
    }
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
        std::vector<float> drives(request_.stretches.size() * group_ * round_up(request_.problem.n_nodes, 4));
        // Samples in bfloat16 first; a group has samples of one kind.
        const std::size_t n_first = (n_halved_ + group_ - 1) / group_;
        const std::size_t n_groups = n_first + (request_.n_samples - n_halved_ + group_ - 1) / group_;
        while (!stop_) {
            const std::size_t piece = next_++, group = piece / n_parts_;
            if (group >= n_groups) return;
            const bool halved = group < n_first;
            const std::size_t begin = halved ? group * group_ : n_halved_ + (group - n_first) * group_;
            const std::size_t end = std::min(begin + group_, halved ? n_halved_ : request_.n_samples);
            run_part(order_.data() + begin, end - begin, piece % n_parts_, workspace, drives);
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
        stop_ = true;
        changed_.notify_all();
    }
}

Coupling Run::coupling(const double* W, bool bfloat16) const {
    const Packed& packed = packed_.at(W);
    const auto words = [](const Buffer& buffer) { return reinterpret_cast<const std::uint32_t*>(buffer.data()); };
    return bfloat16 ? Coupling{nullptr, words(packed.halved), words(packed.rest)}
                    : Coupling{reinterpret_cast<const float*>(packed.single.data()), nullptr, nullptr};
}

void Run::run_part(const std::size_t* samples, std::size_t count, std::size_t part, Buffer& workspace,
                   std::vector<float>& drives) {
    const Problem& problem = request_.problem;
    std::vector<Segment> segments;
    float* drive = drives.data();
    for (const Stretch& one : request_.stretches) {
        segments.push_back({one.n_steps, one.read, drive, coupling(one.W, request_.bfloat16[samples[0]])});
        for (std::size_t k = 0; k < count; ++k, drive += round_up(problem.n_nodes, 4)) {
            const double* const h = one.drive + samples[k] * problem.n_nodes;
            for (std::size_t i = 0; i < problem.n_nodes; ++i) drive[i] = static_cast<float>(request_.mu_dt * h[i]);
        }
    }
    const auto replica = [&](std::size_t p) {
        return std::min(p * n_tiles_ / n_parts_ * kernel_.tile_replicas, problem.n_replicas);
    };
    const Block block{segments.data(),
                      segments.size(),
                      samples,
                      count,
                      request_.sample_ids,
                      replica(part),
                      replica(part + 1),
                      request_.start,
                      request_.start_sample_stride,
                      request_.start_replica_stride,
                      request_.states,
                      request_.work,
                      request_.n_samples * problem.n_replicas,
                      n_reads_};
    const std::size_t cells = n_reads_ * problem.n_orders * problem.n_nodes;
    std::vector<double> sums(count * cells);
    std::vector<std::uint64_t> clipped(n_reads_);
    kernel_.run(problem, block, workspace.data(), sums.data(), clipped.data(), &stop_);
    if (stop_) return;
    for (std::size_t k = 0; k < count; ++k) {
        if (block.work)  // W came multiplied by mu dt
            for (std::size_t r = 0; r < n_reads_; ++r)
                for (std::size_t m = block.first; m < block.last; ++m)
                    block.work[r * block.work_stride + samples[k] * problem.n_replicas + m] /= request_.mu_dt;
        hand_in(samples[k], part, {sums.begin() + k * cells, sums.begin() + (k + 1) * cells}, clipped);
        clipped.assign(n_reads_, 0);  // counted once for the block
    }
}

void Run::hand_in(std::size_t sample, std::size_t part, std::vector<double> sums,
                  const std::vector<std::uint64_t>& clipped) {
    const std::lock_guard lock(mutex_);
    for (std::size_t r = 0; r < n_reads_; ++r) clipped_[r] += clipped[r];
    Partial& partial = partial_.try_emplace(sample, Partial{{}, n_parts_}).first->second;
    partial.sums.resize(n_parts_);
    partial.sums[part] = std::move(sums);
    if (--partial.missing > 0) return;
    const std::size_t cells = request_.problem.n_orders * request_.problem.n_nodes;
    for (std::size_t r = 0; r < n_reads_; ++r) {
        double* const raw = request_.raw + (r * request_.n_samples + sample) * cells;
        for (std::size_t k = 0; k < cells; ++k) {
            double total = 0;
            for (const std::vector<double>& one : partial.sums) total += one[r * cells + k];
            raw[k] = total / static_cast<double>(request_.problem.n_replicas);
        }
    }
    partial_.erase(sample);
    if (++done_ == request_.n_samples) changed_.notify_all();
}

}  // namespace thermoment
