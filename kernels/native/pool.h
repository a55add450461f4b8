// A fork-join pool for very short jobs: a few hundred per token, each some microseconds long.
// Chunks are claimed one at a time, so a thread that the system has paused delays nobody but its own chunk.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
public:
    explicit Pool(int threads);
    ~Pool();
    int size() const { return (int)workers_.size() + 1; }

    // Calls body(chunk) for every chunk in [0, chunks), on this thread and the workers; returns when all are done.
    template <class Body>
    void parallel(int chunks, const Body& body) {
        if (chunks <= 1 || workers_.empty()) {
            for (int c = 0; c < chunks; c++) body(c);
            return;
        }
        fork_join([](const void* context, int chunk) { (*(const Body*)context)(chunk); }, &body, chunks);
    }

    void wake();   // a program begins: workers leave their sleep and spin for jobs
    void sleep();  // it has ended: they may sleep again

private:
    using Function = void (*)(const void*, int);
    void fork_join(Function function, const void* context, int chunks);
    bool work_once();
    void worker();

    // generation in the high half, chunks not yet claimed in the low half: a claim can only succeed on the current job
    std::atomic<uint64_t> ticket_{0};
    std::atomic<int> unfinished_{0};
    Function function_ = nullptr;
    const void* context_ = nullptr;
    std::atomic<bool> awake_{false}, stop_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::thread> workers_;
};
