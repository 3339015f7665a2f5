// The heads of Gaussian YOLOv3, where they differ from those of yolo.inl. C++ and CUDA share this text. Deltas are
// those of AlexeyAB's Darknet, src/gaussian_yolo_layer.c. Each of x, y, w and h has a mean, and behind it a deviation.
// A file that includes this one includes yolo.inl before.

template <typename A, typename Kinds> struct GaussianLoss : YoloLoss<A, Kinds> {
    enum { STEP = 2, OBJECT = 8, FIRST_CLASS = 9, TOGETHER = 4 };
    A uc_normalizer, shift;   // from the point to the centre, in boxes

    GLUONOPS_INLINE bool has_overlaps() const { return this->box_loss != Kinds::Nll; }

    template <typename V>
    GLUONOPS_INLINE V center(V point, V size) const { return point + shift * size; }
    GLUONOPS_INLINE A point_shift() const { return shift; }

    GLUONOPS_INLINE A smooth_target(A iou) const { return iou * iou; }
    GLUONOPS_INLINE bool ignored_has_class() const { return this->objectness_smooth; }
    GLUONOPS_INLINE bool replaces_objectness(A) const { return true; }
    GLUONOPS_INLINE bool is_averaged(A) const { return true; }
};

template <typename A, typename Kinds, typename Args>
GLUONOPS_INLINE void set_loss(GaussianLoss<A, Kinds> &loss, const Args &args)
{
    set_shared(loss, args);
    loss.alexeyab = true;
    loss.new_coords = false;
    loss.focal_loss = false;
    loss.uc_normalizer = A(args.uc_normalizer);
    loss.shift = args.shift;
}

// The negative log-likelihood of a number, half of it as in Darknet, and its decrease by the mean and the deviation.
template <typename A> struct GaussianNll {
    A loss, by_mean, by_deviation;

    GLUONOPS_INLINE GaussianNll(A error, A deviation)
    {
        const A half = A(0.5), tiny = A(1e-9);   // Darknet's
        const A precision = 1 / deviation, narrower = 1 / (deviation + A(0.3));
        const A score = error == 0 ? A(0) : error * precision;
        const A density = A(0.3989422804014327) * exponential(-half * score * score) * narrower;
        const A share = half * density / (density + tiny);
        loss = -half * logarithm(density + tiny);
        by_mean = share * score * precision;
        by_deviation = share * (score * score * precision - narrower);
    }
};

template <typename A, typename Kinds, typename Prediction>
GLUONOPS_INLINE BoxDelta<A, 8> box_delta(const GaussianLoss<A, Kinds> &loss, const Prediction &prediction,
                                         const YoloBox<A> &predicted, const Box<A> &truth)
{
    const bool is_nll = !loss.has_overlaps();
    const A scale = 2 - truth.w * truth.h, shift = loss.shift;
    BoxDelta<A, 4> overlap = {{0, 0, 0, 0}, 0};
    if (!is_nll) {
        Box<A> increase = overlap_increase<Kinds>(loss.box_loss, predicted.box, truth);
        increase.x -= shift * increase.w;
        increase.y -= shift * increase.h;
        overlap = iou_errors(loss, predicted, increase);
    }
    const YoloBox<A> same(loss, prediction.again());
    const A means[4] = {same.offsets[0], same.offsets[1], same.numbers[2], same.numbers[3]};
    const A targets[4] = {(truth.x - shift * truth.w) * same.width - same.column,
                          (truth.y - shift * truth.h) * same.height - same.row,
                          logarithm(truth.w * same.width / same.anchor_w),
                          logarithm(truth.h * same.height / same.anchor_h)};
    BoxDelta<A, 8> result;
    A loss_of_numbers = 0;
    for (int c = 0; c < 4; ++c) {
        const GaussianNll<A> nll(targets[c] - means[c], loss.activation(prediction.number(2 * c + 1)));
        const A by_mean = limited(scale * nll.by_mean * loss.iou_normalizer, loss.max_delta);
        result.delta[2 * c] = is_nll ? by_mean : overlap.delta[c];
        result.delta[2 * c + 1] = limited(scale * nll.by_deviation * loss.uc_normalizer, loss.max_delta);
        loss_of_numbers += scale * nll.loss;
    }
    const A weight = is_nll ? loss.iou_normalizer : loss.uc_normalizer;
    result.loss = weight * loss_of_numbers;
    return result;
}
