// gaussian_yolo_loss on the CPU. yolo.h has its stages.
#include "generated/gaussian_yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

#include "../_region/gaussian.inl"

template <typename T, typename A = typename Simd<T>::Scalar>
GaussianLoss<A> loss_of(const GaussianYoloLossArgs<T> &args)
{
    GaussianLoss<A> loss;
    set_loss(loss, args);
    loss.alexeyab = true;
    loss.new_coords = false;
    loss.focal_loss = false;
    loss.uc_normalizer = A(args.uc_normalizer);
    loss.shift = args.shift;
    return loss;
}

template <typename T>
void forward(const GaussianYoloLossArgs<T> &args)
{
    yolo_forward(args, loss_of(args));
}

template <typename T>
void backward(const GaussianYoloLossArgs<T> &args)
{
    map_loss_backward(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
