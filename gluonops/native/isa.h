// Kernels are compiled once per instruction set: each compilation names its own GLUONOPS_ISA, a namespace, and the
// generated dispatch calls the best of them that the processor has. What lies in such a namespace may use nothing of
// the C++ library that is not expanded in place: the linker would take one copy for all, perhaps the one for AVX-512.
#pragma once

#ifndef GLUONOPS_ISA
#define GLUONOPS_ISA base
#endif

#define GLUONOPS_INLINE inline __attribute__((always_inline))
// Marks functions that stay calls on x86-64 because they serve old processors or rare types. Expanded in place they
// would be half of the library.
#if defined(__x86_64__)
#define GLUONOPS_OUTLINE inline __attribute__((noinline))
#else
#define GLUONOPS_OUTLINE GLUONOPS_INLINE
#endif
#define GLUONOPS_LAMBDA __attribute__((always_inline))
// Marks the functions that Python calls by their names. All others are hidden in the library.
#define GLUONOPS_PUBLIC extern "C" __attribute__((visibility("default")))

namespace gluonops {

enum Isa { BASE, AVX2, AVX512 };

// Returns the best instruction set of this processor, or the one to which the environment variable
// GLUONOPS_NATIVE_TARGET (base, avx2, avx512) limits it. It is determined once.
Isa isa();

// Declares functions that every instruction set has; and calls the best one.
#define GLUONOPS_OF_EVERY_ISA(functions) \
    namespace base { functions } namespace avx2 { functions } namespace avx512 { functions }
#ifdef GLUONOPS_ALL_ISAS
#define GLUONOPS_BEST(call) \
    (isa() == AVX512 ? avx512::call : isa() == AVX2 ? avx2::call : base::call)
#else
#define GLUONOPS_BEST(call) base::call
#endif

}  // namespace gluonops
