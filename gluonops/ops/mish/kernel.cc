// mish on the CPU, element by element.
#include "generated/mish.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const MishArgs<T> &args)
{
    activate_forward(args, Mish());
}

template <typename T>
void backward(const MishArgs<T> &args)
{
    activate_backward(args, Mish());
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
