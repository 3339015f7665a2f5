// What the kernels ask about the machine and the process.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "parallel.h"
#include "target.h"

namespace gluonops {
namespace {

bool in_child = false;

struct Watch {
    Watch() { pthread_atfork(nullptr, nullptr, [] { in_child = true; }); }
} watch;

Target best()
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const char *limit = getenv("GLUONOPS_NATIVE_TARGET");
    if (limit && !strcmp(limit, "base"))
        return BASE;
    // F16C goes without saying: every processor with AVX2 has it, and clang 14 cannot ask.
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2")))
        return BASE;
    if (limit && !strcmp(limit, "avx2"))
        return AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return AVX512;
    return AVX2;
#else
    return BASE;
#endif
}

#ifdef _OPENMP
// A second thread pays from about here on: waking it costs some microseconds.
const int64_t BYTES_PER_THREAD = 192 * 1024;

// What the user allows, else one per processor that this process may use. Not omp_get_max_threads(): MXNet sets that
// in its engine's threads to half the processors, on the assumption that two share a core.
int most_threads()
{
    static const char *const limits[] = {"OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"};
    for (const char *limit : limits) {
        const char *value = getenv(limit);
        const int wanted = value ? atoi(value) : 0;
        if (wanted > 0)
            return wanted;
    }
    return omp_get_num_procs();
}
#endif

}  // namespace

Target target()
{
    static const Target found = best();
    return found;
}

int team_size(int64_t items, int64_t bytes)
{
#ifdef _OPENMP
    if (items < 2 || in_child)
        return 1;
    // In floating point: the product of sizes from a graph may be anything.
    const double worth = double(items) * double(bytes) / double(BYTES_PER_THREAD);
    if (worth < 2 || omp_in_parallel())
        return 1;
    static const int most = most_threads();
    int threads = most;
    if (threads > worth)
        threads = int(worth);
    return threads > items ? int(items) : threads;
#else
    return 1;
#endif
}

}  // namespace gluonops
