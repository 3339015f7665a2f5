// sigmoid_focal_loss on the CPU, element by element.
#include "generated/sigmoid_focal_loss.h"
#include "../_sigmoid/sigmoid.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const SigmoidFocalLossArgs<T> &args)
{
    const SigmoidFocal formula = {{args.ignore_label}, args.gamma, args.alpha};
    const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA { return formula.value(x, y); };
    sigmoid_lines<false>(args, Lines{SIGMOID_LINE, args.size}, at);
}

template <typename T>
void backward(const SigmoidFocalLossArgs<T> &args)
{
    const SigmoidFocal formula = {{args.ignore_label}, args.gamma, args.alpha};
    const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA { return formula.slope(x, y); };
    sigmoid_lines<true>(args, Lines{SIGMOID_LINE, args.size}, at);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
