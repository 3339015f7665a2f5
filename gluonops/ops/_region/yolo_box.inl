// The heads of YOLOv3 to YOLOv7: what a box that they predict costs beside the ground truth, with the deltas. C++ and
// CUDA share this text. A file that includes it includes boxes.inl, head.inl and class_logits.inl before.

// The attributes. `Kinds` is the enumeration of box_loss. `truth_thresh` is infinite if no prediction is matched by it,
// `max_delta` if there is no limit.
template <typename A, typename Kinds> struct YoloLoss : HeadLoss<A> {
    enum { WRITTEN = 0 };   // see loss.h
    enum { TOGETHER = 8 };  // The threads of a GPU that compute a prediction left over.
    bool alexeyab, new_coords, objectness_smooth, focal_loss, several_anchors;
    int box_loss;
    A ignore_thresh, truth_thresh, iou_thresh, iou_normalizer, obj_normalizer, max_delta, scale_x_y, label_smooth_eps;

    // Returns whether the loss of boxes is that of their overlap.
    GLUONOPS_INLINE bool has_overlaps() const { return box_loss != Kinds::Mse; }

    // V is a number or a vector.
    template <typename V>
    GLUONOPS_INLINE V activation(V number) const { return new_coords ? number : sigmoid(number); }
    template <typename V>
    GLUONOPS_INLINE V offset(V number) const { return scale_x_y * activation(number) - (scale_x_y - 1) / 2; }
    template <typename V>
    GLUONOPS_INLINE V factor(V number) const
    {
        return new_coords ? 4 * number * number : full_range_exponential(number);
    }

    // Returns the loss whose derivative by the number is `activation(number) - target`.
    GLUONOPS_INLINE A entropy(A number, A target) const
    {
        return new_coords ? (number - target) * (number - target) / 2 : sigmoid_nll(number, target);
    }

    // Returns whether two sizes fit well enough for a further anchor.
    GLUONOPS_INLINE bool fits(const Box<A> &size, const Box<A> &other) const
    {
        return several_anchors && iou_of(size, other) > iou_thresh;
    }

    // Returns the target of the objectness of an ignored prediction with `objectness_smooth`.
    GLUONOPS_INLINE A smooth_target(A iou) const { return iou; }
    // Returns whether an ignored prediction learns the class of the ground truth that it overlaps most.
    GLUONOPS_INLINE bool ignored_has_class() const { return false; }
    // Returns whether a match by its cell replaces an objectness whose delta is this.
    GLUONOPS_INLINE bool replaces_objectness(A delta) const { return !objectness_smooth || delta == 0; }
    // Returns whether a box's delta is divided by the number of classes that increase, with this delta of the
    // objectness.
    GLUONOPS_INLINE bool is_averaged(A delta) const { return several_anchors && delta != 0; }
};

// Sets the attributes that Gaussian YOLOv3 has, too.
template <typename A, typename Kinds, typename Args>
GLUONOPS_INLINE void set_shared(YoloLoss<A, Kinds> &loss, const Args &args)
{
    loss.other_anchors = args.other_anchors;
    loss.objectness_smooth = args.objectness_smooth;
    loss.several_anchors = args.iou_thresh < 1;
    loss.box_loss = int(args.box_loss);
    loss.ignore_thresh = A(args.ignore_thresh);
    loss.truth_thresh = args.truth_thresh < 1 ? A(args.truth_thresh) : infinity<A>();
    loss.iou_thresh = A(args.iou_thresh);
    loss.iou_normalizer = A(args.iou_normalizer);
    loss.obj_normalizer = A(args.obj_normalizer);
    loss.max_delta = args.max_delta > 0 ? A(args.max_delta) : infinity<A>();
    loss.scale_x_y = A(args.scale_x_y);
    loss.label_smooth_eps = A(args.label_smooth_eps);
}

template <typename A, typename Kinds, typename Args>
GLUONOPS_INLINE void set_loss(YoloLoss<A, Kinds> &loss, const Args &args)
{
    set_shared(loss, args);
    loss.alexeyab = args.dialect == Args::Dialect::Alexeyab;
    loss.new_coords = args.new_coords;
    loss.focal_loss = args.focal_loss;
}

template <template <typename, typename> class Loss, typename Args>
GLUONOPS_INLINE Loss<typename Args::A, typename Args::BoxLoss> loss_of(const Args &args)
{
    Loss<typename Args::A, typename Args::BoxLoss> loss;
    set_loss(loss, args);
    return loss;
}

// The deltas of the channels of a box, and the loss; that of an overlap is not in it.
template <typename A, int CHANNELS> struct BoxDelta { A delta[CHANNELS], loss; };

template <typename A, typename Kinds>
GLUONOPS_INLINE BoxDelta<A, 4> squared_errors(const YoloLoss<A, Kinds> &loss, const YoloBox<A> &predicted,
                                              const Box<A> &truth)
{
    const A scale = (2 - truth.w * truth.h) * loss.iou_normalizer, half = A(0.5);
    const A w_ratio = truth.w * predicted.width / predicted.anchor_w;
    const A h_ratio = truth.h * predicted.height / predicted.anchor_h;
    const A centers[2] = {truth.x * predicted.width - predicted.column, truth.y * predicted.height - predicted.row};
    const A sizes[2] = {loss.new_coords ? square_root(w_ratio / 4) : logarithm(w_ratio),
                        loss.new_coords ? square_root(h_ratio / 4) : logarithm(h_ratio)};
    BoxDelta<A, 4> result;
    result.loss = 0;
    for (int c = 0; c < 2; ++c) {
        const A size_error = sizes[c] - predicted.numbers[2 + c];
        const A target = (centers[c] + (loss.scale_x_y - 1) * half) / loss.scale_x_y;   // The activation learns it.
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
template <typename A, typename Kinds> struct YoloIncrease {
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
        if (kind == Kinds::Iou)
            return;

        A more_by_center, more_by_size;
        bool counts;
        if (kind == Kinds::Giou) {
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

// Returns 0 instead of a number that is not finite, and limits the others to `limit` on both sides.
template <typename A>
GLUONOPS_INLINE A limited(A x, A limit)
{
    const A finite = x - x == 0 ? x : A(0);
    const A below = finite > limit ? limit : finite;
    return below < -limit ? -limit : below;
}

// Returns the increase of the overlap by the predicted box.
template <typename Kinds, typename A>
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
    const YoloIncrease<A, Kinds> by_x(box_loss, across, down, box.h, union_area, diagonal, distance);
    const YoloIncrease<A, Kinds> by_y(box_loss, down, across, box.w, union_area, diagonal, distance);
    Box<A> by = {by_x.by_center, by_y.by_center, by_x.by_size, by_y.by_size};
    if (box_loss == Kinds::Ciou) {
        const A scale = A(0.40528473456935109);   // 4 / pi^2
        const A difference = arctangent(truth.w / truth.h) - arctangent(box.w / box.h);
        const A v = scale * difference * difference;
        const A alpha = v / (1 - across.overlap * down.overlap / union_area + v + A(1e-6));
        by.w += alpha * 2 * scale * difference * box.h;
        by.h -= alpha * 2 * scale * difference * box.w;
    }
    return by;
}

// Returns the loss of the overlap with the ground truth.
template <typename A, typename Kinds>
GLUONOPS_INLINE A overlap_loss(const YoloLoss<A, Kinds> &loss, const Box<A> &box, const Box<A> &truth)
{
    const A eps = A(LOSS_EPS);
    const BoxPair<A> pair(sides_of(box), sides_of(truth), eps);
    return loss.iou_normalizer * box_loss_of<Kinds>(loss.box_loss, pair, eps).loss;
}

// Returns the deltas of x, y, w and h, without the loss of the overlap.
template <typename A, typename Kinds>
GLUONOPS_INLINE BoxDelta<A, 4> iou_errors(const YoloLoss<A, Kinds> &loss, const YoloBox<A> &predicted,
                                          const Box<A> &increase)
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

template <typename A, typename Kinds, typename Prediction>
GLUONOPS_INLINE BoxDelta<A, 4> box_delta(const YoloLoss<A, Kinds> &loss, const Prediction &,
                                         const YoloBox<A> &predicted, const Box<A> &truth)
{
    if (!loss.has_overlaps())
        return squared_errors(loss, predicted, truth);
    return iou_errors(loss, predicted, overlap_increase<Kinds>(loss.box_loss, predicted.box, truth));
}
