// gelu on the CPU, element by element.
#include "generated/gelu.h"
#include "../_activation/activation.h"

namespace gluonops {

struct GeluCall : ActivationCall {
    bool is_tanh;
};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const GeluCall &call)
{
    if (call.is_tanh)
        activate_forward<T>(call, GeluTanh());
    else
        activate_forward<T>(call, Gelu());
}

template <typename T>
void backward(const GeluCall &call)
{
    if (call.is_tanh)
        activate_backward<T>(call, GeluTanh());
    else
        activate_backward<T>(call, Gelu());
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline GeluCall adapt(const GeluAttrs &attrs, const GeluTensors &tensors, Workspace &)
{
    GeluCall call = activation_call<GeluCall>(tensors);
    call.is_tanh = attrs.approximation == GeluAttrs::Approximation::Tanh;
    return call;
}

}  // namespace gluonops
