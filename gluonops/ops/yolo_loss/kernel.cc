// yolo_loss on the CPU. loss.h has its stages.
#include "generated/yolo_loss.h"
#include "../_region/yolo.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
void forward(const YoloLossArgs<T> &args)
{
    head_loss_forward(args, loss_of<YoloLoss>(args));
}

template <typename T>
void backward(const YoloLossArgs<T> &args)
{
    head_loss_backward(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
