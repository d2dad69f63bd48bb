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

// A segment as it is asked for.
struct Stretch {
    std::uint64_t n_steps;
    bool read;
    const double* W;      // (N, N); the same pointer where it is the same coupling
    const double* drive;  // (S, N)
};

struct Request {
    Problem problem;
    std::vector<Stretch> stretches;
    double mu_dt;
    const double* start;  // x before the first step, (S or 1, M or 1, N); null where every x is 0
    std::size_t start_sample_stride, start_replica_stride;  // from one sample to the next, from one replica to the next
    double* states;                                         // x after the last step, (S, M, N); null if not wanted
    const std::uint64_t* sample_ids;  // (S,)
    const bool* bfloat16;             // (S,): whether bfloat16 factors are good enough for this sample
    std::size_t n_samples;
    std::size_t n_threads;
    double* raw;   // (n_reads, S, n_orders, N), the result
    double* work;  // work of the coupling until each reading, (n_reads, S, M); null if not accounted for
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

    // Clipped updates from the first step to each reading.
    const std::vector<std::uint64_t>& clipped() const { return clipped_; }

   private:
    // mu dt W in the layouts that some sample needs.
    struct Packed {
        Buffer single, halved, rest;
    };
    // What is known of a sample whose parts are not all done.
    struct Partial {
        std::vector<std::vector<double>> sums;
        std::size_t missing;
    };

    void work();
    Coupling coupling(const double* W, bool bfloat16) const;
    void run_part(const std::size_t* samples, std::size_t count, std::size_t part, Buffer& workspace,
                  std::vector<float>& drives);
    void hand_in(std::size_t sample, std::size_t part, std::vector<double> sums,
                 const std::vector<std::uint64_t>& clipped);
    void stop_and_join();

    const Kernel& kernel_;
    const Request request_;
    std::size_t n_tiles_, n_parts_, n_reads_;
    std::size_t group_;               // samples that share a tile
    std::vector<std::size_t> order_;  // the samples, those in bfloat16 first
    std::size_t n_halved_;            // how many those are
    std::map<const double*, Packed> packed_;

    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stop_{false};

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::map<std::size_t, Partial> partial_;
    std::size_t done_ = 0;
    std::vector<std::uint64_t> clipped_;
    std::exception_ptr failure_;

    std::vector<std::thread> threads_;
};

}  // namespace thermoment
