// Arithmetic in registers, shared by threads: the least that a computation with as many threads can take on a machine that
// others use, whether its threads wait for one another after each layer or never.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

// Both counts are of pieces since the process began.
std::atomic<long> begun{0};
std::atomic<long> done{0};
std::atomic<long> wanted{0};         // helpers sleep once so many are begun, or done
std::atomic<bool> waits{false};      // for pieces that others have begun
std::atomic<long> steps_of_piece{0};
std::mutex &mutex = *new std::mutex;   // these two are never destroyed: helpers wait for them until the process ends
std::condition_variable &changed = *new std::condition_variable;

// Each step depends on the one before, so no compiler removes or reorders them.
void compute_piece() {
    volatile double seen;
    double value = 1;
    for (long step = 0; step < steps_of_piece; ++step) {
        value = value * 0.999 + 0.5;
    }
    seen = value;
    (void)seen;
}

// Several threads may compute the last piece. So nobody waits for one that has lost its processor.
void compute_until_done() {
    while (done < wanted) {
        compute_piece();
        ++done;
    }
}

bool take_piece() {
    long piece = begun;
    while (piece < wanted) {
        if (begun.compare_exchange_weak(piece, piece + 1)) {
            return true;
        }
    }
    return false;
}

void compute_what_is_left() {
    while (take_piece()) {
        compute_piece();
        ++done;
    }
}

bool has_work() {
    return (waits ? begun : done) < wanted;
}

void help() {
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, has_work);
        }
        if (waits) {
            compute_what_is_left();
        } else {
            compute_until_done();
        }
    }
}

void want(long pieces) {
    {
        std::lock_guard<std::mutex> lock(mutex);
        wanted = done + pieces;
    }
    changed.notify_all();
}

}  // namespace

// Starts threads that help the caller, with pieces of so many steps. A process chooses once whether its threads wait.
extern "C" void start(int helpers, long steps, bool threads_wait) {
    steps_of_piece = steps;
    waits = threads_wait;
    for (int index = 0; index < helpers; ++index) {
        std::thread(help).detach();
    }
}

// Returns when so many pieces are done, whoever did them. It does not wait for the piece that a helper has begun.
extern "C" void compute(long pieces) {
    want(pieces);
    compute_until_done();
}

// As a network does: each layer begins when all pieces of the layer before are done.
extern "C" void compute_layers(long layers, long pieces_of_layer) {
    for (long layer = 0; layer < layers; ++layer) {
        want(pieces_of_layer);
        compute_what_is_left();
        while (done < wanted) {
            std::this_thread::yield();
        }
    }
}
