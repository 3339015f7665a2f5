// yolo_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward
// twice the gradient.
#include "../_region/yolo.cuh"

template <typename T>
__device__ void forward(const YoloLossArgs<T> &args) { head_loss_forward<8>(args, loss_of<YoloLoss>(args)); }

template <typename T>
__device__ void backward(const YoloLossArgs<T> &args) { head_loss_backward(args); }
