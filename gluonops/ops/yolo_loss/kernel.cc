// yolo_loss on the CPU. yolo.h has its stages.
#include "generated/yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

template <typename T, typename A = typename Simd<T>::Scalar>
YoloLoss<A> loss_of(const YoloLossArgs<T> &args)
{
    YoloLoss<A> loss;
    set_loss(loss, args);
    loss.alexeyab = args.dialect == YoloLossDialect::Alexeyab;
    loss.new_coords = args.new_coords;
    loss.focal_loss = args.focal_loss;
    return loss;
}

template <typename T>
void forward(const YoloLossArgs<T> &args)
{
    yolo_forward(args, loss_of(args));
}

template <typename T>
void backward(const YoloLossArgs<T> &args)
{
    map_loss_backward(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
