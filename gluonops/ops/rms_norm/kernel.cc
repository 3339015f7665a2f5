// rms_norm on the CPU: see rms.h.
#include "generated/rms_norm.h"
#include "../_rms/rms.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const RmsNormArgs<T> &args)
{
    rms_forward(args);
}

template <typename T>
void backward(const RmsNormArgs<T> &args)
{
    rms_backward(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
