// gaussian_yolo_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward
// twice the gradient.
#include "../_region/yolo_map.cuh"
#include "../_region/gaussian.cuh"

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 2 : 1)
gaussian_yolo_loss_forward(const T *__restrict__ data, const T *__restrict__ truth, T *__restrict__ output,
                           typename Accumulator<T>::type *__restrict__ parts,
                           typename Accumulator<T>::type *__restrict__ gradient, double *__restrict__ partial,
                           int output_request, int parts_request, int gradient_request, int64_t step, int64_t batch,
                           int64_t anchors, int64_t classes, int64_t height, int64_t width, int64_t truths,
                           int64_t others, double ignore_thresh, double truth_thresh, double iou_thresh,
                           int64_t box_loss, double iou_normalizer, double obj_normalizer, double max_delta,
                           double scale_x_y, double label_smooth_eps, int64_t objectness_smooth, double uc_normalizer,
                           double shift, const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    GaussianLoss<A> loss;
    set_loss(loss, ignore_thresh, truth_thresh, iou_thresh, box_loss, iou_normalizer, obj_normalizer, max_delta,
             scale_x_y, label_smooth_eps, objectness_smooth);
    loss.alexeyab = true;
    loss.new_coords = false;
    loss.focal_loss = false;
    loss.uc_normalizer = A(uc_normalizer);
    loss.shift = A(shift);
    const Map<T, GaussianLoss<A> > map = {data, int(anchors), int(others), int(classes), int(height), int(width),
                                            anchor_sizes};
    const Outputs<T, A> outputs = {output, parts, gradient, output_request, parts_request, gradient_request};
    yolo_forward(map, loss, truth, truths, batch, partial, step, outputs);
}

template <typename T>
__global__ void gaussian_yolo_loss_backward(const T *__restrict__ output_grad,
                                            const typename Accumulator<T>::type *__restrict__ gradient,
                                            T *__restrict__ data_grad, double *__restrict__ partial,
                                            int data_grad_request, int64_t step, int64_t batch, int64_t anchors,
                                            int64_t classes, int64_t height, int64_t width, int64_t truths,
                                            int64_t others, double ignore_thresh, double truth_thresh,
                                            double iou_thresh, int64_t box_loss, double iou_normalizer,
                                            double obj_normalizer, double max_delta, double scale_x_y,
                                            double label_smooth_eps, int64_t objectness_smooth, double uc_normalizer,
                                            double shift, const double *__restrict__ anchor_sizes)
{
    scale_gradient(output_grad, gradient, data_grad, data_grad_request, batch,
                   anchors * (9 + classes) * height * width);
}
