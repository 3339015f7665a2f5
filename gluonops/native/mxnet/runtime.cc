// The instruction set that the kernels use on this processor.
#include <stdlib.h>
#include <string.h>

#include "../isa.h"

namespace gluonops {
namespace {

Isa best()
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

}  // namespace

Isa isa()
{
    static const Isa chosen = best();
    return chosen;
}

GLUONOPS_PUBLIC const char *gluonops_target()
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    return names[isa()];
}

}  // namespace gluonops
