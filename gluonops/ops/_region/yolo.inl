// The heads of YOLOv3 to YOLOv7: what one prediction costs, and its gradient. C++ and CUDA share this text. Deltas are
// those of pjreddie's and AlexeyAB's Darknet, src/yolo_layer.c and src/box.c: minus the gradient with respect to the
// data. gaussian.inl has what differs for Gaussian YOLOv3: `Loss` is a YoloLoss or a GaussianLoss.
#include "../_region/yolo_box.inl"

// The ground truth that a predicted box overlaps most. Of several equal ones it is the first.
template <typename A> struct BestMatch {
    int truth;   // -1: none
    A iou;

    template <typename Prediction, typename Truths>
    GLUONOPS_INLINE BestMatch(const Prediction &prediction, const Box<A> &box, const Truths &truths) : truth(-1), iou(0)
    {
        for (int t = prediction.lane(); t < truths.count; t += Prediction::LANES) {
            if (!truths.is_box(t))
                continue;
            const A overlap = iou_of(box, truths.box(t));
            truth = overlap > iou ? t : truth;
            iou = overlap > iou ? overlap : iou;
        }
        prediction.share_best(*this);
    }
};

// Returns whether a class is likely enough for AlexeyAB's program to ignore the prediction.
template <typename Loss, typename Prediction>
GLUONOPS_INLINE bool has_likely_class(const Loss &loss, const Prediction &prediction)
{
    typedef typename Loss::Scalar A;
    bool is_likely = false;
    for (int k = prediction.lane(); k < prediction.classes && !is_likely; k += Prediction::LANES)
        is_likely = loss.activation(prediction.number(Loss::FIRST_CLASS + k)) > A(0.25);
    return prediction.sum(is_likely) > 0;
}

// A target, and the weight of the error.
template <typename A> struct YoloTarget { A target, weight; };

// Returns the target of a prediction's objectness. Only AlexeyAB's program smoothes it.
template <typename Loss, typename A>
GLUONOPS_INLINE YoloTarget<A> objectness_target(const Loss &loss, A objectness, A best_iou, bool is_ignored,
                                                bool is_assigned)
{
    YoloTarget<A> to = {0, loss.obj_normalizer};
    if (is_ignored && loss.objectness_smooth)
        to.target = loss.smooth_target(best_iou);
    else if (is_ignored)
        to.weight = 0;
    if (best_iou > loss.truth_thresh) {
        to.target = loss.objectness_smooth ? best_iou * best_iou : A(1);
        to.weight = loss.obj_normalizer;
    }
    if (is_assigned && loss.replaces_objectness(to.weight * (to.target - objectness))) {
        to.target = 1;
        to.weight = loss.obj_normalizer;
    }
    return to;
}

// The ground truths whose classes one prediction learns. First comes that which it overlaps most, if it learns that,
// then those of its cell.
template <typename A> struct YoloMatches {
    int first, count;
    int start, end;               // numbers between which those of the cell are
    bool first_overlaps;          // the first one is not one of the cell
    YoloTarget<A> of_first;       // what the first one's class learns
    YoloTarget<A> of_others;      // what the classes learn that no ground truth has

    template <typename Loss, typename Prediction, typename Truths>
    GLUONOPS_INLINE YoloTarget<A> of_class(const Loss &loss, const Prediction &prediction, const Truths &truths,
                                           int k) const
    {
        YoloTarget<A> to = A(k) == truths.class_id(first) ? of_first : of_others;
        for (int t = start; count > 1 && t < end; ++t) {
            const bool is_first = t == first && !first_overlaps;
            if (!is_first && A(k) == truths.class_id(t) && truths.is_at(t, prediction)) {
                to.target = 1 - loss.label_smooth_eps / 2;
                to.weight = 1;
            }
        }
        return to;
    }
};

// Computes one prediction: stores its gradient, and adds to the sums. On a GPU lanes share the classes, and each has
// sums of its own.
template <typename Loss, typename Prediction, typename Truths, typename S>
GLUONOPS_INLINE void compute_prediction(const Loss &loss, const Prediction &prediction, const Truths &truths, S *sums)
{
    typedef typename Loss::Scalar A;
    enum { OBJECT = Loss::OBJECT, FIRST_CLASS = Loss::FIRST_CLASS };
    const YoloBox<A> predicted(loss, prediction);
    const BestMatch<A> best(prediction, predicted.box, truths);
    const bool is_first_lane = prediction.lane() == 0;
    const bool is_match = best.iou > loss.truth_thresh;
    // pjreddie's program ignores a prediction whatever its classes are.
    const bool overlaps = best.iou > loss.ignore_thresh;
    const bool is_ignored = overlaps && (!loss.alexeyab || has_likely_class(loss, prediction));
    const bool learns_class = is_match || (is_ignored && loss.ignored_has_class());
    YoloMatches<A> matches = {learns_class ? best.truth : -1, learns_class, 0, 0, learns_class, {0, 1}, {0, 1}};

    // The losses of overlaps have a loop of their own, in front of the deltas': a GPU's thread has no registers for
    // both. Only AlexeyAB's program has them.
    A loss_of_overlaps = 0;
    const bool has_overlaps = loss.has_overlaps();
    int next = !has_overlaps ? int(truths.count) : is_match ? -1 : truths.next_at(0, prediction);
    for (; next < truths.count; next = truths.next_at(next + 1, prediction))
        loss_of_overlaps += overlap_loss(loss, predicted.box, truths.box(next < 0 ? best.truth : next));

    BoxDelta<A, OBJECT> total = {};
    bool is_assigned = false;
    const int first = is_match ? -1 : truths.next_at(0, prediction);
    for (int i = first; i < truths.count; i = truths.next_at(i + 1, prediction)) {
        const bool by_overlap = i < 0;
        const int t = by_overlap ? best.truth : i;
        const Box<A> truth = truths.box(t);
        const BoxDelta<A, OBJECT> own = box_delta(loss, prediction, predicted, truth);
        for (int c = 0; c < OBJECT; ++c)
            total.delta[c] = loss.alexeyab ? total.delta[c] + own.delta[c] : own.delta[c];
        total.loss = loss.alexeyab ? total.loss + own.loss : own.loss;
        if (by_overlap)
            continue;
        matches.first = matches.count ? matches.first : t;
        matches.start = is_assigned ? matches.start : t;
        matches.end = t + 1;
        matches.count += 1;
        is_assigned = true;
        if (is_first_lane)
            count_match(iou_of(predicted.box, truth),
                        loss.activation(prediction.number(FIRST_CLASS + int(truths.class_id(t)))), sums);
    }

    if (matches.count) {
        const A eps = loss.label_smooth_eps;
        matches.of_first.target = loss.focal_loss ? A(1) : 1 - eps / 2;
        matches.of_others.target = loss.focal_loss ? A(0) : eps / 2;
        if (loss.focal_loss) {
            const int class_id = int(truths.class_id(matches.first));
            const A p = loss.activation(prediction.number(FIRST_CLASS + class_id)) + A(1e-15);
            matches.of_others.weight = -A(0.5) * (1 - p) * (2 * p * logarithm(p) + p - 1);
            matches.of_first.weight = matches.of_others.weight;
        }
        if (is_match && loss.objectness_smooth) {
            matches.of_first.target = best.iou * best.iou;
            matches.of_first.weight = 1;
        }
    }
    int positive = 0;
    S class_part = 0, cost_of_classes = 0;
    for (int k = prediction.lane(); k < prediction.classes; k += Prediction::LANES) {
        if (!matches.count) {
            prediction.put(FIRST_CLASS + k, A(0));
            continue;
        }
        const YoloTarget<A> to = matches.of_class(loss, prediction, truths, k);
        const A number = prediction.number(FIRST_CLASS + k);
        const A delta = to.weight * (to.target - loss.activation(number));
        positive += delta > 0;
        class_part += S(to.weight * loss.entropy(number, to.target));
        cost_of_classes += S(delta * delta);
        prediction.put(FIRST_CLASS + k, -delta);
    }
    positive = prediction.sum(positive);

    const A number = prediction.number(OBJECT), objectness = loss.activation(number);
    const YoloTarget<A> to = objectness_target(loss, objectness, best.iou, is_ignored, is_assigned);
    const A delta = to.weight * (to.target - objectness);
    const A share = loss.is_averaged(delta) && positive > 0 ? 1 / A(positive) : A(1);
    sums[CLASSES] += class_part;
    sums[COST] += cost_of_classes;
    if (!is_first_lane)
        return;
    for (int c = 0; c < OBJECT; ++c) {
        const A averaged = share * total.delta[c];
        sums[COST] += S(averaged * averaged);
        prediction.put(c, -averaged);
    }
    sums[COORDINATES] += S(share * (total.loss + loss_of_overlaps));
    const S cost = S(to.weight * loss.entropy(number, to.target));
    const bool is_object = is_match || is_assigned;
    sums[OBJECTNESS] += is_object ? cost : S(0);
    sums[NO_OBJECTNESS] += is_object ? S(0) : cost;
    sums[COST] += S(delta * delta);
    prediction.put(OBJECT, -delta);
}
