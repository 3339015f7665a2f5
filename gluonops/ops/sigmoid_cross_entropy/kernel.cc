// sigmoid_cross_entropy on the CPU. The weights of positives are constant in a line, or vary along it.
#include "generated/sigmoid_cross_entropy.h"
#include "../_sigmoid/sigmoid.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <bool BACKWARD, typename V>
GLUONOPS_INLINE V term(const SigmoidCrossEntropy &formula, V x, V y, V weight)
{
    if constexpr (BACKWARD)
        return formula.slope(x, y, weight);
    else
        return formula.value(x, y, weight);
}

template <bool BACKWARD, typename T>
void run(const SigmoidCrossEntropyArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const SigmoidCrossEntropy formula = {{args.ignore_label}};
    const A *weights = args.pos_weight.values;
    const int64_t classes = args.classes, inner = args.inner;
    if (!args.size)
        return;
    if (args.one_weight) {
        const A weight = args.pos_weight.of(0);
        const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, broadcast(weight));
        };
        sigmoid_lines<BACKWARD>(args, Lines{SIGMOID_LINE, args.size}, at);
    } else if (inner == 1) {
        const auto at = [=](auto x, auto y, int64_t, int64_t i, auto mask) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, load(weights + i, mask));
        };
        sigmoid_lines<BACKWARD>(args, Lines{classes, args.size}, at);
    } else {
        const auto at = [=](auto x, auto y, int64_t line, int64_t, auto) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, broadcast(weights[line % classes]));
        };
        sigmoid_lines<BACKWARD>(args, Lines{inner, args.size}, at);
    }
}

template <typename T>
void forward(const SigmoidCrossEntropyArgs<T> &args)
{
    run<false>(args);
}

template <typename T>
void backward(const SigmoidCrossEntropyArgs<T> &args)
{
    run<true>(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
