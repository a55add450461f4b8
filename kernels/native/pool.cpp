#include "pool.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// After this many idle polls a waiter gives its core away: on a busy machine the thread it waits for may need it.
constexpr int SPINS_BEFORE_YIELD = 2000;

Pool::Pool(int threads) {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { worker(); });
}

Pool::~Pool() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    for (auto& thread : workers_) thread.join();
}

void Pool::wake() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        awake_ = true;
    }
    changed_.notify_all();
}

void Pool::sleep() { awake_ = false; }

void Pool::fork_join(Function function, const void* context, int chunks) {
    function_ = function;
    context_ = context;
    unfinished_.store(chunks, std::memory_order_relaxed);
    uint64_t generation = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    ticket_.store(generation << 32 | (uint32_t)chunks, std::memory_order_release);
    while (work_once()) {}
    for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; spins++)
        if (spins < SPINS_BEFORE_YIELD) relax(); else std::this_thread::yield();
}

bool Pool::work_once() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if ((uint32_t)ticket == 0) return false;
    if (!ticket_.compare_exchange_strong(ticket, ticket - 1, std::memory_order_acq_rel)) return true;
    function_(context_, (int)(uint32_t)ticket - 1);
    unfinished_.fetch_sub(1, std::memory_order_release);
    return true;
}

void Pool::worker() {
    int spins = 0;
    while (!stop_) {
        if (work_once()) spins = 0;
        else if (!awake_) {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return awake_ || stop_; });
        } else if (++spins < SPINS_BEFORE_YIELD) relax();
        else std::this_thread::yield();
    }
}
