// region_loss. Forward has steps:
//     ASSIGN    a thread per ground truth finds the prediction to which it is assigned. A prediction is an anchor and a
//               cell;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. Predictions that have a ground truth assigned are computed by a warp each;
//     COMBINE   the sums of the blocks are added.
// Bytes moved: forward five of the map's planes and the gradient, backward twice the gradient.
#include "../_region/region.cuh"
#include "../_region/loss.cuh"

const int GIOU = 1;   // the index of "giou" in contract.py's BOX_LOSSES

// One image's map, and the attributes that its boxes depend on.
template <typename T, typename A> struct Map {
    const T *data;
    int64_t anchors, classes, height, width;
    const double *anchor_sizes;
    bool bias_match, softmax;

    __device__ int64_t cells() const { return height * width; }
    __device__ int64_t size() const { return anchors * (5 + classes) * cells(); }
    __device__ const T *at(int64_t anchor, int64_t column, int64_t row) const
    {
        return data + anchor * (5 + classes) * height * width + row * width + column;
    }
    __device__ A anchor_w(int64_t anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int64_t anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    __device__ Box<A> predicted_box(int64_t anchor, int64_t column, int64_t row) const
    {
        const T *from = at(anchor, column, row);
        const int64_t cells = height * width;
        const Box<A> box = {(A(column) + sigmoid(load(from, 0))) / A(width),
                            (A(row) + sigmoid(load(from, cells))) / A(height),
                            exponential(load(from, 2 * cells)) * (anchor_w(anchor) / A(width)),
                            exponential(load(from, 3 * cells)) * (anchor_h(anchor) / A(height))};
        return box;
    }

    // The anchor whose size has the largest IoU with the box's.
    __device__ int64_t best_anchor(const GroundTruth<A> &truth) const
    {
        const Box<A> truth_size = {0, 0, truth.box.w, truth.box.h};
        int64_t best = 0;
        A max_iou = 0;
        for (int64_t anchor = 0; anchor < anchors; ++anchor) {
            Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
            if (!bias_match) {
                size = predicted_box(anchor, truth.column, truth.row);
                size.x = size.y = 0;
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

// A ground truth as every prediction looks at it, with the prediction to which it is assigned.
template <typename A> struct __align__(8) Target : TargetBox<A> {   // as `partial` is
    int prediction;   // anchor * cells + cell, or -1; 32 bits hold it, because more predictions fit into no memory

    template <typename T>
    __device__ void set(const GroundTruth<A> &truth, const Map<T, A> &map)
    {
        this->set_box(truth);
        prediction = -1;
        if (truth.valid)
            prediction = int(map.best_anchor(truth) * map.cells() + truth.row * map.width + truth.column);
    }
};

// The ground truths of an image.
template <typename T, typename A> struct Targets {
    Target<A> *all;
    const T *rows;
    int64_t count;
    Map<T, A> map;

    __device__ GroundTruth<A> truth(int64_t t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width);
    }

    // Whether a ground truth behind number `t` is assigned to the same prediction: only the last one counts. A warp
    // looks together.
    __device__ bool is_replaced(int64_t t, int prediction) const
    {
        int found = 0;
        for (int64_t later = t + 1 + threadIdx.x % 32; later < count; later += 32)
            found += all[later].prediction == prediction;
        return reduce_lanes(found, Sum(), 32) > 0;
    }
};

// What a thread finds out about its prediction: whether a ground truth is assigned to it, and whether one overlaps.
template <typename A> struct Findings {
    bool is_assigned, overlaps;

    __device__ void look_at(const Target<A> &target, const Edges<A> &box, A thresh, int prediction)
    {
        is_assigned |= target.prediction == prediction;
        overlaps |= target.overlaps(box, thresh);
    }
};

// The class logits of one prediction, read by a warp.
template <typename T, typename A> struct ClassLogits {
    const T *first;
    int64_t cells;
    bool softmax;
    A max, log_sum;   // of the softmax

    __device__ ClassLogits(const T *first, int64_t classes, int64_t cells, bool softmax)
        : first(first), cells(cells), softmax(softmax), max(lowest<A>()), log_sum(0)
    {
        if (!softmax)
            return;
        A sum = 0;
        for (int64_t k = threadIdx.x % 32; k < classes; k += 32)
            max = Max()(A(load(first, k * cells)), max);
        max = reduce_lanes(max, Max(), 32);
        for (int64_t k = threadIdx.x % 32; k < classes; k += 32)
            sum += exponential(load(first, k * cells) - max);
        log_sum = logarithm(reduce_lanes(sum, Sum(), 32));
    }

    __device__ A probability(int64_t k) const
    {
        const A logit = load(first, k * cells);
        return softmax ? exponential(logit - max - log_sum) : sigmoid(logit);
    }

    // The negative log-likelihood of class k, given its target of 0 or 1.
    __device__ A nll(int64_t k, A target) const
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
    Part object_part;

    // Without a box: while warming up, boxes are regressed toward their priors.
    __device__ Regression(const Loss<A> &loss, bool overlaps)
        : box_weight(loss.warm_up ? A(0.01) : A(0)), object_weight(overlaps ? A(0) : loss.noobject_scale),
          object_part(NO_OBJECTNESS)
    {
        for (int c = 0; c < 5; ++c)
            target[c] = c < 2 ? A(0.5) : A(0);
        for (int c = 0; c < 4; ++c)
            giou_error[c] = 0;
    }
};

// One image's results.
template <typename A> struct Results {
    A sums[PARTS];   // this thread's share
    Gradient<A> gradient;
};

// Adds up a prediction's losses of box and objectness, and stores their gradients.
template <typename T, typename A>
__device__ void regress(const Map<T, A> &map, const Prediction &at, const Regression<A> &to, Results<A> &results)
{
    const T *from = map.at(at.anchor, at.column, at.row);
    const int64_t cells = map.cells(), place = from - map.data;
    A box_loss = 0, object_loss = 0;
#pragma unroll
    for (int c = 0; c < 5; ++c) {
        const bool has_sigmoid = c != 2 && c != 3;
        const A number = load(from, c * cells), predicted = has_sigmoid ? sigmoid(number) : number;
        const A error = predicted - to.target[c];
        const A squared_error = (c < 4 ? to.box_weight : to.object_weight) * error;
        const A weighted_error = c < 4 ? squared_error + to.giou_error[c] : squared_error;
        (c < 4 ? box_loss : object_loss) += A(0.5) * squared_error * error;
        results.sums[COST] += weighted_error * weighted_error;
        const A grad = has_sigmoid ? weighted_error * predicted * (1 - predicted) : weighted_error;
        results.gradient.put(place + c * cells, grad);
    }
    results.sums[COORDINATES] += box_loss;
    results.sums[OBJECTNESS] += to.object_part == OBJECTNESS ? object_loss : A(0);
    results.sums[NO_OBJECTNESS] += to.object_part == OBJECTNESS ? A(0) : object_loss;
}

// A thread's prediction, unless a ground truth is assigned to it.
template <typename T, typename A>
__device__ void compute_unassigned(const Targets<T, A> &targets, const Loss<A> &loss, int64_t prediction,
                                   Results<A> &results)
{
    const Map<T, A> &map = targets.map;
    const Prediction at(prediction, map.height, map.width);
    const Box<A> box = map.predicted_box(at.anchor, at.column, at.row);
    const Edges<A> sides(box);
    Findings<A> findings = {false, false};
#pragma unroll 4
    for (int64_t t = 0; t < targets.count; ++t)
        findings.look_at(targets.all[t], sides, loss.thresh, int(prediction));
    if (findings.is_assigned)
        return;
    regress(map, at, Regression<A>(loss, findings.overlaps), results);
    const int64_t place = map.at(at.anchor, at.column, at.row) - map.data;
    for (int64_t c = 5; c < 5 + map.classes; ++c)
        results.gradient.put(place + c * map.cells(), A(0));
}

// The prediction to which ground truth number `last` is assigned, and maybe some before it; by a warp. The lanes share
// the classes, lane 0 does the rest.
template <typename T, typename A>
__device__ void compute_assigned(const Targets<T, A> &targets, const Loss<A> &loss, int64_t last, int64_t prediction,
                                 Results<A> &results)
{
    const Map<T, A> &map = targets.map;
    const Prediction at(prediction, map.height, map.width);
    const int64_t cells = map.cells(), anchor = at.anchor, width = map.width, height = map.height;
    const bool is_first_lane = threadIdx.x % 32 == 0;
    const T *from = map.at(anchor, at.column, at.row);
    const Box<A> box = map.predicted_box(anchor, at.column, at.row);
    const ClassLogits<T, A> logits(from + 5 * cells, map.classes, cells, map.softmax);

    // With sigmoids boxes add up their classes, back to where the error of class 0 was exactly 0.
    int64_t first = -1;
    A first_target = 0;
    for (int64_t t = 0; t <= last; ++t) {
        const Target<A> &target = targets.all[t];
        if (target.prediction != prediction)
            continue;
        if (first < 0 || first_target == logits.probability(0)) {
            first = t;
            first_target = 0;
        }
        first_target = target.class_id == 0 ? A(1) : first_target;
        if (is_first_lane) {
            const A iou = iou_of(box, targets.truth(t).box);
            results.sums[IOU] += iou;
            results.sums[RECALL] += A(iou > A(0.5));
            results.sums[PROBABILITY] += logits.probability(int64_t(target.class_id));
            results.sums[TRUTHS] += 1;
        }
    }

    if (is_first_lane) {
        const GroundTruth<A> assigned = targets.truth(last);
        Regression<A> to(loss, false);
        to.object_part = OBJECTNESS;
        to.target[0] = assigned.box.x * A(width) - A(at.column);
        to.target[1] = assigned.box.y * A(height) - A(at.row);
        to.target[2] = logarithm(assigned.box.w * A(width) / map.anchor_w(anchor));
        to.target[3] = logarithm(assigned.box.h * A(height) / map.anchor_h(anchor));
        to.target[4] = loss.rescore ? iou_of(box, assigned.box) : A(1);
        to.box_weight = loss.coord_scale * (2 - assigned.box.w * assigned.box.h);
        to.object_weight = loss.object_scale;
        if (loss.giou) {
            const A eps = 0;
            const BoxPair<A> pair(sides_of(box), sides_of(assigned.box), eps);
            const BoxLoss<A> giou = giou_loss_of(pair, eps);
            results.sums[COORDINATES] += loss.coord_scale * giou.loss;
            to.giou_error[0] = loss.coord_scale * giou.gradient.x / A(width);
            to.giou_error[1] = loss.coord_scale * giou.gradient.y / A(height);
            to.giou_error[2] = loss.coord_scale * giou.gradient.w * box.w;
            to.giou_error[3] = loss.coord_scale * giou.gradient.h * box.h;
            to.box_weight = 0;
        }
        regress(map, at, to, results);
    }

    for (int64_t k = threadIdx.x % 32; k < map.classes; k += 32) {
        A class_target = 0;
        for (int64_t t = map.softmax ? last : first; t <= last; ++t) {
            const Target<A> &target = targets.all[t];
            if (target.prediction == prediction && target.class_id == A(k))
                class_target = 1;
        }
        const A weighted_error = loss.class_scale * (logits.probability(k) - class_target);
        results.sums[CLASS_PART] += loss.class_scale * logits.nll(k, class_target);
        results.sums[COST] += weighted_error * weighted_error;
        results.gradient.put(from - map.data + (5 + k) * cells, weighted_error);
    }
}

// The predictions of one image that this block takes: THREADS at a time, every gridDim.y-th time.
template <typename T, typename A>
__device__ void compute_image(const Targets<T, A> &targets, const Loss<A> &loss, Results<A> &results)
{
    const int64_t predictions = targets.map.anchors * targets.map.cells();
    for (int64_t first = blockIdx.y * int64_t(THREADS); first < predictions; first += gridDim.y * int64_t(THREADS)) {
        if (first + threadIdx.x < predictions)
            compute_unassigned(targets, loss, first + threadIdx.x, results);
        for (int64_t t = threadIdx.x / 32; t < targets.count; t += WARPS) {
            const int prediction = targets.all[t].prediction;
            const bool is_here = prediction >= first && prediction < first + THREADS;
            if (is_here && !targets.is_replaced(t, prediction))
                compute_assigned(targets, loss, t, prediction, results);
        }
    }
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T, typename L>
__global__ void __launch_bounds__(THREADS, 1)
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
    const Map<T, A> map = {data, anchors, classes, height, width, anchor_sizes, bias_match != 0, softmax != 0};
    const Targets<T, A> targets = {reinterpret_cast<Target<A> *>(partial), truth, truths, map};
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
        Results<A> results = {{0, 0, 0, 0, 0, 0, 0, 0, 0}, outputs.gradient_of(own, b)};
        compute_image(own, loss, results);
        write_sums(results.sums, results.gradient.nan_if_invalid, partials.own(b));
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
