// gaussian_yolo_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward
// twice the gradient.
#include "../_region/yolo.cuh"
#include "../_region/gaussian.inl"

template <typename T>
__device__ void forward(const GaussianYoloLossArgs<T> &args)
{
    head_loss_forward<4>(args, loss_of<GaussianLoss>(args));
}

template <typename T>
__device__ void backward(const GaussianYoloLossArgs<T> &args) { head_loss_backward(args); }
