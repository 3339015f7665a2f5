// region_loss. Forward has steps:
//     ASSIGN    a thread per ground truth finds the prediction to which it is assigned. A prediction is an anchor and a
//               cell. Where an image has few ground truths, each block does so itself in the next step;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. Predictions that have a ground truth assigned are computed by a warp each;
//     COMBINE   the sums of the blocks are added, where an image has several.
// Bytes moved: forward five of the map's planes and the gradient, backward twice the gradient.
#include "../_region/region.cuh"
#include "../_region/loss.cuh"

const int GIOU = 1;   // the index of "giou" in contract.py's BOX_LOSSES

// One image's map, and the attributes that its boxes depend on.
template <typename T, typename A> struct Map {
    const T *data;
    int anchors, classes, height, width;
    const double *anchor_sizes;
    bool bias_match, softmax;

    // The same map, of whose sizes the compiler knows nothing. Otherwise it computes what follows from them in front of
    // all loops, and has no registers left for it.
    __device__ Map again() const
    {
        Map same = *this;
        same.classes = int(opaque(classes));
        same.height = int(opaque(height));
        same.width = int(opaque(width));
        return same;
    }

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int64_t size() const { return anchors * (5 + classes) * cells(); }
    // Where the first number of a prediction is; the next ones are a plane apart.
    __device__ int64_t place(int anchor, int cell) const { return anchor * (5 + classes) * cells() + cell; }
    __device__ A anchor_w(int anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    // The anchor whose size has the largest IoU with the box's.
    __device__ int best_anchor(const GroundTruth<A> &truth) const
    {
        const Box<A> truth_size = {0, 0, truth.box.w, truth.box.h};
        int best = 0;
        A max_iou = 0;
        for (int anchor = 0; anchor < anchors; ++anchor) {
            Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
            if (!bias_match) {
                const T *from = data + place(anchor, int(truth.row) * width + int(truth.column));
                size.w *= exponential(load(from, 2 * cells()));
                size.h *= exponential(load(from, 3 * cells()));
            }
            const A iou = iou_of(size, truth_size);
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best;
    }
};

// What the map says of a prediction: x, y and the objectness are activated, w and h are not.
template <typename A> struct Predicted {
    A numbers[5];
    Box<A> box;

    template <typename T>
    __device__ Predicted(const Map<T, A> &map, const Prediction &at, int64_t place)
    {
        const T *from = map.data + place;
        const int64_t cells = map.cells();
#pragma unroll
        for (int c = 0; c < 5; ++c)
            numbers[c] = load(from, c * cells);
#pragma unroll
        for (int c = 0; c < 5; ++c)
            numbers[c] = has_sigmoid(c) ? sigmoid(numbers[c]) : numbers[c];
        box.x = (A(at.column) + numbers[0]) / A(map.width);
        box.y = (A(at.row) + numbers[1]) / A(map.height);
        box.w = exponential(numbers[2]) * (map.anchor_w(at.anchor) / A(map.width));
        box.h = exponential(numbers[3]) * (map.anchor_h(at.anchor) / A(map.height));
    }

    static __device__ bool has_sigmoid(int c) { return c != 2 && c != 3; }
};

// A ground truth as every prediction looks at it, with the prediction to which it is assigned.
template <typename A> struct __align__(16) Target : TargetBox<A> {
    int prediction;   // or -1

    template <typename Targets>
    __device__ void set(const GroundTruth<A> &truth, const Targets &targets)
    {
        const typename Targets::ImageMap &map = targets.map;
        this->set_box(truth);
        prediction = -1;
        if (truth.valid)
            prediction = int(map.best_anchor(truth) * map.cells() + truth.row * map.width + truth.column);
    }
};

// The ground truths of an image.
template <typename T, typename A> struct Targets {
    typedef Target<A> Item;
    typedef Map<T, A> ImageMap;
    Item *all;
    const T *rows;
    int count;
    Map<T, A> map;
    const Item *held;

    __device__ Targets again() const
    {
        Targets same = *this;
        same.map = map.again();
        return same;
    }

    __device__ bool is_held() const { return count <= HELD_TARGETS; }
    __device__ int prediction(int t) const { return is_held() ? held[t].prediction : all[t].prediction; }
    __device__ A class_id(int t) const { return is_held() ? held[t].class_id : all[t].class_id; }
    __device__ bool is_invalid(int t) const { return is_held() ? held[t].is_invalid : all[t].is_invalid; }

    // Which of the 32 predictions from `first` on a ground truth is assigned to: a bit.
    __device__ unsigned assigned_predictions(int t, int first) const
    {
        const unsigned place = prediction(t) - first;
        return place < 32 ? 1u << place : 0;
    }

    __device__ GroundTruth<A> truth(int t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width);
    }

    // Whether a ground truth behind number `t` is assigned to the same prediction: only the last one counts. A warp
    // looks together.
    __device__ bool is_replaced(int t, int prediction) const
    {
        int found = 0;
        for (int later = t + 1 + threadIdx.x % 32; later < count; later += 32)
            found += this->prediction(later) == prediction;
        return reduce_lanes(found, Sum(), 32) > 0;
    }
};

// The class logits of one prediction, read by a warp.
template <typename T, typename A> struct ClassLogits {
    const T *first;
    int64_t cells;
    bool softmax;
    A max, log_sum;   // of the softmax

    __device__ ClassLogits(const T *first, int classes, int64_t cells, bool softmax)
        : first(first), cells(cells), softmax(softmax), max(lowest<A>()), log_sum(0)
    {
        if (!softmax)
            return;
        A sum = 0;
        for (int k = threadIdx.x % 32; k < classes; k += 32)
            max = Max()(A(load(first, k * cells)), max);
        max = reduce_lanes(max, Max(), 32);
        for (int k = threadIdx.x % 32; k < classes; k += 32)
            sum += exponential(load(first, k * cells) - max);
        log_sum = logarithm(reduce_lanes(sum, Sum(), 32));
    }

    __device__ A probability(int k) const
    {
        const A logit = load(first, k * cells);
        return softmax ? exponential(logit - max - log_sum) : sigmoid(logit);
    }

    // The negative log-likelihood of class k, given its target of 0 or 1.
    __device__ A nll(int k, A target) const
    {
        const A logit = load(first, k * cells), positive = logit > 0 ? logit : A(0);
        if (softmax)
            return target * (log_sum - (logit - max));
        const A sum = exponential(-positive) + exponential(logit - positive);
        return logarithm(sum) + positive - logit * target;
    }
};

// The attributes of the loss.
template <typename A> struct Loss {
    A object_scale, noobject_scale, coord_scale, class_scale, thresh;
    bool rescore, warm_up, giou;
};

// What the five numbers of a prediction are regressed to.
template <typename A> struct Regression {
    A target[5], box_weight, object_weight;
    A giou_error[4];   // the derivatives of 1 - GIoU by the activations

    // Without a box: while warming up, boxes are regressed toward their priors.
    __device__ Regression(const Loss<A> &loss, bool overlaps)
        : box_weight(loss.warm_up ? A(0.01) : A(0)), object_weight(overlaps ? A(0) : loss.noobject_scale)
    {
        for (int c = 0; c < 5; ++c)
            target[c] = c < 2 ? A(0.5) : A(0);
        for (int c = 0; c < 4; ++c)
            giou_error[c] = 0;
    }
};

// The losses of a prediction's box and objectness.
template <typename A> struct RegressionLoss { A box, objectness, cost; };

// Stores the gradients of a prediction's box and objectness.
template <typename A>
__device__ RegressionLoss<A> regress(const Predicted<A> &predicted, const Regression<A> &to, const Gradient<A> &gradient,
                                     int64_t place, int64_t cells)
{
    RegressionLoss<A> total = {0, 0, 0};
#pragma unroll
    for (int c = 0; c < 5; ++c, place += cells) {
        const A number = predicted.numbers[c], error = number - to.target[c];
        const A squared_error = (c < 4 ? to.box_weight : to.object_weight) * error;
        const A weighted_error = c < 4 ? squared_error + to.giou_error[c] : squared_error;
        (c < 4 ? total.box : total.objectness) += A(0.5) * squared_error * error;
        total.cost += weighted_error * weighted_error;
        gradient.put(place, predicted.has_sigmoid(c) ? weighted_error * number * (1 - number) : weighted_error);
    }
    return total;
}

// A thread's prediction, to which no ground truth is assigned.
template <typename T, typename A>
__device__ void compute_unassigned(const Targets<T, A> &targets, const Loss<A> &loss, int prediction,
                                   const Gradient<A> &gradient, BackgroundSums<A> &sums)
{
    const Map<T, A> &map = targets.map;
    const Prediction at(prediction, map.height, map.width);
    const int64_t cells = map.cells(), place = map.place(at.anchor, at.cell);
    const Predicted<A> predicted(map, at, place);
    const Edges<A> sides(predicted.box);
    const bool overlaps = targets.is_held() ? any_overlaps(targets.held, targets.count, sides, loss.thresh)
                                            : any_overlaps(targets.all, targets.count, sides, loss.thresh);
    const Regression<A> to(loss, overlaps);
    const RegressionLoss<A> own = regress(predicted, to, gradient, place, cells);
    sums.coordinates += own.box;
    sums.no_objectness += own.objectness;
    sums.cost += own.cost;
    gradient.put_zeros(place + 5 * cells, int(map.classes), cells);
}

// The prediction to which ground truth number `last` is assigned, and maybe some before it; by a warp. The lanes share
// the classes, lane 0 does the rest.
template <typename T, typename A>
__device__ void compute_assigned(const Targets<T, A> &targets, const Loss<A> &loss, int last, int prediction,
                                 const Gradient<A> &gradient, A *sums)
{
    const Map<T, A> &map = targets.map;
    const Prediction at(prediction, map.height, map.width);
    const int64_t cells = map.cells();
    const int64_t place = map.place(at.anchor, at.cell);
    const bool is_first_lane = threadIdx.x % 32 == 0;
    const Box<A> box = Predicted<A>(map, at, place).box;
    const ClassLogits<T, A> logits(map.data + place + 5 * cells, map.classes, cells, map.softmax);

    // With sigmoids boxes add up their classes, back to where the error of class 0 was exactly 0.
    int first = -1;
    A first_target = 0;
    for (int t = 0; t <= last; ++t) {
        if (targets.prediction(t) != prediction)
            continue;
        if (first < 0 || first_target == logits.probability(0)) {
            first = t;
            first_target = 0;
        }
        first_target = targets.class_id(t) == 0 ? A(1) : first_target;
        if (is_first_lane) {
            const A iou = iou_of(box, targets.truth(t).box);
            sums[IOU] += iou;
            sums[RECALL] += A(iou > A(0.5));
            sums[PROBABILITY] += logits.probability(int(targets.class_id(t)));
            sums[TRUTHS] += 1;
        }
    }

    A class_loss = 0, cost = 0;
    for (int k = threadIdx.x % 32; k < map.classes; k += 32) {
        A class_target = 0;
        for (int t = map.softmax ? last : first; t <= last; ++t) {
            if (targets.prediction(t) == prediction && targets.class_id(t) == A(k))
                class_target = 1;
        }
        const A weighted_error = loss.class_scale * (logits.probability(k) - class_target);
        class_loss += loss.class_scale * logits.nll(k, class_target);
        cost += weighted_error * weighted_error;
        gradient.put(place + (5 + k) * cells, weighted_error);
    }
    class_loss = reduce_warp(class_loss, Sum());
    cost = reduce_warp(cost, Sum());
    if (!is_first_lane)
        return;
    sums[CLASS_PART] += class_loss;
    sums[COST] += cost;

    const Predicted<A> predicted(map, at, place + opaque(0));   // read again: registers do not hold it all the time
    const GroundTruth<A> assigned = targets.truth(last);
    Regression<A> to(loss, false);
    to.target[0] = assigned.box.x * A(map.width) - A(at.column);
    to.target[1] = assigned.box.y * A(map.height) - A(at.row);
    to.target[2] = logarithm(assigned.box.w * A(map.width) / map.anchor_w(at.anchor));
    to.target[3] = logarithm(assigned.box.h * A(map.height) / map.anchor_h(at.anchor));
    to.target[4] = loss.rescore ? iou_of(box, assigned.box) : A(1);
    to.box_weight = loss.coord_scale * (2 - assigned.box.w * assigned.box.h);
    to.object_weight = loss.object_scale;
    if (loss.giou) {
        const A eps = 0;
        const BoxPair<A> pair(sides_of(box), sides_of(assigned.box), eps);
        const BoxLoss<A> giou = giou_loss_of(pair, eps);
        sums[COORDINATES] += loss.coord_scale * giou.loss;
        to.giou_error[0] = loss.coord_scale * giou.gradient.x / A(map.width);
        to.giou_error[1] = loss.coord_scale * giou.gradient.y / A(map.height);
        to.giou_error[2] = loss.coord_scale * giou.gradient.w * box.w;
        to.giou_error[3] = loss.coord_scale * giou.gradient.h * box.h;
        to.box_weight = 0;
    }
    const RegressionLoss<A> own = regress(predicted, to, gradient, place, cells);
    sums[COORDINATES] += own.box;
    sums[OBJECTNESS] += own.objectness;
    sums[COST] += own.cost;
}

// Whether this block computes a prediction: it takes THREADS at a time, every gridDim.y-th time.
__device__ inline bool is_own(int prediction)
{
    return prediction >= 0 && unsigned(prediction) / THREADS % gridDim.y == blockIdx.y;
}

// Those of one image.
template <typename T, typename A>
__device__ void compute_image(const Targets<T, A> &targets, const Loss<A> &loss, const Outputs<T, A> &outputs, int64_t b,
                              const Partials<PARTS> &partials)
{
    __shared__ A of_warps[WARPS][PARTS];
    const BlockSums<A> sums = {of_warps};
    const Gradient<A> gradient = outputs.gradient_of(targets, b);
    const bool is_invalid = any_invalid(targets);
    sums.clear();
    if (is_invalid)
        gradient.spoil();
    BackgroundSums<A> background = {0, 0, 0};
    const unsigned predictions = unsigned(targets.map.anchors * targets.map.cells()), lane = threadIdx.x % 32;
    const unsigned start = blockIdx.y * THREADS + threadIdx.x - lane;   // of the warp
    const Targets<T, A> same = targets.again();
    for (unsigned first = start; first < predictions && !is_invalid; first += gridDim.y * THREADS) {
        const unsigned assigned = assigned_predictions(targets, first);
        const bool is_assigned = assigned >> lane & 1;
        if (first + lane < predictions && !is_assigned)
            compute_unassigned(same, loss, first + lane, gradient, background);
    }
    sums.add(background);
    for (int t = threadIdx.x / 32; t < targets.count && !is_invalid; t += WARPS) {
        const int prediction = targets.prediction(t);
        if (is_own(prediction) && !targets.is_replaced(t, prediction))
            compute_assigned(targets.again(), loss, t, prediction, gradient, sums.own());
    }
    sums.write(is_invalid, partials, b, outputs);
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T, typename L>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 1 : 2)
region_loss_forward(const T *__restrict__ data, const T *__restrict__ truth, const L *__restrict__ seen,
                    T *__restrict__ output, typename Accumulator<T>::type *__restrict__ parts,
                    typename Accumulator<T>::type *__restrict__ gradient, double *__restrict__ partial,
                    int output_request, int parts_request, int gradient_request, int64_t step, int64_t batch,
                    int64_t anchors, int64_t classes, int64_t height, int64_t width, int64_t truths, double object_scale,
                    double noobject_scale, double coord_scale, double class_scale, double thresh, int64_t rescore,
                    int64_t bias_match, int64_t softmax, int64_t warmup_images, int64_t box_loss,
                    const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const Map<T, A> map = {data, int(anchors), int(classes), int(height), int(width), anchor_sizes, bias_match != 0, softmax != 0};
    const Targets<T, A> targets = {reinterpret_cast<Target<A> *>(partial), truth, int(truths), map, 0};
    const Partials<PARTS> partials = {partial + batch * truths * TARGET, step};
    const Outputs<T, A> outputs = {output, parts, gradient, output_request, parts_request, gradient_request};
    if (step == ASSIGN && blockIdx.y == 0)
        assign(targets, batch);
    if (step == COMBINE && blockIdx.y == 0)
        combine(partials, batch, outputs);
    if (step != COMPUTE)
        return;

    const bool warm_up = double(load(seen, 0)) < double(warmup_images);
    const Loss<A> loss = {A(object_scale), A(noobject_scale), A(coord_scale), A(class_scale), A(thresh),
                          rescore != 0, warm_up, box_loss == GIOU};
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        const Targets<T, A> own = of_image(targets, b);
        outputs.gradient_of(own, b).clear();
        compute_image(hold(own), loss, outputs, b, partials);
    }
}

template <typename T, typename L>
__global__ void region_loss_backward(const T *__restrict__ output_grad,
                                     const typename Accumulator<T>::type *__restrict__ gradient,
                                     T *__restrict__ data_grad, double *__restrict__ partial,
                                     int data_grad_request, int64_t step, int64_t batch, int64_t anchors,
                                     int64_t classes, int64_t height, int64_t width, int64_t truths, double object_scale,
                                     double noobject_scale, double coord_scale, double class_scale, double thresh,
                                     int64_t rescore, int64_t bias_match, int64_t softmax, int64_t warmup_images,
                                     int64_t box_loss, const double *__restrict__ anchor_sizes)
{
    scale_gradient(output_grad, gradient, data_grad, data_grad_request, batch,
                   anchors * (5 + classes) * height * width);
}
