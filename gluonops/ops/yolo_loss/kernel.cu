// yolo_loss. Forward has steps:
//     ASSIGN    a thread per ground truth finds its cell and the anchor that fits it best;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. A warp each computes the predictions of which more than the objectness has a target;
//     COMBINE   the sums of the blocks are added.
// Bytes moved: forward five of the map's planes and the gradient, backward twice the gradient.
#include "../_region/region.cuh"
#include "../_region/truth.cuh"
#include "../_region/loss.cuh"
#include "../_region/yolo_math.cuh"
#include "../_region/yolo.cuh"

enum { TARGET = 8 };

// One image's map.
template <typename T, typename A> struct Map {
    const T *data;
    int64_t anchors, other_anchors, classes, height, width;
    const double *anchor_sizes;   // the head's, then the others'

    __device__ int64_t cells() const { return height * width; }
    __device__ A anchor_w(int64_t anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int64_t anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    __device__ Box<A> anchor_size(int64_t anchor) const
    {
        const Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
        return size;
    }

    // The anchor of any head whose size has the largest IoU with the box's; `anchors` for one of another head.
    __device__ int64_t best_anchor(const Box<A> &box) const
    {
        const Box<A> size = {0, 0, box.w, box.h};
        int64_t best = 0;
        A max_iou = 0;
        for (int64_t anchor = 0; anchor < anchors + other_anchors; ++anchor) {
            const A iou = iou_of(anchor_size(anchor), size);
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best < anchors ? best : anchors;
    }
};

// A ground truth as every prediction looks at it: the sides and area of its box, its cell and its best anchor. A row
// that is no box overlaps nothing, and is assigned to nothing.
template <typename A> struct __align__(8) Target {   // as `partial` is
    A left, right, top, bottom, area, class_id;
    int cell;         // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;
    int is_invalid;   // neither a box nor padding
    int unused;

    template <typename T>
    __device__ void set(const GroundTruth<A> &truth, const Map<T, A> &map)
    {
        const Box<A> &box = truth.box;
        left = truth.valid ? box.x - box.w / 2 : -lowest<A>();
        right = truth.valid ? box.x + box.w / 2 : lowest<A>();
        top = truth.valid ? box.y - box.h / 2 : -lowest<A>();
        bottom = truth.valid ? box.y + box.h / 2 : lowest<A>();
        area = truth.valid ? box.w * box.h : A(0);
        class_id = truth.class_id;
        is_invalid = !truth.valid && !truth.padding;
        cell = truth.valid ? int(truth.row * map.width + truth.column) : -1;
        anchor = truth.valid ? int(map.best_anchor(box)) : -1;
        unused = 0;
    }

    // Whether the IoU with a box is above `thresh`, without the division.
    __device__ bool overlaps(const Edges<A> &box, A thresh) const
    {
        const A w = smaller(box.right, right) - larger(box.left, left);
        const A h = smaller(box.bottom, bottom) - larger(box.top, top);
        const A intersection = larger(w, A(0)) * larger(h, A(0));
        return intersection > thresh * (box.area + area - intersection);
    }
};

// The ground truths of an image.
template <typename T, typename A> struct Targets {
    Target<A> *all;
    const T *rows;
    int64_t count;
    Map<T, A> map;
    YoloLoss<A> loss;

    // Those of image `b`, from those of the first image; `size`: the elements of an image's map.
    __device__ Targets of_image(int64_t b, int64_t size) const
    {
        Targets targets = *this;
        targets.all += b * count;
        targets.rows += b * count * 5;
        targets.map.data += b * size;
        return targets;
    }

    __device__ GroundTruth<A> truth(int64_t t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width);
    }
    __device__ bool is_box(int64_t t) const { return all[t].cell >= 0; }
    __device__ A class_id(int64_t t) const { return all[t].class_id; }
    __device__ Box<A> box(int64_t t) const { return truth(t).box; }

    template <typename Place>
    __device__ bool is_at(int64_t t, const Place &place) const
    {
        if (all[t].cell != int(place.cell))
            return false;
        if (all[t].anchor == int(place.anchor))
            return true;
        Box<A> size = box(t);
        size.x = size.y = 0;
        return loss.fits(map.anchor_size(place.anchor), size);
    }

    // NaN if a row is neither a box nor padding, else 0. A warp looks together.
    __device__ A nan_if_invalid() const
    {
        int invalid = 0;
        for (int64_t t = threadIdx.x % 32; t < count; t += 32)
            invalid += all[t].is_invalid;
        return reduce_lanes(invalid, Sum(), 32) > 0 ? not_a_number<A>() : A(0);
    }
};

// Where an image's gradient goes.
template <typename A> struct Gradient {
    A *first;
    int request;
    A nan_if_invalid;   // added to every element

    __device__ void put(int64_t i, A value) const { store(first, i, nan_if_invalid + value, request); }
};

// A prediction. A warp computes it together.
template <typename T, typename A> struct Place {
    enum { LANES = 32 };
    const Map<T, A> &map;
    const Gradient<A> &gradient;
    int64_t anchor, column, row, cell, height, width, classes, first;

    __device__ Place(const Map<T, A> &map, const Gradient<A> &gradient, const Prediction &at)
        : map(map), gradient(gradient), anchor(at.anchor), column(at.column), row(at.row),
          cell(at.row * map.width + at.column), height(map.height), width(map.width), classes(map.classes),
          first(at.anchor * (5 + map.classes) * map.cells() + cell) {}

    __device__ A anchor_w() const { return map.anchor_w(anchor); }
    __device__ A anchor_h() const { return map.anchor_h(anchor); }
    __device__ A number(int64_t channel) const { return load(map.data, first + channel * map.cells()); }
    __device__ void put(int64_t channel, A value) const { gradient.put(first + channel * map.cells(), value); }
    __device__ int64_t lane() const { return threadIdx.x % LANES; }
    __device__ int sum(int value) const { return reduce_lanes(value, Sum(), LANES); }
};

// Computes a thread's prediction if only its objectness has a target, which is 0 or nothing. Returns whether it did.
template <typename T, typename A>
__device__ bool compute_background(const Targets<T, A> &targets, const Gradient<A> &gradient, int64_t prediction,
                                   A *sums)
{
    const YoloLoss<A> &loss = targets.loss;
    const Place<T, A> place(targets.map, gradient, Prediction(prediction, targets.map.height, targets.map.width));
    const YoloBox<A> predicted(loss, place);
    const Edges<A> sides(predicted.box);
    bool is_assigned = false, is_ignored = false, is_match = false;
    for (int64_t t = 0; t < targets.count; ++t) {
        is_assigned |= targets.is_at(t, place);
        is_ignored |= targets.all[t].overlaps(sides, loss.ignore_thresh);
        is_match |= targets.all[t].overlaps(sides, loss.truth_thresh);
    }
    if (is_assigned || is_match || (is_ignored && loss.alexeyab))
        return false;
    const A number = place.number(4), weight = is_ignored ? A(0) : loss.obj_normalizer;
    const A weighted_error = weight * loss.activation(number);
    sums[NO_OBJECTNESS] += weight * loss.entropy(number, A(0));
    sums[COST] += weighted_error * weighted_error;
    for (int64_t c = 0; c < 5 + place.classes; ++c)
        place.put(c, c == 4 ? weighted_error : A(0));
    return true;
}

// The predictions of one image that this block takes: THREADS at a time, every gridDim.y-th time. What the threads of a
// warp leave over, the warp computes together.
template <typename T, typename A>
__device__ void compute_image(const Targets<T, A> &targets, const Gradient<A> &gradient, A *sums)
{
    const Map<T, A> &map = targets.map;
    const int64_t predictions = map.anchors * map.cells(), lane = threadIdx.x % 32;
    for (int64_t first = blockIdx.y * int64_t(THREADS); first < predictions; first += gridDim.y * int64_t(THREADS)) {
        int64_t prediction = first + threadIdx.x;
        const bool is_left = prediction < predictions && !compute_background(targets, gradient, prediction, sums);
        unsigned left = reduce_lanes(unsigned(is_left) << lane, Sum(), 32);   // a bit for each thread
        for (prediction -= lane; left != 0; ++prediction, left >>= 1)
            if (left & 1) {
                const Place<T, A> place(map, gradient, Prediction(prediction, map.height, map.width));
                compute_prediction(targets.loss, place, targets, sums);
            }
    }
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T>
__global__ void __launch_bounds__(THREADS, 1)
yolo_loss_forward(const T *__restrict__ data, const T *__restrict__ truth, T *__restrict__ output,
                  typename Accumulator<T>::type *__restrict__ parts,
                  typename Accumulator<T>::type *__restrict__ gradient, double *__restrict__ partial,
                  int output_request, int parts_request, int gradient_request, int64_t step, int64_t batch,
                  int64_t anchors, int64_t classes, int64_t height, int64_t width, int64_t truths, int64_t others,
                  int64_t alexeyab, double ignore_thresh, double truth_thresh, double iou_thresh, int64_t box_loss,
                  double iou_normalizer, double obj_normalizer, double max_delta, double scale_x_y, int64_t new_coords,
                  double label_smooth_eps, int64_t objectness_smooth, int64_t focal_loss,
                  const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t size = anchors * (5 + classes) * height * width;
    const Map<T, A> map = {data, anchors, others, classes, height, width, anchor_sizes};
    const YoloLoss<A> loss = {alexeyab != 0, new_coords != 0, objectness_smooth != 0, focal_loss != 0, iou_thresh < 1,
                              int(box_loss), A(ignore_thresh), truth_thresh < 1 ? A(truth_thresh) : infinity<A>(),
                              A(iou_thresh), A(iou_normalizer), A(obj_normalizer),
                              max_delta > 0 ? A(max_delta) : infinity<A>(), A(scale_x_y), A(label_smooth_eps)};
    const Targets<T, A> targets = {reinterpret_cast<Target<A> *>(partial), truth, truths, map, loss};
    const Partials<PARTS> partials = {partial + batch * truths * TARGET, step};

    if (step == ASSIGN && blockIdx.y == 0)
        for (int64_t t = first_item(); t < batch * truths; t += item_step()) {
            const Targets<T, A> of_image = targets.of_image(t / truths, size);
            of_image.all[t % truths].set(of_image.truth(t % truths), of_image.map);
        }
    if (step == COMBINE && blockIdx.y == 0)
        for (int64_t b = first_item(); b < batch; b += item_step())
            combine(partials, b, output, parts, output_request, parts_request);
    if (step != COMPUTE)
        return;

    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        const Targets<T, A> of_image = targets.of_image(b, size);
        const Gradient<A> of_gradient = {gradient + b * size, gradient_request, of_image.nan_if_invalid()};
        A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        compute_image(of_image, of_gradient, sums);
        write_sums(sums, of_gradient.nan_if_invalid, partials.own(b));
    }
}

template <typename T>
__global__ void yolo_loss_backward(const T *__restrict__ output_grad,
                                   const typename Accumulator<T>::type *__restrict__ gradient,
                                   T *__restrict__ data_grad, double *__restrict__ partial, int data_grad_request,
                                   int64_t step, int64_t batch, int64_t anchors, int64_t classes, int64_t height,
                                   int64_t width, int64_t truths, int64_t others, int64_t alexeyab,
                                   double ignore_thresh, double truth_thresh, double iou_thresh, int64_t box_loss,
                                   double iou_normalizer, double obj_normalizer, double max_delta, double scale_x_y,
                                   int64_t new_coords, double label_smooth_eps, int64_t objectness_smooth,
                                   int64_t focal_loss, const double *__restrict__ anchor_sizes)
{
    const int64_t size = anchors * (5 + classes) * height * width;
    for (int64_t i = first_item(); i < batch * size; i += item_step())
        store(data_grad, i, load(gradient, i) * load(output_grad, i / size), data_grad_request);
}
