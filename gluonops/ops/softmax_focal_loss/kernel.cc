// softmax_focal_loss on the CPU: a function of the nll of a row's class.
#include "generated/softmax_focal_loss.h"
#include "../_softmax/class_loss.h"

namespace gluonops {

struct SoftmaxFocalLossCall : ClassLossCall {
    double gamma;
};

namespace GLUONOPS_TARGET {
namespace {

GLUONOPS_INLINE float power(float base, float exponent) { return __builtin_powf(base, exponent); }
GLUONOPS_INLINE double power(double base, double exponent) { return __builtin_pow(base, exponent); }
GLUONOPS_INLINE float expm1_of(float x) { return __builtin_expm1f(x); }
GLUONOPS_INLINE double expm1_of(double x) { return __builtin_expm1(x); }
GLUONOPS_INLINE float exponential_of(float x) { return __builtin_expf(x); }
GLUONOPS_INLINE double exponential_of(double x) { return __builtin_exp(x); }

// (1 - p)^gamma * nll, with the probability p = exp(-nll).
struct Focal {
    double gamma;

    template <typename A>
    GLUONOPS_INLINE A value(A nll) const
    {
        return power(-expm1_of(-nll), A(gamma)) * nll;
    }

    // Near 0 the error 1 - p is the nll. At infinity p * nll is 0.
    template <typename A>
    GLUONOPS_INLINE A slope(A nll) const
    {
        const A error = -expm1_of(-nll), p = exponential_of(-nll);
        const A ratio = error == 0 ? A(1) : p == 0 ? A(0) : nll / error;
        return power(error, A(gamma)) * (1 + A(gamma) * p * ratio);
    }
};

template <typename T>
void forward(const SoftmaxFocalLossCall &call)
{
    class_loss_forward<T>(call, Focal{call.gamma});
}

template <typename T>
void backward(const SoftmaxFocalLossCall &call)
{
    class_loss_backward<T>(call, Focal{call.gamma});
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxFocalLossCall adapt(const SoftmaxFocalLossAttrs &attrs, const SoftmaxFocalLossTensors &tensors,
                                  Workspace &memory)
{
    SoftmaxFocalLossCall call = class_loss_call<SoftmaxFocalLossCall>(attrs, tensors);
    call.gamma = attrs.gamma;
    call.weights = class_weights(attrs.alpha, call.sizes.length, call.type, memory);
    return call;
}

}  // namespace gluonops
