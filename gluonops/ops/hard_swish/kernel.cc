// hard_swish on the CPU, element by element.
#include "generated/hard_swish.h"
#include "../_activation/activation.h"

namespace gluonops {

struct HardSwishCall : ActivationCall {};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const HardSwishCall &call)
{
    activate_forward<T>(call, HardSwish());
}

template <typename T>
void backward(const HardSwishCall &call)
{
    activate_backward<T>(call, HardSwish());
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline HardSwishCall adapt(const HardSwishAttrs &, const HardSwishTensors &tensors, Workspace &)
{
    return activation_call<HardSwishCall>(tensors);
}

}  // namespace gluonops
