// swish on the CPU, element by element.
#include "generated/swish.h"
#include "../_activation/activation.h"

namespace gluonops {

struct SwishCall : ActivationCall {
    double beta;
};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const SwishCall &call)
{
    activate_forward<T>(call, Swish{call.beta});
}

template <typename T>
void backward(const SwishCall &call)
{
    activate_backward<T>(call, Swish{call.beta});
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SwishCall adapt(const SwishAttrs &attrs, const SwishTensors &tensors, Workspace &)
{
    SwishCall call = activation_call<SwishCall>(tensors);
    call.beta = attrs.beta;
    return call;
}

}  // namespace gluonops
