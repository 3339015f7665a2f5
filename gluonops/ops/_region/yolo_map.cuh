// The losses of YOLOv3's to YOLOv7's heads in CUDA. Forward has steps:
//     ASSIGN    a thread per ground truth finds its cell and the anchor that fits it best;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. A warp each computes the predictions of which more than the objectness has a target;
//     COMBINE   the sums of the blocks are added.
// `Loss` is a YoloLoss or a GaussianLoss.
#include "../_region/region.cuh"
#include "../_region/truth.cuh"
#include "../_region/loss.cuh"
#include "../_region/yolo_math.cuh"
#include "../_region/yolo.cuh"

// Sets the attributes that all heads have.
template <typename A>
__device__ void set_loss(YoloLoss<A> &loss, double ignore_thresh, double truth_thresh, double iou_thresh,
                         int64_t box_loss, double iou_normalizer, double obj_normalizer, double max_delta,
                         double scale_x_y, double label_smooth_eps, int64_t objectness_smooth)
{
    loss.objectness_smooth = objectness_smooth != 0;
    loss.several_anchors = iou_thresh < 1;
    loss.box_loss = int(box_loss);
    loss.ignore_thresh = A(ignore_thresh);
    loss.truth_thresh = truth_thresh < 1 ? A(truth_thresh) : infinity<A>();
    loss.iou_thresh = A(iou_thresh);
    loss.iou_normalizer = A(iou_normalizer);
    loss.obj_normalizer = A(obj_normalizer);
    loss.max_delta = max_delta > 0 ? A(max_delta) : infinity<A>();
    loss.scale_x_y = A(scale_x_y);
    loss.label_smooth_eps = A(label_smooth_eps);
}

// One image's map.
template <typename T, typename Loss> struct Map {
    typedef typename Loss::Scalar A;
    const T *data;
    int64_t anchors, other_anchors, classes, height, width;
    const double *anchor_sizes;   // the head's, then the others'

    __device__ int64_t cells() const { return height * width; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    __device__ int64_t channels() const { return Loss::FIRST_CLASS + classes; }
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

// A ground truth as every prediction looks at it, with its cell and its best anchor.
template <typename A> struct __align__(8) Target : TargetBox<A> {   // as `partial` is
    int cell;         // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;

    template <typename Map>
    __device__ void set(const GroundTruth<A> &truth, const Map &map)
    {
        this->set_box(truth);
        cell = truth.valid ? int(truth.row * map.width + truth.column) : -1;
        anchor = truth.valid ? int(map.best_anchor(truth.box)) : -1;
    }
};

// The ground truths of an image.
template <typename T, typename Loss> struct Targets {
    typedef typename Loss::Scalar A;
    Target<A> *all;
    const T *rows;
    int64_t count;
    Map<T, Loss> map;
    Loss loss;

    __device__ GroundTruth<A> truth(int64_t t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width,
                              loss.point_shift());
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
};

// A prediction. A warp computes it together.
template <typename T, typename Loss> struct Place {
    typedef typename Loss::Scalar A;
    enum { LANES = 32 };
    const Map<T, Loss> &map;
    const Gradient<A> &gradient;
    int64_t anchor, column, row, cell, height, width, classes, first;

    __device__ Place(const Map<T, Loss> &map, const Gradient<A> &gradient, const Prediction &at)
        : map(map), gradient(gradient), anchor(at.anchor), column(at.column), row(at.row),
          cell(at.row * map.width + at.column), height(map.height), width(map.width), classes(map.classes),
          first(at.anchor * map.channels() * map.cells() + cell) {}

    __device__ A anchor_w() const { return map.anchor_w(anchor); }
    __device__ A anchor_h() const { return map.anchor_h(anchor); }
    __device__ A number(int64_t channel) const { return load(map.data, first + channel * map.cells()); }
    __device__ void put(int64_t channel, A value) const { gradient.put(first + channel * map.cells(), value); }
    __device__ int64_t lane() const { return threadIdx.x % LANES; }
    __device__ int sum(int value) const { return reduce_lanes(value, Sum(), LANES); }
};

// Computes a thread's prediction if only its objectness has a target, which is 0 or nothing. Returns whether it did.
template <typename T, typename Loss, typename A>
__device__ bool compute_background(const Targets<T, Loss> &targets, const Gradient<A> &gradient, int64_t prediction,
                                   A *sums)
{
    const Loss &loss = targets.loss;
    const Place<T, Loss> place(targets.map, gradient, Prediction(prediction, targets.map.height, targets.map.width));
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
    const A number = place.number(Loss::OBJECT), weight = is_ignored ? A(0) : loss.obj_normalizer;
    const A weighted_error = weight * loss.activation(number);
    sums[NO_OBJECTNESS] += weight * loss.entropy(number, A(0));
    sums[COST] += weighted_error * weighted_error;
    for (int64_t c = 0; c < targets.map.channels(); ++c)
        place.put(c, c == Loss::OBJECT ? weighted_error : A(0));
    return true;
}

// The predictions of one image that this block takes: THREADS at a time, every gridDim.y-th time. What the threads of a
// warp leave over, the warp computes together.
template <typename T, typename Loss, typename A>
__device__ void compute_image(const Targets<T, Loss> &targets, const Gradient<A> &gradient, A *sums)
{
    const Map<T, Loss> &map = targets.map;
    const int64_t predictions = map.anchors * map.cells(), lane = threadIdx.x % 32;
    for (int64_t first = blockIdx.y * int64_t(THREADS); first < predictions; first += gridDim.y * int64_t(THREADS)) {
        int64_t prediction = first + threadIdx.x;
        const bool is_left = prediction < predictions && !compute_background(targets, gradient, prediction, sums);
        unsigned left = reduce_lanes(unsigned(is_left) << lane, Sum(), 32);   // a bit for each thread
        for (prediction -= lane; left != 0; ++prediction, left >>= 1)
            if (left & 1) {
                const Place<T, Loss> place(map, gradient, Prediction(prediction, map.height, map.width));
                compute_prediction(targets.loss, place, targets, sums);
            }
    }
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T, typename Loss, typename A>
__device__ void yolo_forward(const Map<T, Loss> &map, const Loss &loss, const T *truth, int64_t truths, int64_t batch,
                             double *partial, int64_t step, const Outputs<T, A> &outputs)
{
    const Targets<T, Loss> targets = {reinterpret_cast<Target<A> *>(partial), truth, truths, map, loss};
    const Partials<PARTS> partials = {partial + batch * truths * TARGET, step};
    if (step == ASSIGN && blockIdx.y == 0)
        assign(targets, batch);
    if (step == COMBINE && blockIdx.y == 0)
        combine(partials, batch, outputs);
    for (int64_t b = blockIdx.x; step == COMPUTE && b < batch; b += gridDim.x) {
        const Targets<T, Loss> own = of_image(targets, b);
        const Gradient<A> gradient = outputs.gradient_of(own, b);
        A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        compute_image(own, gradient, sums);
        write_sums(sums, gradient.nan_if_invalid, partials.own(b));
    }
}
