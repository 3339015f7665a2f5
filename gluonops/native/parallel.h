// Loops over several threads. A chunk is a range of items; what a kernel computes for an item must not depend on the
// chunk it is in, so results are the same for any number of threads.
#ifndef GLUONOPS_NATIVE_PARALLEL_H_
#define GLUONOPS_NATIVE_PARALLEL_H_

#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "target.h"

namespace gluonops {

// How many threads `items` items are worth that touch `bytes` bytes each. 1 inside another parallel region, and in a
// child process after fork(): its parent's threads are gone, and OpenMP would wait for them.
int team_size(int64_t items, int64_t bytes);

namespace GLUONOPS_TARGET {

template <typename Body>
inline void parallel_for(int64_t items, int64_t bytes, const Body &body)
{
#ifdef _OPENMP
    const int threads = team_size(items, bytes);
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        {
            const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
            body(items * me / team, items * (me + 1) / team);
        }
        return;
    }
#endif
    body(int64_t(0), items);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_PARALLEL_H_
