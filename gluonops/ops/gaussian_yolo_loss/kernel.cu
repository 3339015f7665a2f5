// gaussian_yolo_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward
// twice the gradient.
#include "../_region/yolo_map.cuh"
#include "../_region/gaussian.inl"

template <typename T>
__device__ void forward(const GaussianYoloLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    GaussianLoss<A> loss;
    set_loss(loss, args);
    loss.alexeyab = true;
    loss.new_coords = false;
    loss.focal_loss = false;
    loss.uc_normalizer = A(args.uc_normalizer);
    loss.shift = args.shift;
    yolo_forward(args, loss);
}

template <typename T>
__device__ void backward(const GaussianYoloLossArgs<T> &args) { scale_gradient(args); }
