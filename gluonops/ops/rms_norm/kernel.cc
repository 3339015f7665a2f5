// rms_norm on the CPU: see rms.h.
#include "generated/rms_norm.h"
#include "../_rms/rms.h"

namespace gluonops {

struct RmsNormCall : RmsCall {};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const RmsNormCall &call)
{
    rms_forward<T>(call);
}

template <typename T>
void backward(const RmsNormCall &call)
{
    rms_backward<T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline RmsNormCall adapt(const RmsNormAttrs &attrs, const RmsNormTensors &tensors, Workspace &memory)
{
    const bool by_mean = true;
    RmsNormCall call = rms_call<RmsNormCall>(attrs, tensors, by_mean);
    if (tensors.backward)
        add_backward(call, tensors, memory);
    return call;
}

}  // namespace gluonops
