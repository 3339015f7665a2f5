// yolo_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward
// twice the gradient.
#include "../_region/yolo_map.cuh"

template <typename T>
__device__ void forward(const YoloLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    YoloLoss<A> loss;
    set_loss(loss, args);
    loss.alexeyab = args.dialect == YoloLossDialect::Alexeyab;
    loss.new_coords = args.new_coords;
    loss.focal_loss = args.focal_loss;
    yolo_forward(args, loss);
}

template <typename T>
__device__ void backward(const YoloLossArgs<T> &args) { scale_gradient(args); }
