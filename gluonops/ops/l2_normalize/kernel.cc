// l2_normalize on the CPU: see rms.h.
#include "generated/l2_normalize.h"
#include "../_rms/rms.h"

namespace gluonops {

struct L2NormalizeCall : RmsCall {};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const L2NormalizeCall &call)
{
    rms_forward<T>(call);
}

template <typename T>
void backward(const L2NormalizeCall &call)
{
    rms_backward<T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline L2NormalizeCall adapt(const L2NormalizeAttrs &attrs, const L2NormalizeTensors &tensors, Workspace &memory)
{
    const bool by_mean = false;
    L2NormalizeCall call = rms_call<L2NormalizeCall>(attrs, tensors, by_mean);
    if (tensors.backward)
        add_backward(call, tensors, memory);
    return call;
}

}  // namespace gluonops
