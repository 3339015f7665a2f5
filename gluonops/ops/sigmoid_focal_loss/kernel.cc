// sigmoid_focal_loss on the CPU, element by element.
#include "generated/sigmoid_focal_loss.h"
#include "../_sigmoid/sigmoid.h"

namespace gluonops {

struct SigmoidFocalLossCall : SigmoidCall {
    double gamma, alpha;
};

namespace GLUONOPS_TARGET {
namespace {

SigmoidFocal formula_of(const SigmoidFocalLossCall &call)
{
    return {{call.ignores, call.ignore_label}, call.gamma, call.alpha};
}

template <typename T>
void forward(const SigmoidFocalLossCall &call)
{
    const SigmoidFocal formula = formula_of(call);
    const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA { return formula.value(x, y); };
    sigmoid_lines<false, T>(call, Lines{SIGMOID_LINE, call.size}, at);
}

template <typename T>
void backward(const SigmoidFocalLossCall &call)
{
    const SigmoidFocal formula = formula_of(call);
    const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA { return formula.slope(x, y); };
    sigmoid_lines<true, T>(call, Lines{SIGMOID_LINE, call.size}, at);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SigmoidFocalLossCall adapt(const SigmoidFocalLossAttrs &attrs, const SigmoidFocalLossTensors &tensors,
                                  Workspace &)
{
    SigmoidFocalLossCall call = sigmoid_call<SigmoidFocalLossCall>(attrs, tensors);
    call.gamma = attrs.gamma;
    call.alpha = attrs.alpha;
    return call;
}

}  // namespace gluonops
