// hard_swish on the CPU, element by element.
#include "generated/hard_swish.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const HardSwishArgs<T> &args)
{
    activate_forward(args, HardSwish());
}

template <typename T>
void backward(const HardSwishArgs<T> &args)
{
    activate_backward(args, HardSwish());
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
