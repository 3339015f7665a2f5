// The heads of YOLOv3 to YOLOv7: what one prediction costs, and its gradient. C++ and CUDA share this text. Deltas are
// those of pjreddie's and AlexeyAB's Darknet, src/yolo_layer.c and src/box.c: minus the gradient with respect to the
// data. Whoever includes it has boxes.cuh, parts.cuh, and `YoloMath<A>` with `exp`, `log` and `sqrt` of a number.
// gaussian.cuh has what differs for Gaussian YOLOv3: `Loss` is a YoloLoss or a GaussianLoss.

const int MSE_LOSS = CIOU_LOSS + 1;   // the index of "mse" in box_loss

// The attributes. `truth_thresh` is infinite if no prediction is matched by it, `max_delta` if there is no limit.
template <typename A> struct YoloLoss {
    typedef A Scalar;
    enum { STEP = 1, OBJECT = 4, FIRST_CLASS = 5 };   // channels: from x to y, the objectness, and the first class
    bool alexeyab, new_coords, objectness_smooth, focal_loss, several_anchors;
    int box_loss;
    A ignore_thresh, truth_thresh, iou_thresh, iou_normalizer, obj_normalizer, max_delta, scale_x_y, label_smooth_eps;

    GLUONOPS_INLINE A activation(A number) const
    {
        return new_coords ? number : 1 / (1 + YoloMath<A>::exp(-number));
    }
    GLUONOPS_INLINE A offset(A number) const { return scale_x_y * activation(number) - (scale_x_y - 1) / 2; }
    GLUONOPS_INLINE A factor(A number) const
    {
        return new_coords ? 4 * number * number : YoloMath<A>::exp(number);
    }

    // The loss whose derivative by the number is `activation(number) - target`.
    GLUONOPS_INLINE A entropy(A number, A target) const
    {
        if (new_coords)
            return (number - target) * (number - target) / 2;
        const A positive = number > 0 ? number : A(0);
        const A sum = YoloMath<A>::exp(-positive) + YoloMath<A>::exp(number - positive);
        return YoloMath<A>::log(sum) + positive - number * target;
    }

    // Whether two sizes fit well enough for a further anchor.
    GLUONOPS_INLINE bool fits(const Box<A> &size, const Box<A> &other) const
    {
        return several_anchors && iou_of(size, other) > iou_thresh;
    }

    // The centre of a box along an axis, from the point that the head predicts. V is a number or a vector.
    template <typename V>
    GLUONOPS_INLINE V center(V point, V) const { return point; }

    // What the point lies beside the centre, in boxes.
    GLUONOPS_INLINE A point_shift() const { return 0; }

    // The objectness that a prediction has if it is ignored and `objectness_smooth`.
    GLUONOPS_INLINE A smooth_target(A iou) const { return iou; }
    // Whether an ignored prediction learns the class of the ground truth that it overlaps most.
    GLUONOPS_INLINE bool ignored_has_class() const { return false; }
    // Whether a match by its cell replaces an objectness whose delta is this.
    GLUONOPS_INLINE bool replaces_objectness(A delta) const { return !objectness_smooth || delta == 0; }
    // Whether a box's delta is divided by the number of classes that increase, with this delta of the objectness.
    GLUONOPS_INLINE bool is_averaged(A delta) const { return several_anchors && delta != 0; }
};

// What a head predicts of a box. Anchor sizes are in cells.
template <typename A> struct YoloBox {
    A numbers[4];
    A offsets[2];   // of the centre, from the corner of its cell
    A factors[2];   // of the anchor's size
    A column, row, width, height, anchor_w, anchor_h;
    Box<A> box;

    template <typename Loss, typename Prediction>
    GLUONOPS_INLINE YoloBox(const Loss &loss, const Prediction &prediction)
        : column(A(prediction.column)), row(A(prediction.row)), width(A(prediction.width)),
          height(A(prediction.height)), anchor_w(prediction.anchor_w()), anchor_h(prediction.anchor_h())
    {
        for (int c = 0; c < 4; ++c)
            numbers[c] = prediction.number(c * Loss::STEP);
        for (int c = 0; c < 2; ++c) {
            offsets[c] = loss.offset(numbers[c]);
            factors[c] = loss.factor(numbers[2 + c]);
        }
        box.w = factors[0] * (anchor_w / width);
        box.h = factors[1] * (anchor_h / height);
        box.x = loss.center((column + offsets[0]) / width, box.w);
        box.y = loss.center((row + offsets[1]) / height, box.h);
    }
};

// The deltas of the channels of a box, and the loss; that of an overlap is not in it.
template <typename A, int CHANNELS> struct BoxDelta { A delta[CHANNELS], loss; };

template <typename A>
GLUONOPS_INLINE BoxDelta<A, 4> squared_errors(const YoloLoss<A> &loss, const YoloBox<A> &predicted, const Box<A> &truth)
{
    const A scale = (2 - truth.w * truth.h) * loss.iou_normalizer, half = A(0.5);
    const A w_ratio = truth.w * predicted.width / predicted.anchor_w;
    const A h_ratio = truth.h * predicted.height / predicted.anchor_h;
    const A centers[2] = {truth.x * predicted.width - predicted.column, truth.y * predicted.height - predicted.row};
    const A sizes[2] = {loss.new_coords ? YoloMath<A>::sqrt(w_ratio / 4) : YoloMath<A>::log(w_ratio),
                        loss.new_coords ? YoloMath<A>::sqrt(h_ratio / 4) : YoloMath<A>::log(h_ratio)};
    BoxDelta<A, 4> result;
    result.loss = 0;
    for (int c = 0; c < 2; ++c) {
        const A size_error = sizes[c] - predicted.numbers[2 + c];
        const A target = (centers[c] + (loss.scale_x_y - 1) * half) / loss.scale_x_y;   // of the activation
        result.delta[c] = scale * (centers[c] - predicted.offsets[c]);
        result.delta[2 + c] = scale * size_error;
        result.loss += scale * (loss.scale_x_y * loss.entropy(predicted.numbers[c], target)
                                + half * size_error * size_error);
    }
    return result;
}

// The increase of an overlap's measure along one axis, by the centre and the size of the predicted box. It is that of
// AlexeyAB's dx_box_iou: the overlap of boxes that are apart is negative, and the IoU's derivative by a size is twice
// as large.
template <typename A> struct YoloIncrease {
    A by_center, by_size;

    // `across` is the axis, `down` the other one. `diagonal` and `distance` are squared.
    GLUONOPS_INLINE YoloIncrease(int kind, const Extent<A> &across, const Extent<A> &down, A size_down, A union_area,
                                 A diagonal, A distance)
    {
        const A intersection = across.overlap * down.overlap;
        const A overlap_by_center = down.overlap * across.overlap_by_center;
        const A overlap_by_size = 2 * down.overlap * across.overlap_by_size;
        const A squared_union = union_area * union_area, both = union_area + intersection;
        const bool has_union = union_area > 0, is_apart = across.overlap <= 0 || down.overlap <= 0;
        by_center = has_union ? both * overlap_by_center / squared_union : A(0);
        by_size = has_union ? (both * overlap_by_size - 2 * intersection * size_down) / squared_union : A(0);
        if (kind == IOU_LOSS)
            return;

        A more_by_center, more_by_size;
        bool counts;
        if (kind == GIOU_LOSS) {
            const A hull = across.hull * down.hull, union_by_size = 2 * size_down - overlap_by_size;
            const A hull_by_center = down.hull * across.hull_by_center;
            const A hull_by_size = 2 * down.hull * across.hull_by_size;
            more_by_center = (-hull * overlap_by_center - union_area * hull_by_center) / (hull * hull);
            more_by_size = (hull * union_by_size - union_area * hull_by_size) / (hull * hull);
            counts = hull > 0;
        } else {
            const A by_hull = 2 * across.hull * distance / (diagonal * diagonal);
            more_by_center = -2 * across.distance / diagonal - by_hull * across.hull_by_center;
            more_by_size = by_hull * across.hull_by_size;
            counts = diagonal > 0;
        }
        by_center = is_apart ? more_by_center : counts ? by_center + more_by_center : by_center;
        by_size = is_apart ? more_by_size : counts ? by_size + more_by_size : by_size;
    }
};

// 0 instead of a number that is not finite, and at most `limit` on both sides.
template <typename A>
GLUONOPS_INLINE A limited(A x, A limit)
{
    const A finite = x - x == 0 ? x : A(0);
    const A below = finite > limit ? limit : finite;
    return below < -limit ? -limit : below;
}

// The increase of the overlap by the predicted box.
template <typename A>
GLUONOPS_INLINE Box<A> overlap_increase(int box_loss, Box<A> box, const Box<A> &truth)
{
    box.w = box.w == 0 ? A(1) : box.w;
    box.h = box.h == 0 ? A(1) : box.h;
    const Sides<A> sides = sides_of(box), truth_sides = sides_of(truth);
    // Ends that coincide count as the ground truth's.
    const Extent<A> across = Extent<A>(truth_sides.across, sides.across).exchanged();
    const Extent<A> down = Extent<A>(truth_sides.down, sides.down).exchanged();
    const A union_area = box.w * box.h + truth.w * truth.h - across.overlap * down.overlap;
    const A diagonal = across.hull * across.hull + down.hull * down.hull;
    const A distance = across.distance * across.distance + down.distance * down.distance;
    const YoloIncrease<A> by_x(box_loss, across, down, box.h, union_area, diagonal, distance);
    const YoloIncrease<A> by_y(box_loss, down, across, box.w, union_area, diagonal, distance);
    Box<A> by = {by_x.by_center, by_y.by_center, by_x.by_size, by_y.by_size};
    if (box_loss == CIOU_LOSS) {
        const A scale = A(0.40528473456935109);   // 4 / pi^2
        const A difference = arctangent(truth.w / truth.h) - arctangent(box.w / box.h);
        const A v = scale * difference * difference;
        const A alpha = v / (1 - across.overlap * down.overlap / union_area + v + A(1e-6));
        by.w += alpha * 2 * scale * difference * box.h;
        by.h -= alpha * 2 * scale * difference * box.w;
    }
    return by;
}

// The loss of the overlap with the ground truth.
template <typename A>
GLUONOPS_INLINE A overlap_loss(const YoloLoss<A> &loss, const Box<A> &box, const Box<A> &truth)
{
    const A eps = A(LOSS_EPS);
    const BoxPair<A> pair(sides_of(box), sides_of(truth), eps);
    return loss.iou_normalizer * box_loss_of(loss.box_loss, pair, eps).loss;
}

// The deltas of x, y, w and h, without the loss of the overlap.
template <typename A>
GLUONOPS_INLINE BoxDelta<A, 4> iou_errors(const YoloLoss<A> &loss, const YoloBox<A> &predicted, const Box<A> &increase)
{
    const A by[4] = {increase.x, increase.y, increase.w, increase.h};
    BoxDelta<A, 4> result;
    for (int c = 0; c < 2; ++c) {
        const A slope = loss.new_coords ? A(1) : predicted.factors[c];
        result.delta[c] = limited(by[c] * loss.iou_normalizer, loss.max_delta);
        result.delta[2 + c] = limited(by[2 + c] * slope * loss.iou_normalizer, loss.max_delta);
    }
    result.loss = 0;
    return result;
}

template <typename A, typename Prediction>
GLUONOPS_INLINE BoxDelta<A, 4> box_delta(const YoloLoss<A> &loss, const Prediction &, const YoloBox<A> &predicted,
                                         const Box<A> &truth)
{
    if (loss.box_loss == MSE_LOSS)
        return squared_errors(loss, predicted, truth);
    return iou_errors(loss, predicted, overlap_increase(loss.box_loss, predicted.box, truth));
}

// The ground truth that a predicted box overlaps most, of several the first. Lanes share the ground truths.
template <typename A> struct BestMatch {
    int truth;   // -1: none
    A iou;

    template <typename Truths, typename Prediction>
    GLUONOPS_INLINE BestMatch(const Box<A> &box, const Truths &truths, const Prediction &prediction) : truth(-1), iou(0)
    {
        for (int t = prediction.lane(); t < truths.count; t += Prediction::LANES) {
            if (!truths.is_box(t))
                continue;
            const A found = iou_of(box, truths.box(t));
            truth = found > iou ? t : truth;
            iou = found > iou ? found : iou;
        }
        prediction.keep_best(*this);
    }
};

// Whether a class is likely enough for AlexeyAB's program to ignore the prediction.
template <typename Loss, typename Prediction>
GLUONOPS_INLINE bool has_likely_class(const Loss &loss, const Prediction &prediction)
{
    typedef typename Loss::Scalar A;
    int likely = 0;
    for (int k = prediction.lane(); k < prediction.classes; k += Prediction::LANES)
        likely += loss.activation(prediction.number(Loss::FIRST_CLASS + k)) > A(0.25);
    return prediction.sum(likely) > 0;
}

// A target, and the weight of the error.
template <typename A> struct YoloTarget { A target, weight; };

// The objectness of a prediction. Only AlexeyAB's program smoothes.
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
    YoloTarget<A> of_first;       // of the class of the first one
    YoloTarget<A> of_others;      // of the classes that no ground truth has

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

// Computes one prediction, as lanes that share the classes: stores its gradient, and the first lane adds to the sums.
template <typename Loss, typename Prediction, typename Truths, typename S>
GLUONOPS_INLINE void compute_prediction(const Loss &loss, const Prediction &prediction, const Truths &truths, S *sums)
{
    typedef typename Loss::Scalar A;
    enum { OBJECT = Loss::OBJECT, FIRST_CLASS = Loss::FIRST_CLASS };
    const YoloBox<A> predicted(loss, prediction);
    const BestMatch<A> best(predicted.box, truths, prediction);
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
    const bool has_overlaps = loss.box_loss != MSE_LOSS;
    int next = !has_overlaps ? int(truths.count) : is_match ? -1 : truths.next_at(0, prediction);
    for (; next < truths.count; next = truths.next_at(next + 1, prediction))
        loss_of_overlaps += overlap_loss(loss, predicted.box, truths.box(next < 0 ? best.truth : next));

    BoxDelta<A, OBJECT> total;
    for (int c = 0; c < OBJECT; ++c)
        total.delta[c] = 0;
    total.loss = 0;
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
        if (is_first_lane) {
            const A iou = iou_of(predicted.box, truth);
            sums[IOU] += S(iou);
            sums[RECALL] += S(iou > A(0.5));
            sums[PROBABILITY] += S(loss.activation(prediction.number(FIRST_CLASS + int(truths.class_id(t)))));
            sums[TRUTHS] += 1;
        }
    }

    if (matches.count) {
        const A eps = loss.label_smooth_eps;
        matches.of_first.target = loss.focal_loss ? A(1) : 1 - eps / 2;
        matches.of_others.target = loss.focal_loss ? A(0) : eps / 2;
        if (loss.focal_loss) {
            const int class_id = int(truths.class_id(matches.first));
            const A p = loss.activation(prediction.number(FIRST_CLASS + class_id)) + A(1e-15);
            matches.of_others.weight = -A(0.5) * (1 - p) * (2 * p * YoloMath<A>::log(p) + p - 1);
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
    class_part = prediction.sum(class_part);
    cost_of_classes = prediction.sum(cost_of_classes);

    const A number = prediction.number(OBJECT), objectness = loss.activation(number);
    const YoloTarget<A> to = objectness_target(loss, objectness, best.iou, is_ignored, is_assigned);
    const A delta = to.weight * (to.target - objectness);
    const A share = loss.is_averaged(delta) && positive > 0 ? 1 / A(positive) : A(1);
    if (!is_first_lane)
        return;
    sums[CLASS_PART] += class_part;
    sums[COST] += cost_of_classes;
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
