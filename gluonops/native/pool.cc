// A pool of threads for the kernels' loops.
//
// The calling thread takes chunks as the helpers do, and it never waits for a helper that has not begun. So a loop
// takes no longer than the caller alone would need, however late the helpers wake up. At its end the caller waits only
// for helpers in the middle of a chunk.
//
// OpenMP's threads wait for each other at both ends of a loop, and they spin meanwhile. That is fast on a machine that
// is otherwise idle. On a busy one a spinning thread uses up the time that the thread it waits for needs. So a helper
// that spins offers its processor to others all the time.
//
// With as many threads at work as there are processors, Linux sometimes puts a helper and the caller on the same one,
// and leaves another one asleep: the caller computes alone, and what runs next has to wake a processor. So a helper
// that finds itself on the caller's processor moves to another one.
//
// A call that is too small for a second thread keeps the first helper awake as well. MXNet hands each call to a thread
// of its engine, and the engine hands back that it is done. Linux moves each of them to a processor that sleeps, if
// there is one, and on a virtual machine that wakes up in 0.04 ms. With no processor asleep, a small call takes a
// quarter of the time. MXNet's own operators have the same from OpenMP's threads, those that use them.
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "isa.h"

namespace gluonops {
namespace {

inline void pause()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");   // `yield` does nothing on most of these processors
#endif
}

// A second thread pays from about here on: waking it costs some microseconds.
const int64_t BYTES_PER_THREAD = 192 * 1024;

// In a direct call no helper was kept awake, and one that sleeps is woken by the caller.
const int64_t BYTES_PER_THREAD_OF_DIRECT_CALL = 512 * 1024;

typedef std::chrono::steady_clock Clock;
typedef std::chrono::microseconds Microseconds;

// How long a helper spins before it sleeps. Waking one that sleeps can take 0.1 ms on a virtual machine, and MXNet's
// next operator comes within that time.
const Microseconds HELPER_SPIN(1000);

// How long the caller spins for helpers in the middle of a chunk.
const Microseconds CALLER_SPIN(50);

// A turn of spinning counts so much at most. In a longer one, another thread had the processor: with two processors,
// the thread that prepares the next operators displaces the helper all the time.
const Microseconds LONGEST_TURN(200);

// Spins until `ready()`, at most for `most`. Returns whether it is ready.
template <typename Ready>
bool spin_until(const Ready &ready, Microseconds most)
{
    Clock::duration spun(0);
    for (Clock::time_point last = Clock::now(); spun <= most;) {
        for (int i = 0; i < 16; ++i) {
            if (ready())
                return true;
            pause();
        }
        std::this_thread::yield();
        const Clock::time_point now = Clock::now();
        spun += std::min<Clock::duration>(now - last, LONGEST_TURN);
        last = now;
    }
    return ready();
}

const int NOWHERE = -1;   // what sched_getcpu() says if it does not know

// Moves the calling thread to another processor, if it may use one.
void leave_processor()
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        return;
    cpu_set_t others = allowed;
    CPU_CLR(sched_getcpu(), &others);
    if (!sched_setaffinity(0, sizeof(others), &others))   // it fails if there is no other one
        sched_setaffinity(0, sizeof(allowed), &allowed);
}

// Which helpers may enter the loop, and how many are inside. Both are in one word, so that a helper enters an open loop
// or none.
class Gate {
public:
    void open(uint64_t seats) { state_.store(seats << 32); }

    // Returns whether the calling helper is inside now.
    bool enter()
    {
        uint64_t state = state_.load();
        while (state >> 32)
            if (state_.compare_exchange_weak(state, state - SEAT + 1))
                return true;
        return false;
    }

    // Returns whether it was the last one inside.
    bool leave() { return uint32_t(state_.fetch_sub(1)) == 1; }

    void close() { state_.fetch_and(SEAT - 1); }
    bool is_open() const { return state_.load() >> 32; }
    bool is_empty() const { return uint32_t(state_.load()) == 0; }

private:
    static const uint64_t SEAT = uint64_t(1) << 32;
    std::atomic<uint64_t> state_{0};
};

class Pool {
public:
    // Runs the loop, in the calling thread alone if another loop has the helpers.
    void run(const Loop &loop, int threads)
    {
        std::unique_lock<std::mutex> use(in_use_, std::try_to_lock);
        if (!use.owns_lock()) {
            loop.compute(loop.body, 0, loop.items);
            return;
        }
        start_helpers(threads - 1);
        callers_processor_.store(sched_getcpu());
        loop_ = loop;
        next_chunk_.store(0);
        gate_.open(std::min(threads - 1, helpers_));
        wake(first_wakes_);
        wake(others_wake_);
        take_chunks();
        gate_.close();
        wait_for_helpers();
    }

    // Keeps the first helper awake for HELPER_SPIN from now on. Its processor is then awake for MXNet's threads.
    void keep_awake()
    {
        const std::unique_lock<std::mutex> use(in_use_, std::try_to_lock);
        if (!use.owns_lock())
            return;
        start_helpers(1);
        calls_.fetch_add(1);
        wake(first_wakes_);
    }

private:
    void start_helpers(int wanted)
    {
        try {
            for (; helpers_ < wanted; ++helpers_) {
                const bool is_first = helpers_ == 0;
                std::thread([this, is_first] { help(is_first); }).detach();
            }
        } catch (const std::system_error &) {
            // The system gives no more threads: those that there are do the work.
        }
    }

    void wake(std::condition_variable &sleepers)
    {
        if (!sleeping_.load())
            return;
        // A helper that has looked at the gate and does not sleep yet holds the mutex.
        { std::lock_guard<std::mutex> lock(mutex_); }
        sleepers.notify_all();
    }

    // Any call wakes the first helper, and only loops wake the others.
    [[noreturn]] void help(bool is_first)
    {
        for (;;) {
            const uint64_t calls_before = calls_.load();
            const auto is_wanted = [&] { return gate_.is_open() || (is_first && calls_.load() != calls_before); };
            const bool is_needed = spin_until([&] { return is_wanted() || is_beside_caller(); }, HELPER_SPIN);
            if (is_beside_caller())
                leave_caller();
            if (!is_needed)
                sleep(is_first ? first_wakes_ : others_wake_, is_wanted);
            if (gate_.enter())
                help_with_loop();
        }
    }

    // Returns whether the calling helper has the processor on which the last loop began.
    bool is_beside_caller() const
    {
        const int own = sched_getcpu();
        return own != NOWHERE && own == callers_processor_.load();
    }

    // Moves the calling helper to another processor: once for a loop, as there may be no other.
    void leave_caller()
    {
        callers_processor_.store(NOWHERE);
        leave_processor();
    }

    void help_with_loop()
    {
        take_chunks();
        if (gate_.leave() && caller_sleeps_.load()) {
            { std::lock_guard<std::mutex> lock(mutex_); }
            emptied_.notify_one();
        }
    }

    template <typename Wanted>
    void sleep(std::condition_variable &woken, const Wanted &is_wanted)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        woken.wait(lock, is_wanted);
        --sleeping_;
    }

    void take_chunks()
    {
        const Loop loop = loop_;
        for (;;) {
            const int64_t chunk = next_chunk_.fetch_add(1);
            if (chunk >= loop.chunks)
                return;
            loop.compute(loop.body, loop.items * chunk / loop.chunks, loop.items * (chunk + 1) / loop.chunks);
        }
    }

    void wait_for_helpers()
    {
        if (spin_until([this] { return gate_.is_empty(); }, CALLER_SPIN))
            return;
        std::unique_lock<std::mutex> lock(mutex_);
        caller_sleeps_.store(true);
        emptied_.wait(lock, [this] { return gate_.is_empty(); });
        caller_sleeps_.store(false);
    }

    std::mutex in_use_;   // held by the thread whose loop runs
    std::atomic<int> callers_processor_{NOWHERE};
    Loop loop_{};
    std::atomic<int64_t> next_chunk_{0};
    int helpers_ = 0;
    Gate gate_;
    std::atomic<uint64_t> calls_{0};   // It counts the calls of keep_awake.

    std::mutex mutex_;   // The conditions wait with it.
    std::condition_variable first_wakes_, others_wake_, emptied_;
    std::atomic<int> sleeping_{0};
    std::atomic<bool> caller_sleeps_{false};
};

// The pool is never destroyed, because its threads run until the process ends.
Pool &pool()
{
    static Pool *const only = new Pool;
    return *only;
}

std::atomic<bool> in_child{false};
thread_local bool in_loop = false;
thread_local bool in_direct_call = false;

struct Watch {
    Watch() { pthread_atfork(nullptr, nullptr, [] { in_child = true; }); }
} watch;

// Returns the number of threads that the user allows, or else one for each processor that this process may use. MXNet
// itself takes half of the processors, because it assumes that two share a core.
int default_threads()
{
    static const char *const limits[] = {"OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"};
    for (const char *limit : limits) {
        const char *value = getenv(limit);
        const int wanted = value ? atoi(value) : 0;
        if (wanted > 0)
            return wanted;
    }
    cpu_set_t allowed;
    if (!sched_getaffinity(0, sizeof(allowed), &allowed))
        return CPU_COUNT(&allowed);
    return std::max(1, int(std::thread::hardware_concurrency()));
}

std::atomic<int> &thread_limit()
{
    static std::atomic<int> limit{default_threads()};
    return limit;
}

}  // namespace

int most_threads() { return thread_limit(); }

GLUONOPS_PUBLIC int gluonops_threads() { return most_threads(); }

// Helpers that run already stay.
GLUONOPS_PUBLIC void gluonops_set_threads(int threads) { thread_limit() = std::max(1, threads); }

int team_size(int64_t items, int64_t bytes)
{
    const int most = most_threads();
    if (most < 2 || in_child || in_loop)
        return 1;
    // The work is a floating-point number: the product of sizes from a graph may be anything.
    const int64_t share = in_direct_call ? BYTES_PER_THREAD_OF_DIRECT_CALL : BYTES_PER_THREAD;
    const double worth = double(items) * double(bytes) / double(share);
    const int threads = int(std::min({double(most), worth, double(items)}));
    if (threads < 2 && !in_direct_call)
        pool().keep_awake();
    return std::max(1, threads);
}

DirectCall::DirectCall() { in_direct_call = true; }
DirectCall::~DirectCall() { in_direct_call = false; }

void run_loop(const Loop &loop, int threads)
{
    in_loop = true;
    pool().run(loop, threads);
    in_loop = false;
}

}  // namespace gluonops
