// The head of YOLOv2: what a prediction costs, and its gradient. C++ and CUDA share this text. Deltas are those of
// pjreddie's Darknet, src/region_layer.c: minus the gradient with respect to the activations. A file that includes this
// one includes boxes.inl, head.inl and class_logits.inl before.

// The attributes.
template <typename A> struct RegionLoss : HeadLoss<A> {
    enum { WRITTEN = 4, TOGETHER = 8 };   // see loss.h and yolo_box.inl
    A object_scale, noobject_scale, coord_scale, thresh, warm_up_scale;
    double class_scale;
    bool rescore, bias_match, softmax, is_giou;

    template <typename V>
    GLUONOPS_INLINE V offset(V number) const { return sigmoid(number); }
    template <typename V>
    GLUONOPS_INLINE V factor(V number) const { return full_range_exponential(number); }
    GLUONOPS_INLINE bool compares_predictions() const { return !bias_match; }
    GLUONOPS_INLINE bool fits(const Box<A> &, const Box<A> &) const { return false; }
};

// While warming up, boxes are regressed toward their priors.
template <typename A, typename Args>
GLUONOPS_INLINE RegionLoss<A> region_loss_of(const Args &args, bool is_warm_up)
{
    RegionLoss<A> loss;
    loss.other_anchors = {};
    loss.object_scale = A(args.object_scale);
    loss.noobject_scale = A(args.noobject_scale);
    loss.coord_scale = A(args.coord_scale);
    loss.class_scale = args.class_scale;
    loss.thresh = A(args.thresh);
    loss.warm_up_scale = is_warm_up ? A(0.01) : A(0);   // Darknet's
    loss.rescore = args.rescore;
    loss.bias_match = args.bias_match;
    loss.softmax = args.softmax;
    loss.is_giou = args.box_loss == Args::BoxLoss::Giou;
    return loss;
}

// Computes the squared errors of x, y, w and h.
template <typename A, typename Prediction, typename S>
GLUONOPS_INLINE void regress_box(const Prediction &prediction, const YoloBox<A> &predicted, const A *targets, A weight,
                                 S *sums)
{
    for (int c = 0; c < 4; ++c) {
        const A number = c < 2 ? predicted.offsets[c] : predicted.numbers[c];
        const A error = number - targets[c], weighted_error = weight * error;
        sums[COORDINATES] += S(0.5) * S(weighted_error) * S(error);
        sums[COST] += S(weighted_error) * S(weighted_error);
        prediction.put(c, c < 2 ? weighted_error * number * (1 - number) : weighted_error);
    }
}

// Computes the squared error of the objectness. `part` is the number of its part of the loss.
template <typename A, typename Prediction, typename S>
GLUONOPS_INLINE void regress_objectness(const Prediction &prediction, A target, A weight, int part, S *sums)
{
    enum { OBJECT = RegionLoss<A>::OBJECT };
    const A objectness = sigmoid(prediction.number(OBJECT));
    const A error = objectness - target, weighted_error = weight * error;
    sums[part] += S(0.5) * S(weighted_error) * S(error);
    sums[COST] += S(weighted_error) * S(weighted_error);
    prediction.put(OBJECT, weighted_error * objectness * (1 - objectness));
}

// The box of a prediction, and the ground truth.
template <typename A, typename Prediction, typename S>
GLUONOPS_INLINE void compare_boxes(const RegionLoss<A> &loss, const Prediction &prediction,
                                   const YoloBox<A> &predicted, const Box<A> &truth, S *sums)
{
    const A width = predicted.width, height = predicted.height;
    if (!loss.is_giou) {
        const A targets[] = {truth.x * width - predicted.column, truth.y * height - predicted.row,
                             logarithm(truth.w * width / predicted.anchor_w),
                             logarithm(truth.h * height / predicted.anchor_h)};
        return regress_box(prediction, predicted, targets, loss.coord_scale * (2 - truth.w * truth.h), sums);
    }
    const A eps = 0, scale = loss.coord_scale, x = predicted.offsets[0], y = predicted.offsets[1];
    const BoxLoss<A> giou = giou_loss_of(BoxPair<A>(sides_of(predicted.box), sides_of(truth), eps), eps);
    const A by_activation[] = {scale * giou.gradient.x / width, scale * giou.gradient.y / height,
                               scale * giou.gradient.w * predicted.box.w, scale * giou.gradient.h * predicted.box.h};
    const A slope[] = {x * (1 - x), y * (1 - y), 1, 1};
    sums[COORDINATES] += S(scale) * S(giou.loss);
    for (int c = 0; c < 4; ++c) {
        prediction.put(c, by_activation[c] * slope[c]);
        sums[COST] += S(by_activation[c]) * S(by_activation[c]);
    }
}

// Returns the first ground truth, of those up to number `last` that are assigned to a prediction, whose class is a
// target. With a softmax it is the last one. With sigmoids the boxes add up their classes, back to where the error of
// class 0 was exactly 0: there Darknet starts anew.
template <typename A, typename Prediction, typename Truths>
GLUONOPS_INLINE int first_target(const RegionLoss<A> &loss, const Prediction &prediction, const Truths &truths,
                                 int last)
{
    if (loss.softmax)
        return last;
    const A probability = sigmoid(prediction.number(RegionLoss<A>::FIRST_CLASS));
    int first = -1;
    A target = 0;   // the target of class 0
    for (int t = 0; t <= last; ++t) {
        if (!truths.is_at(t, prediction))
            continue;
        if (first < 0 || target == probability) {
            first = t;
            target = 0;
        }
        target = truths.class_id(t) == 0 ? A(1) : target;
    }
    return first;
}

// The loss and the gradient of a prediction to which ground truths are assigned, as number `last` is the last of them.
// On a GPU lanes share the classes, and each has sums of its own.
template <typename A, typename Prediction, typename Logits, typename Truths, typename S>
GLUONOPS_INLINE void compute_assigned(const RegionLoss<A> &loss, const Prediction &prediction,
                                      const YoloBox<A> &predicted, const Logits &logits, const Truths &truths,
                                      int last, S *sums)
{
    if (prediction.lane() == 0) {
        const Box<A> truth = truths.box(last);
        compare_boxes(loss, prediction, predicted, truth, sums);
        const A objectness = loss.rescore ? iou_of(predicted.box, truth) : A(1);
        regress_objectness(prediction, objectness, loss.object_scale, OBJECTNESS, sums);
    }
    const int first = first_target(loss, prediction, truths, last);
    for (int k = prediction.lane(); k < prediction.classes; k += Prediction::LANES) {
        A target = 0;
        for (int t = first; t <= last; ++t)
            target = truths.class_id(t) == A(k) && truths.is_at(t, prediction) ? A(1) : target;
        const A weighted_error = A(loss.class_scale) * (logits.probability(k) - target);
        sums[CLASSES] += S(loss.class_scale) * S(logits.nll(k, target));
        sums[COST] += S(weighted_error) * S(weighted_error);
        prediction.put(RegionLoss<A>::FIRST_CLASS + k, weighted_error);
    }
}
