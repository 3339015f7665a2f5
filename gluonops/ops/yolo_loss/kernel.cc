// yolo_loss on the CPU. yolo.h has its stages.
#include "generated/yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops {

struct YoloLossCall : YoloCall {
    bool alexeyab, new_coords, focal_loss;
};

namespace GLUONOPS_TARGET {
namespace {

template <typename A>
YoloLoss<A> loss_of(const YoloLossCall &call)
{
    YoloLoss<A> loss;
    set_loss(loss, call);
    loss.alexeyab = call.alexeyab;
    loss.new_coords = call.new_coords;
    loss.focal_loss = call.focal_loss;
    return loss;
}

template <typename T>
struct YoloLossImage : YoloImage<T, YoloLoss<typename Simd<T>::Scalar>> {
    typedef typename Simd<T>::Scalar A;

    YoloLossImage(const YoloLossCall &call, int64_t index) : YoloImage<T, YoloLoss<A>>(call, loss_of<A>(call), index) {}
};

template <typename T>
void forward(const YoloLossCall &call)
{
    map_loss_forward<YoloLossImage, T>(call, call.all_anchors);
}

template <typename T>
void backward(const YoloLossCall &call)
{
    map_loss_backward<T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline YoloLossCall adapt(const YoloLossAttrs &attrs, const YoloLossTensors &tensors, Workspace &memory)
{
    YoloLossCall call = {};
    adapt_yolo(call, attrs, tensors, memory, 5);
    call.alexeyab = attrs.dialect == YoloLossAttrs::Dialect::Alexeyab;
    call.new_coords = attrs.new_coords;
    call.focal_loss = attrs.focal_loss;
    return call;
}

}  // namespace gluonops
