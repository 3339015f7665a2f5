// gaussian_yolo_loss on the CPU. yolo.h has its stages.
#include "generated/gaussian_yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops {

struct GaussianYoloLossCall : YoloCall {
    double uc_normalizer, shift;   // as in gaussian.cuh
};

namespace GLUONOPS_TARGET {
namespace {

#include "../_region/gaussian.cuh"

template <typename A>
GaussianLoss<A> loss_of(const GaussianYoloLossCall &call)
{
    GaussianLoss<A> loss;
    set_loss(loss, call);
    loss.alexeyab = true;
    loss.new_coords = false;
    loss.focal_loss = false;
    loss.uc_normalizer = A(call.uc_normalizer);
    loss.shift = A(call.shift);
    return loss;
}

template <typename T>
struct GaussianImage : YoloImage<T, GaussianLoss<typename Simd<T>::Scalar>> {
    typedef typename Simd<T>::Scalar A;

    GaussianImage(const GaussianYoloLossCall &call, int64_t index)
        : YoloImage<T, GaussianLoss<A>>(call, loss_of<A>(call), index) {}
};

template <typename T>
void forward(const GaussianYoloLossCall &call)
{
    map_loss_forward<GaussianImage, T>(call, call.all_anchors);
}

template <typename T>
void backward(const GaussianYoloLossCall &call)
{
    map_loss_backward<T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline double shift_of(GaussianYoloLossAttrs::Point point)
{
    switch (point) {
    case GaussianYoloLossAttrs::Point::LeftTop: return 0.5;
    case GaussianYoloLossAttrs::Point::RightBottom: return -0.5;
    default: return 0;
    }
}

inline GaussianYoloLossCall adapt(const GaussianYoloLossAttrs &attrs, const GaussianYoloLossTensors &tensors,
                                  Workspace &memory)
{
    GaussianYoloLossCall call = {};
    adapt_yolo(call, attrs, tensors, memory, 9);
    call.uc_normalizer = attrs.uc_normalizer;
    call.shift = shift_of(attrs.point);
    return call;
}

}  // namespace gluonops
