// The threads that help a kernel. They wait in a way that leaves the processors to others: see pool.cc.
#pragma once

#include <stdint.h>

namespace gluonops {

// Computes the items from `begin` to `end`; `body` is what the loop was given.
typedef void (*ComputeRange)(const void *body, int64_t begin, int64_t end);

// A loop over `items` items, cut into `chunks` ranges of about the same size.
struct Loop {
    ComputeRange compute;
    const void *body;
    int64_t items;
    int64_t chunks;
};

// Returns how many threads pay for `items` items that touch `bytes` bytes each, the caller included. It is 1 inside a
// loop that the pool runs, and in a child process after fork(), which does not have the threads of its parent.
int team_size(int64_t items, int64_t bytes);

// While such an object lives, small loops of its thread leave the helpers asleep, because no thread of MXNet's engine
// waits for them.
class DirectCall {
 public:
    DirectCall();
    ~DirectCall();
    DirectCall(const DirectCall &) = delete;
};

// Runs the loop in the calling thread and in up to `threads - 1` helpers. Returns when all items are computed.
void run_loop(const Loop &loop, int threads);

// Returns how many threads a loop may have, the caller included.
int most_threads();

}  // namespace gluonops
