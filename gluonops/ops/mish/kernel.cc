// mish on the CPU, element by element.
#include "generated/mish.h"
#include "../_activation/activation.h"

namespace gluonops {

struct MishCall : ActivationCall {};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const MishCall &call)
{
    activate_forward<T>(call, Mish());
}

template <typename T>
void backward(const MishCall &call)
{
    activate_backward<T>(call, Mish());
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline MishCall adapt(const MishAttrs &, const MishTensors &tensors, Workspace &)
{
    return activation_call<MishCall>(tensors);
}

}  // namespace gluonops
