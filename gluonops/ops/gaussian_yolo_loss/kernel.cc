// gaussian_yolo_loss on the CPU. loss.h has its stages.
#include "generated/gaussian_yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

#include "../_region/gaussian.inl"

template <typename T>
void forward(const GaussianYoloLossArgs<T> &args)
{
    head_loss_forward(args, loss_of<GaussianLoss>(args));
}

template <typename T>
void backward(const GaussianYoloLossArgs<T> &args)
{
    head_loss_backward(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
