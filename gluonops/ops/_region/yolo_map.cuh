// The losses of YOLOv3's to YOLOv7's heads in CUDA. Forward has steps:
//     ASSIGN    a thread per ground truth finds its cell and the anchor that fits it best. Where an image has few ground
//               truths, each block does so itself in the next step;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. A warp each computes the predictions of which more than the objectness has a target;
//     COMBINE   the sums of the blocks are added, where an image has several.
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
    int anchors, other_anchors, classes, height, width;
    const double *anchor_sizes;   // the head's, then the others'

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    __device__ int channels() const { return Loss::FIRST_CLASS + classes; }
    __device__ A anchor_w(int anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    __device__ Box<A> anchor_size(int anchor) const
    {
        const Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
        return size;
    }

    // The anchor of any head whose size has the largest IoU with the box's; `anchors` for one of another head.
    __device__ int best_anchor(const Box<A> &box) const
    {
        const Box<A> size = {0, 0, box.w, box.h};
        int best = 0;
        A max_iou = 0;
        for (int anchor = 0; anchor < anchors + other_anchors; ++anchor) {
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
template <typename A> struct __align__(16) Target : TargetBox<A> {
    int cell;         // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;
    Box<A> box;

    template <typename Map>
    __device__ void set(const GroundTruth<A> &truth, const Map &map)
    {
        this->set_box(truth);
        box = truth.box;
        cell = truth.valid ? int(truth.row * map.width + truth.column) : -1;
        anchor = truth.valid ? map.best_anchor(truth.box) : -1;
    }
};

// The ground truths of an image.
template <typename T, typename Loss> struct Targets {
    typedef typename Loss::Scalar A;
    typedef Target<A> Item;
    Item *all;
    const T *rows;
    int count;
    Map<T, Loss> map;
    const Loss &loss;
    A shift;   // from a box's centre to the point that says its cell, in boxes
    const Item *held;

    __device__ bool is_held() const { return count <= HELD_TARGETS; }
    __device__ int cell(int t) const { return is_held() ? held[t].cell : all[t].cell; }
    __device__ int anchor(int t) const { return is_held() ? held[t].anchor : all[t].anchor; }
    __device__ A class_id(int t) const { return is_held() ? held[t].class_id : all[t].class_id; }
    __device__ bool is_invalid(int t) const { return is_held() ? held[t].is_invalid : all[t].is_invalid; }
    __device__ bool is_box(int t) const { return cell(t) >= 0; }
    __device__ Box<A> box(int t) const
    {
        if (is_held())
            return held[t].box;
        return all[t].box;
    }

    __device__ GroundTruth<A> truth(int t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width, shift);
    }

    // Whether a ground truth is assigned to the predictions of an anchor in its cell.
    __device__ bool has_anchor(int t, int anchor) const
    {
        if (this->anchor(t) == anchor)
            return true;
        Box<A> size = box(t);
        size.x = size.y = 0;
        return loss.fits(map.anchor_size(anchor), size);
    }

    template <typename Place>
    __device__ bool is_at(int t, const Place &place) const { return cell(t) == place.cell && has_anchor(t, place.anchor); }

    // The first ground truth from number `t` on that is at a place; `count` if there is none. A warp looks together.
    template <typename Place>
    __device__ int next_at(int t, const Place &place) const
    {
        for (int first = t; first < count; first += 32) {
            const int lane = threadIdx.x % 32, own = first + lane;
            const bool is_here = own < count && is_at(own, place);
            const unsigned here = reduce_warp(is_here ? 1u << lane : 0u, Or());
            if (here)
                return first + 31 - __clz(int(here & (0u - here)));
        }
        return count;
    }

    // Which of the 32 predictions from `first` on a ground truth is assigned to: a bit for each.
    __device__ unsigned assigned_predictions(int t, int first) const
    {
        unsigned assigned = 0;
        for (int anchor = 0; is_box(t) && anchor < map.anchors; ++anchor) {
            const unsigned place = anchor * int(map.cells()) + cell(t) - first;
            if (place < 32 && has_anchor(t, anchor))
                assigned |= 1u << place;
        }
        return assigned;
    }
};

// A prediction. A warp computes it together.
template <typename T, typename Loss> struct Place {
    typedef typename Loss::Scalar A;
    enum { LANES = 32 };
    const Map<T, Loss> &map;
    const Gradient<A> &gradient;
    int anchor, column, row, cell, height, width, classes;
    int64_t first;

    __device__ Place(const Map<T, Loss> &map, const Gradient<A> &gradient, const Prediction &at)
        : map(map), gradient(gradient), anchor(at.anchor), column(at.column), row(at.row), cell(at.cell),
          height(map.height), width(map.width), classes(map.classes),
          first(at.anchor * map.channels() * map.cells() + at.cell) {}

    __device__ A anchor_w() const { return map.anchor_w(anchor); }
    __device__ A anchor_h() const { return map.anchor_h(anchor); }
    __device__ int64_t at(int channel) const { return first + channel * map.cells(); }
    __device__ A number(int channel) const { return load(map.data, at(channel)); }
    __device__ void put(int channel, A value) const { gradient.put(at(channel), value); }
    __device__ int lane() const { return threadIdx.x % LANES; }
    template <typename V>
    __device__ V sum(V value) const { return reduce_warp(value, Sum()); }

    // All lanes get the best of theirs.
    template <typename Best>
    __device__ void keep_best(Best &best) const
    {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            const A iou = __shfl_xor_sync(0xffffffffu, best.iou, step);
            const int truth = __shfl_xor_sync(0xffffffffu, int(best.truth), step);
            const bool is_better = iou > best.iou || (iou == best.iou && truth < best.truth);
            best.iou = is_better ? iou : best.iou;
            best.truth = is_better ? truth : best.truth;
        }
    }
};

// Whether ground truths overlap a box by more than two thresholds.
struct Overlaps { bool ignored, matched; };

template <typename A, typename Loss>
__device__ Overlaps overlaps_of(const Target<A> *targets, int count, const Edges<A> &box, const Loss &loss)
{
    const OverlapThreshold<A> ignore(loss.ignore_thresh, box), match(loss.truth_thresh, box);
    Overlaps found = {false, false};
#pragma unroll 4
    for (int t = 0; t < count; ++t) {
        const A intersection = targets[t].intersection(box), area = targets[t].area;
        found.ignored |= ignore.is_exceeded(intersection, area);
        found.matched |= match.is_exceeded(intersection, area);
    }
    return found;
}

// Computes a thread's prediction if only its objectness has a target, which is 0 or nothing. Returns whether it did. No
// ground truth is assigned to it.
template <typename T, typename Loss, typename A>
__device__ bool compute_background(const Targets<T, Loss> &targets, const Gradient<A> &gradient, int prediction,
                                   BackgroundSums<A> &sums)
{
    const Loss &loss = targets.loss;
    const Place<T, Loss> place(targets.map, gradient, Prediction(prediction, targets.map.height, targets.map.width));
    const A number = place.number(Loss::OBJECT);
    const Edges<A> sides(YoloBox<A>(loss, place).box);
    const Overlaps overlaps = targets.is_held() ? overlaps_of(targets.held, targets.count, sides, loss)
                                                : overlaps_of(targets.all, targets.count, sides, loss);
    if (overlaps.matched || (overlaps.ignored && loss.alexeyab))
        return false;
    const A weight = overlaps.ignored ? A(0) : loss.obj_normalizer;
    const A weighted_error = weight * loss.activation(number);
    sums.no_objectness += weight * loss.entropy(number, A(0));
    sums.cost += weighted_error * weighted_error;
    gradient.put_zeros(place.first, Loss::OBJECT, targets.map.cells());
    place.put(Loss::OBJECT, weighted_error);
    gradient.put_zeros(place.at(Loss::FIRST_CLASS), place.classes, targets.map.cells());
    return true;
}

// The predictions of one image that this block takes: THREADS at a time, every gridDim.y-th time. What the threads of a
// warp leave over, the warp computes together.
template <typename T, typename Loss, typename A>
__device__ void compute_image(const Targets<T, Loss> &targets, const Outputs<T, A> &outputs, int64_t b,
                              const Partials<PARTS> &partials)
{
    __shared__ A of_warps[WARPS][PARTS];
    const BlockSums<A> sums = {of_warps};
    const Gradient<A> gradient = outputs.gradient_of(targets, b);
    const Map<T, Loss> &map = targets.map;
    sums.clear();
    const unsigned predictions = unsigned(map.anchors * map.cells()), lane = threadIdx.x % 32;
    const unsigned start = blockIdx.y * THREADS + threadIdx.x - lane;   // of the warp
    for (unsigned first = start; first < predictions; first += gridDim.y * THREADS) {
        const unsigned assigned = assigned_predictions(targets, first);
        const bool is_assigned = assigned >> lane & 1, exists = first + lane < predictions;
        BackgroundSums<A> background = {0, 0, 0};
        const bool is_left =
            exists && (is_assigned || !compute_background(targets, gradient, first + lane, background));
        sums.add(background);   // now: registers are short below
        unsigned left = reduce_warp(is_left ? 1u << lane : 0u, Or());   // a bit for each thread
        for (int prediction = first; left != 0; ++prediction, left >>= 1)
            if (left & 1) {
                const Place<T, Loss> place(map, gradient, Prediction(prediction, map.height, map.width));
                compute_prediction(targets.loss, place, targets, sums.own());
            }
    }
    sums.write(gradient.nan_if_invalid, partials, b, outputs);
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T, typename Loss, typename A>
__device__ void yolo_forward(const Map<T, Loss> &map, const Loss &loss, const T *truth, int64_t truths, int64_t batch,
                             double *partial, int64_t step, const Outputs<T, A> &outputs)
{
    __shared__ Loss shared_loss;   // registers are short; step COMPUTE reads it behind the barrier of `hold`
    if (threadIdx.x == 0)
        shared_loss = loss;
    const Targets<T, Loss> targets = {reinterpret_cast<Target<A> *>(partial), truth, int(truths), map, shared_loss,
                                      loss.point_shift(), 0};
    const Partials<PARTS> partials = {partial + batch * truths * TARGET, step};
    if (step == ASSIGN && blockIdx.y == 0)
        assign(targets, batch);
    if (step == COMBINE && blockIdx.y == 0)
        combine(partials, batch, outputs);
    for (int64_t b = blockIdx.x; step == COMPUTE && b < batch; b += gridDim.x) {
        compute_image(hold(of_image(targets, b)), outputs, b, partials);
    }
}
