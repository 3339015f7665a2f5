// l2_normalize on the CPU: see rms.h.
#include "generated/l2_normalize.h"
#include "../_rms/rms.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const L2NormalizeArgs<T> &args)
{
    rms_forward(args);
}

template <typename T>
void backward(const L2NormalizeArgs<T> &args)
{
    rms_backward(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
