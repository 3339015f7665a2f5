// Arithmetic in registers, shared by threads that never wait for one another: the least that any computation with as
// many threads can take on a machine that others use.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

std::atomic<long> done{0};     // pieces, since the process began
std::atomic<long> wanted{0};   // helpers sleep once so many are done
std::mutex &mutex = *new std::mutex;   // these two are never destroyed: helpers wait for them until the process ends
std::condition_variable &changed = *new std::condition_variable;

// About 20 microseconds. Each step depends on the one before, so no compiler removes or reorders them.
void compute_piece() {
    volatile double seen;
    double value = 1;
    for (int step = 0; step < 8000; ++step) {
        value = value * 0.999 + 0.5;
    }
    seen = value;
    (void)seen;
}

void compute_until_done() {
    while (done < wanted) {
        compute_piece();
        ++done;
    }
}

void help() {
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [] { return done < wanted; });
        }
        compute_until_done();
    }
}

}  // namespace

// Starts threads that help the caller of compute().
extern "C" void start(int helpers) {
    for (int index = 0; index < helpers; ++index) {
        std::thread(help).detach();
    }
}

// Returns when so many pieces are done, whoever did them. It does not wait for the piece that a helper has begun.
extern "C" void compute(long pieces) {
    {
        std::lock_guard<std::mutex> lock(mutex);
        wanted = done + pieces;
    }
    changed.notify_all();
    compute_until_done();
}
