// region_loss on the CPU. Forward has three stages: each ground-truth box of an image is assigned to an anchor and a
// cell; then one pass over the five planes of every anchor, vectors along the cells, treats the cells without a box;
// last come the cells that have one. Forward stores the gradient of every image's loss, and backward scales it by the
// head gradient. Bytes moved: forward five of the map's planes and the gradient, backward twice the gradient.
#include "generated/region_loss.h"
#include "../_region/loss.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

const double WARM_UP_SCALE = 0.01;   // Darknet's

template <typename T>
struct Image {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const RegionLossArgs<T> &args;
    const MapSizes sizes;
    int64_t cells, planes, index;
    const MatchedBox *truths;
    int64_t count;

    Image(const RegionLossArgs<T> &args, int64_t index)
        : args(args), sizes(map_sizes(args)), cells(sizes.cells()), planes(sizes.channels * cells), index(index),
          truths(args.matched + index * args.truths), count(args.count[index]) {}

    const T *anchor_data(int64_t anchor) const
    {
        return args.data + (index * sizes.anchors + anchor) * planes;
    }
    A *anchor_gradient(int64_t anchor) const
    {
        return args.gradient + (index * sizes.anchors + anchor) * planes;
    }
    A anchor_w(int64_t anchor) const { return A(sizes.anchor_sizes[2 * anchor]); }
    A anchor_h(int64_t anchor) const { return A(sizes.anchor_sizes[2 * anchor + 1]); }

    Box<A> predicted_box(int64_t anchor, int64_t cell) const
    {
        const T *from = anchor_data(anchor) + cell;
        return {(A(cell % sizes.width) + scalar_sigmoid(load_scalar(from))) / A(sizes.width),
                (A(cell / sizes.width) + scalar_sigmoid(load_scalar(from + cells))) / A(sizes.height),
                exponential(load_scalar(from + 2 * cells)) * (anchor_w(anchor) / A(sizes.width)),
                exponential(load_scalar(from + 3 * cells)) * (anchor_h(anchor) / A(sizes.height))};
    }

    // The anchor whose size has the largest IoU with a box of size (w, h).
    int64_t best_anchor(A w, A h, int64_t cell) const
    {
        int64_t best = 0;
        A max_iou = 0;
        for (int64_t anchor = 0; anchor < sizes.anchors; ++anchor) {
            Box<A> size = {0, 0, anchor_w(anchor) / A(sizes.width), anchor_h(anchor) / A(sizes.height)};
            if (!args.bias_match) {
                size = predicted_box(anchor, cell);
                size.x = size.y = 0;
            }
            const A iou = iou_of(size, {0, 0, w, h});
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best;
    }

    int64_t match_truths() const
    {
        const T *rows = args.truth + index * args.truths * 5;
        MatchedBox *boxes = args.matched + index * args.truths;
        const auto best = [this](A w, A h, int64_t cell) { return best_anchor(w, h, cell); };
        const int64_t box_count = gluonops::GLUONOPS_TARGET::match_truths(sizes, rows, args.truths, boxes, best);
        for (int64_t t = 0; t < box_count; ++t) {
            boxes[t].last = true;
            for (int64_t later = t + 1; later < box_count && boxes[t].last; ++later)
                boxes[t].last = !same_place(boxes[t], boxes[later]);
        }
        return box_count;
    }

    static bool same_place(const MatchedBox &a, const MatchedBox &b)
    {
        return a.cell == b.cell && a.anchor == b.anchor;
    }

    // One anchor's planes of the gradient, and its share of the parts.
    void anchor_loss(int64_t anchor, double *parts) const
    {
        A *gradient = anchor_gradient(anchor);
        if (!begin_share<T>(count, gradient, planes, parts))
            return;
        // Until the objectness has its gradient, its plane marks the cells that a box is assigned to.
        A *is_assigned = gradient + 4 * cells;
        memset(is_assigned, 0, size_t((planes - 4 * cells) * int64_t(sizeof(A))));
        for (int64_t t = 0; t < count; ++t)
            if (truths[t].anchor == anchor)
                is_assigned[truths[t].cell] = 1;

        if (value_at(args.seen, 0) < double(args.warmup_images))
            unassigned_cells<true>(anchor, gradient, parts);
        else
            unassigned_cells<false>(anchor, gradient, parts);
        for (int64_t t = 0; t < count; ++t)
            if (truths[t].anchor == anchor)
                assigned_cell(truths[t], anchor, gradient, parts);
    }

    // The cells without a box. Lanes beyond the end count as assigned.
    template <bool WARM_UP>
    void unassigned_cells(int64_t anchor, A *gradient, double *parts) const
    {
        const T *data = anchor_data(anchor);
        const A width = A(sizes.width), height = A(sizes.height);
        const A prior_w = anchor_w(anchor) / width, prior_h = anchor_h(anchor) / height;
        const A weight = A(args.noobject_scale), thresh = A(args.thresh);
        for_each_vector<T>(cells, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
            const T *from = data + cell;
            A *to = gradient + cell;
            const CellCoordinates<T> coordinates(cell, sizes.width);
            const V x = sigmoid(load(from, mask, A(0))), y = sigmoid(load(from + cells, mask, A(0)));
            const V raw_w = load(from + 2 * cells, mask, A(0)), raw_h = load(from + 3 * cells, mask, A(0));
            const V objectness = sigmoid(load(from + 4 * cells, mask, A(0)));
            const V is_unassigned = 1 - load(to + 4 * cells, mask, A(1));

            const V w = full_range_exponential(raw_w) * prior_w, h = full_range_exponential(raw_h) * prior_h;
            const V center_x = (x + coordinates.column) / width, center_y = (y + coordinates.row) / height;
            const V max_iou = largest_iou<T>(center_x, center_y, w, h, truths, count);
            const V zero = broadcast(A(0));
            const V weighted_error = (max_iou > thresh ? zero : is_unassigned * weight) * objectness;
            parts[NO_OBJECTNESS] += 0.5 * double(reduce_sum(weighted_error * objectness));
            store(to + 4 * cells, weighted_error * objectness * (1 - objectness), mask);

            V cost = weighted_error * weighted_error;
            if (WARM_UP) {   // boxes are regressed toward their priors
                const V scale = is_unassigned * A(WARM_UP_SCALE);
                const V error_x = x - A(0.5), error_y = y - A(0.5);
                const V weighted_x = scale * error_x, weighted_y = scale * error_y;
                const V weighted_w = scale * raw_w, weighted_h = scale * raw_h;
                const V coordinates_loss = weighted_x * error_x + weighted_y * error_y + weighted_w * raw_w +
                                           weighted_h * raw_h;
                parts[COORDINATES] += 0.5 * double(reduce_sum(coordinates_loss));
                cost += weighted_x * weighted_x + weighted_y * weighted_y + weighted_w * weighted_w +
                        weighted_h * weighted_h;
                store(to, weighted_x * x * (1 - x), mask);
                store(to + cells, weighted_y * y * (1 - y), mask);
                store(to + 2 * cells, weighted_w, mask);
                store(to + 3 * cells, weighted_h, mask);
            } else {
                for (int64_t c = 0; c < 4; ++c)
                    store(to + c * cells, zero, mask);
            }
            parts[COST] += double(reduce_sum(cost));
        });
    }

    // The cell of one box. Every box counts in the statistics; the last one of a cell gives the loss and the gradient.
    void assigned_cell(const MatchedBox &truth, int64_t anchor, A *gradient, double *parts) const
    {
        const T *from = anchor_data(anchor) + truth.cell;
        A *to = gradient + truth.cell;
        const Box<A> truth_box = {A(truth.x), A(truth.y), A(truth.w), A(truth.h)};
        const Box<A> predicted = predicted_box(anchor, truth.cell);
        const A iou = iou_of(predicted, truth_box);
        const ClassLogits<T> logits(from + 5 * cells, sizes.classes, cells, args.softmax);
        parts[IOU] += iou;
        parts[RECALL] += iou > A(0.5);
        parts[PROBABILITY] += logits.probability(truth.class_id);
        parts[TRUTHS] += 1;
        if (!truth.last)
            return;
        if (args.box_loss == RegionLossBoxLoss::Giou)
            giou_loss(truth_box, predicted, from, to, parts);
        else
            squared_errors(truth, truth_box, anchor, from, to, parts);
        objectness_loss(args.rescore ? iou : A(1), from, to, parts);
        class_loss(truth, logits, to + 5 * cells, parts);
    }

    // The stages of assigned_cell are expanded in it. Called as functions, they make the forward pass 1 % slower.
    GLUONOPS_INLINE void squared_errors(const MatchedBox &truth, const Box<A> &truth_box, int64_t anchor,
                                        const T *from, A *to, double *parts) const
    {
        const A width = A(sizes.width), height = A(sizes.height);
        const A predicted[] = {scalar_sigmoid(load_scalar(from)), scalar_sigmoid(load_scalar(from + cells)),
                               load_scalar(from + 2 * cells), load_scalar(from + 3 * cells)};
        const A target[] = {truth_box.x * width - A(truth.cell % sizes.width),
                            truth_box.y * height - A(truth.cell / sizes.width),
                            logarithm(truth_box.w * width / anchor_w(anchor)),
                            logarithm(truth_box.h * height / anchor_h(anchor))};
        const A scale = A(args.coord_scale) * (2 - truth_box.w * truth_box.h);
        for (int c = 0; c < 4; ++c) {
            const A error = predicted[c] - target[c], weighted_error = scale * error;
            parts[COORDINATES] += 0.5 * double(weighted_error) * double(error);
            parts[COST] += double(weighted_error) * double(weighted_error);
            to[c * cells] = c < 2 ? weighted_error * predicted[c] * (1 - predicted[c]) : weighted_error;
        }
    }

    void giou_loss(const Box<A> &truth_box, const Box<A> &predicted, const T *from, A *to, double *parts) const
    {
        const A scale = A(args.coord_scale), x = scalar_sigmoid(load_scalar(from));
        const A y = scalar_sigmoid(load_scalar(from + cells));
        const A eps = 0;
        const BoxPair<A> pair(sides_of(predicted), sides_of(truth_box), eps);
        const BoxLoss<A> giou = giou_loss_of(pair, eps);
        const A by_activation[] = {scale * giou.gradient.x / A(sizes.width), scale * giou.gradient.y / A(sizes.height),
                                   scale * giou.gradient.w * predicted.w, scale * giou.gradient.h * predicted.h};
        const A slope[] = {x * (1 - x), y * (1 - y), 1, 1};
        parts[COORDINATES] += double(scale) * double(giou.loss);
        for (int c = 0; c < 4; ++c) {
            parts[COST] += double(by_activation[c]) * double(by_activation[c]);
            to[c * cells] = by_activation[c] * slope[c];
        }
    }

    GLUONOPS_INLINE void objectness_loss(A target, const T *from, A *to, double *parts) const
    {
        const A objectness = scalar_sigmoid(load_scalar(from + 4 * cells));
        const A error = objectness - target, weighted_error = A(args.object_scale) * error;
        parts[OBJECTNESS] += 0.5 * double(weighted_error) * double(error);
        parts[COST] += double(weighted_error) * double(weighted_error);
        to[4 * cells] = weighted_error * objectness * (1 - objectness);
    }

    GLUONOPS_INLINE void class_loss(const MatchedBox &truth, const ClassLogits<T> &logits, A *to,
                                    double *parts) const
    {
        mark_classes(truth, to, logits.probability(0));
        for (int64_t k = 0; k < sizes.classes; ++k) {
            const A target = to[k * cells];
            const A weighted_error = A(args.class_scale) * (logits.probability(k) - target);
            parts[CLASS_PART] += args.class_scale * double(logits.nll(k, target));
            parts[COST] += double(weighted_error) * double(weighted_error);
            to[k * cells] = weighted_error;
        }
    }

    // Writes the class targets, 1 and 0, into a cell of the gradient. With a softmax only the class of the last box
    // counts. With sigmoids the boxes of a cell add up their classes, back to where the error of class 0 was exactly
    // 0: there Darknet starts anew.
    void mark_classes(const MatchedBox &last, A *to, A first_probability) const
    {
        bool first = true;
        for (const MatchedBox *truth = args.softmax ? &last : truths; truth <= &last; ++truth) {
            if (!same_place(*truth, last))
                continue;
            if (first || *to == first_probability)
                for (int64_t k = 0; k < sizes.classes; ++k)
                    to[k * cells] = 0;
            to[truth->class_id * cells] = 1;
            first = false;
        }
    }
};

template <typename T>
void forward(const RegionLossArgs<T> &args)
{
    const auto image_of = [&](int64_t index) { return Image<T>(args, index); };
    map_loss_forward(args, args.anchors.count / 2, image_of);
}

template <typename T>
void backward(const RegionLossArgs<T> &args)
{
    map_loss_backward(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
