// A simulation under way: threads that take pieces of work in order and put the results together in a fixed order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "kernel.hpp"
#include "pack.hpp"

namespace thermoment {

struct Request {
    Problem problem;
    const double* W;      // (N, N)
    const double* drive;  // (S, N)
    double mu_dt;
    const std::uint64_t* sample_ids;  // (S,)
    const bool* bfloat16;             // (S,): whether bfloat16 factors are good enough for this sample
    std::size_t n_samples;
    std::size_t n_threads;
    double* raw;  // (S, n_orders, N), the result
};

// Starts with its construction. The destructor stops what is still running.
class Run {
   public:
    Run(const Kernel& kernel, const Request& request);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // Waits until all samples are done, at most for `time`, and returns how many are done. Throws what a thread threw.
    std::size_t wait_for(std::chrono::milliseconds time);

    std::uint64_t clipped() const { return clipped_; }

   private:
    // What is known of a sample whose parts are not all done.
    struct Partial {
        std::vector<std::vector<double>> sums;
        std::size_t missing;
    };

    void work();
    void run_part(std::size_t sample, std::size_t part, Buffer& workspace, std::vector<float>& drive);
    void hand_in(std::size_t sample, std::size_t part, std::vector<double> sums, std::uint64_t clipped);
    void stop_and_join();

    const Kernel& kernel_;
    const Request request_;
    std::size_t n_tiles_, n_parts_;
    Buffer single_, halved_, rest_;

    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stop_{false};

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::map<std::size_t, Partial> partial_;
    std::size_t done_ = 0;
    std::uint64_t clipped_ = 0;
    std::exception_ptr failure_;

    std::vector<std::thread> threads_;
};

}  // namespace thermoment
