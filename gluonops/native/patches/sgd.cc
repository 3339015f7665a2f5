// Compiled once per instruction set; the first compilation chooses among them. See sgd.h.
#include "sgd.h"

namespace gluonops {

#ifndef GLUONOPS_ENTRY
namespace GLUONOPS_TARGET {

void run_sgd_update(const SgdCall &call) { sgd_update(call); }

}  // namespace GLUONOPS_TARGET
#else

#ifdef GLUONOPS_ALL_TARGETS
namespace avx2 { void run_sgd_update(const SgdCall &call); }
namespace avx512 { void run_sgd_update(const SgdCall &call); }
#endif

void update_parameters(const SgdCall &call)
{
#ifdef GLUONOPS_ALL_TARGETS
    switch (target()) {
    case AVX512: return avx512::run_sgd_update(call);
    case AVX2: return avx2::run_sgd_update(call);
    default: break;
    }
#endif
    base::sgd_update(call);
}

#endif

}  // namespace gluonops
