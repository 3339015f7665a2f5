// gelu on the CPU, element by element.
#include "generated/gelu.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const GeluArgs<T> &args)
{
    if (args.approximation == GeluApproximation::Tanh)
        activate_forward(args, GeluTanh());
    else
        activate_forward(args, Gelu());
}

template <typename T>
void backward(const GeluArgs<T> &args)
{
    if (args.approximation == GeluApproximation::Tanh)
        activate_backward(args, GeluTanh());
    else
        activate_backward(args, Gelu());
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
