// region_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward twice
// the gradient.
#include "../_region/class_logits.inl"
#include "../_region/loss.cuh"

// One image's map, and the attributes that its boxes depend on.
template <typename T, typename A> struct Map {
    const T *data;
    int anchors, classes, height, width;
    const double *anchor_sizes;
    bool bias_match, softmax;

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int channels() const { return 5 + classes; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    // Where the first number of a prediction is; the next ones are a plane apart.
    __device__ int64_t place(int anchor, int cell) const { return anchor * channels() * cells() + cell; }
    __device__ int64_t place(const AnchorCell &at) const { return place(at.anchor, at.cell); }
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
    __device__ Predicted(const Map<T, A> &map, const AnchorCell &at, int64_t place)
    {
        const T *from = map.data + place;
        const int64_t cells = map.cells();
#pragma unroll
        for (int c = 0; c < 5; ++c)
            numbers[c] = load(from, c * cells);
#pragma unroll
        for (int c = 0; c < 5; ++c)
            numbers[c] = has_sigmoid(c) ? scalar_sigmoid(numbers[c]) : numbers[c];
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
__device__ RegressionLoss<A> regress(const Predicted<A> &predicted, const Regression<A> &to,
                                     const Gradient<A> &gradient, int64_t place, int64_t cells)
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

// The ground truths of an image.
template <typename T, typename A> struct Targets {
    typedef Target<A> Item;
    typedef Map<T, A> ImageMap;
    Item *all;
    const T *rows;
    int count;
    Map<T, A> map;
    const Loss<A> &loss;

    __device__ A class_id(int t) const { return all[t].class_id; }
    __device__ bool is_invalid(int t) const { return all[t].is_invalid; }

    __device__ GroundTruth<A> truth(int t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width);
    }

    // Of several ground truths that are assigned to a prediction, the last one counts.
    __device__ void compute(const AnchorCell &at, const Gradient<A> &gradient, A *parts) const
    {
        const int number = int(at.anchor * map.cells()) + at.cell;
        int last = count - 1;
        while (last >= 0 && all[last].prediction != number)
            --last;
        const Predicted<A> predicted(map, at, map.place(at));
        if (last < 0)
            compute_unassigned(predicted, at, gradient, parts);
        else
            compute_assigned(predicted, at, last, number, gradient, parts);
    }

    __device__ void compute_unassigned(const Predicted<A> &predicted, const AnchorCell &at,
                                       const Gradient<A> &gradient, A *parts) const
    {
        const int64_t cells = map.cells(), place = map.place(at);
        const Regression<A> to(loss, any_overlaps(all, count, predicted.box, loss.thresh));
        const RegressionLoss<A> own = regress(predicted, to, gradient, place, cells);
        parts[COORDINATES] += own.box;
        parts[NO_OBJECTNESS] += own.objectness;
        parts[COST] += own.cost;
        gradient.put_all(place + 5 * cells, map.classes, cells, A(0));
    }

    // Ground truth number `last` is assigned to it, and maybe some before.
    __device__ void compute_assigned(const Predicted<A> &predicted, const AnchorCell &at, int last, int number,
                                     const Gradient<A> &gradient, A *parts) const
    {
        const int64_t cells = map.cells(), place = map.place(at);
        const ClassLogits<T> logits(map.data + place + 5 * cells, map.classes, cells, map.softmax);

        // With sigmoids boxes add up their classes, back to where the error of class 0 was exactly 0.
        int first = -1;
        A first_target = 0;
        for (int t = 0; t <= last; ++t) {
            if (all[t].prediction != number)
                continue;
            if (first < 0 || first_target == logits.probability(0)) {
                first = t;
                first_target = 0;
            }
            first_target = class_id(t) == 0 ? A(1) : first_target;
            const A iou = iou_of(predicted.box, truth(t).box);
            parts[IOU] += iou;
            parts[RECALL] += A(iou > A(0.5));
            parts[PROBABILITY] += logits.probability(int(class_id(t)));
            parts[TRUTHS] += 1;
        }

        for (int k = 0; k < map.classes; ++k) {
            A class_target = 0;
            for (int t = map.softmax ? last : first; t <= last; ++t)
                if (all[t].prediction == number && class_id(t) == A(k))
                    class_target = 1;
            const A weighted_error = loss.class_scale * (logits.probability(k) - class_target);
            parts[CLASS_PART] += loss.class_scale * logits.nll(k, class_target);
            parts[COST] += weighted_error * weighted_error;
            gradient.put(place + (5 + k) * cells, weighted_error);
        }

        const Box<A> box = truth(last).box;
        const RegressionLoss<A> own = regress(predicted, regression_to(box, predicted, at, parts), gradient, place,
                                              cells);
        parts[COORDINATES] += own.box;
        parts[OBJECTNESS] += own.objectness;
        parts[COST] += own.cost;
    }

    __device__ Regression<A> regression_to(const Box<A> &box, const Predicted<A> &predicted, const AnchorCell &at,
                                           A *parts) const
    {
        Regression<A> to(loss, false);
        to.target[0] = box.x * A(map.width) - A(at.column);
        to.target[1] = box.y * A(map.height) - A(at.row);
        to.target[2] = logarithm(box.w * A(map.width) / map.anchor_w(at.anchor));
        to.target[3] = logarithm(box.h * A(map.height) / map.anchor_h(at.anchor));
        to.target[4] = loss.rescore ? iou_of(predicted.box, box) : A(1);
        to.box_weight = loss.coord_scale * (2 - box.w * box.h);
        to.object_weight = loss.object_scale;
        if (!loss.giou)
            return to;
        const A eps = 0;
        const BoxPair<A> pair(sides_of(predicted.box), sides_of(box), eps);
        const BoxLoss<A> giou = giou_loss_of(pair, eps);
        parts[COORDINATES] += loss.coord_scale * giou.loss;
        to.giou_error[0] = loss.coord_scale * giou.gradient.x / A(map.width);
        to.giou_error[1] = loss.coord_scale * giou.gradient.y / A(map.height);
        to.giou_error[2] = loss.coord_scale * giou.gradient.w * predicted.box.w;
        to.giou_error[3] = loss.coord_scale * giou.gradient.h * predicted.box.h;
        to.box_weight = 0;
        return to;
    }
};

template <typename T, typename L>
__device__ void forward(const RegionLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const Map<T, A> map = {args.data, int(args.anchor_count), int(args.classes), int(args.height), int(args.width),
                           args.anchors.values, args.bias_match, args.softmax};
    const bool warm_up = double(load(args.seen, 0)) < double(args.warmup_images);
    const Loss<A> loss = {A(args.object_scale), A(args.noobject_scale), A(args.coord_scale), A(args.class_scale),
                          A(args.thresh), args.rescore, warm_up, args.box_loss == RegionLossBoxLoss::Giou};
    const Targets<T, A> targets = {args.targets, args.truth, int(args.truths), map, loss};
    map_loss_forward(args, targets);
}

template <typename T, typename L>
__device__ void backward(const RegionLossArgs<T, L> &args) { scale_gradient(args); }
