// sigmoid_cross_entropy on the CPU. The weights of positives are constant in a line, or vary along it.
#include "generated/sigmoid_cross_entropy.h"
#include "../../native/simd/rows.h"
#include "../_labels/labels.h"
#include "../_sigmoid/sigmoid.h"

namespace gluonops {

struct SigmoidCrossEntropyCall : SigmoidCall {
    RowSizes sizes;
    ClassWeights weights;
    bool single_weight;
};

namespace GLUONOPS_TARGET {
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
void run(const SigmoidCrossEntropyCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const SigmoidCrossEntropy formula = {{call.ignores, call.ignore_label}};
    const A *weights = static_cast<const A *>(call.weights.values);
    const int64_t classes = call.sizes.length, inner = call.sizes.inner;
    if (!call.size)
        return;
    if (!weights || call.single_weight) {
        const A weight = weights ? weights[0] : A(1);
        const auto at = [=](auto x, auto y, int64_t, int64_t, auto) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, broadcast(weight));
        };
        sigmoid_lines<BACKWARD, T>(call, Lines{SIGMOID_LINE, call.size}, at);
    } else if (inner == 1) {
        const auto at = [=](auto x, auto y, int64_t, int64_t i, auto mask) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, load(weights + i, mask, A(0)));
        };
        sigmoid_lines<BACKWARD, T>(call, Lines{classes, call.size}, at);
    } else {
        const auto at = [=](auto x, auto y, int64_t line, int64_t, auto) GLUONOPS_LAMBDA {
            return term<BACKWARD>(formula, x, y, broadcast(weights[line % classes]));
        };
        sigmoid_lines<BACKWARD, T>(call, Lines{inner, call.size}, at);
    }
}

template <typename T>
void forward(const SigmoidCrossEntropyCall &call)
{
    run<false, T>(call);
}

template <typename T>
void backward(const SigmoidCrossEntropyCall &call)
{
    run<true, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SigmoidCrossEntropyCall adapt(const SigmoidCrossEntropyAttrs &attrs, const SigmoidCrossEntropyTensors &tensors,
                                     Workspace &memory)
{
    SigmoidCrossEntropyCall call = sigmoid_call<SigmoidCrossEntropyCall>(attrs, tensors);
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.weights = class_weights(attrs.pos_weight, call.sizes.length, call.type, memory);
    call.single_weight = attrs.pos_weight && attrs.pos_weight->size() == 1;
    return call;
}

}  // namespace gluonops
