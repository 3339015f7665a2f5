// swish on the CPU, element by element.
#include "generated/swish.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const SwishArgs<T> &args)
{
    activate_forward(args, Swish{args.beta});
}

template <typename T>
void backward(const SwishArgs<T> &args)
{
    activate_backward(args, Swish{args.beta});
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
