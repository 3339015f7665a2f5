// The losses of YOLOv3's to YOLOv7's heads on the CPU. Forward has three stages: each ground-truth box of an image is
// assigned to a cell and an anchor; then one pass over the five planes of every anchor that its box and its objectness
// need, vectors along the cells, computes the objectness of predictions that match no box; last come the predictions that
// do, one at a time. Forward stores the gradient of every image's loss, and backward scales it by the head gradient. Bytes
// moved: forward five of the map's planes and the gradient, backward twice the gradient.
#pragma once

#include "loss.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

#include "yolo.inl"

// A prediction, and where its gradient goes.
template <typename T>
struct Prediction {
    typedef typename Simd<T>::Scalar A;
    enum { LANES = 1 };
    const MapSizes &sizes;
    const T *from;
    A *to;
    int64_t anchor, cell, column, row, width, height, classes;

    Prediction(const MapSizes &sizes, const T *planes, A *gradient, int64_t anchor, int64_t cell)
        : sizes(sizes), from(planes + cell), to(gradient + cell), anchor(anchor), cell(cell),
          column(cell % sizes.width), row(cell / sizes.width), width(sizes.width), height(sizes.height),
          classes(sizes.classes) {}

    const Prediction &again() const { return *this; }   // a GPU has few registers, and reads it again
    A anchor_w() const { return A(sizes.anchor_sizes[2 * anchor]); }
    A anchor_h() const { return A(sizes.anchor_sizes[2 * anchor + 1]); }
    A number(int64_t channel) const { return load_scalar(from + channel * sizes.cells()); }
    void put(int64_t channel, A value) const { to[channel * sizes.cells()] = value; }
    int64_t lane() const { return 0; }
    template <typename V>
    V sum(V value) const { return value; }
    template <typename Best>
    void keep_best(const Best &) const {}
};

template <typename Args>
int64_t all_anchors(const Args &args)
{
    return (args.anchors.count + args.other_anchors.count) / 2;
}

// The boxes of an image. An anchor of another head is one beyond its own.
template <typename Loss>
struct Truths {
    typedef typename Loss::Scalar A;
    const Loss &loss;
    const MapSizes &sizes;
    const MatchedBox *all;
    int64_t count;

    bool is_box(int64_t) const { return true; }
    A class_id(int64_t t) const { return A(all[t].class_id); }
    Box<A> box(int64_t t) const { return {A(all[t].x), A(all[t].y), A(all[t].w), A(all[t].h)}; }

    bool is_at(int64_t t, int64_t anchor, int64_t cell) const
    {
        if (all[t].cell != cell)
            return false;
        if (all[t].anchor == anchor)
            return true;
        const A width = A(sizes.width), height = A(sizes.height);
        const Box<A> size = {0, 0, A(sizes.anchor_sizes[2 * anchor]) / width,
                             A(sizes.anchor_sizes[2 * anchor + 1]) / height};
        return loss.fits(size, {0, 0, A(all[t].w), A(all[t].h)});
    }
    template <typename Prediction>
    bool is_at(int64_t t, const Prediction &prediction) const { return is_at(t, prediction.anchor, prediction.cell); }

    // The first box from number `t` on that is at a place; `count` if there is none.
    template <typename Prediction>
    int64_t next_at(int64_t t, const Prediction &prediction) const
    {
        while (t < count && !is_at(t, prediction))
            ++t;
        return t;
    }

    // Whether no box before this one has the same prediction.
    bool is_first_at(int64_t t, int64_t anchor) const
    {
        for (int64_t earlier = 0; earlier < t; ++earlier)
            if (is_at(earlier, anchor, all[t].cell))
                return false;
        return true;
    }
};

template <typename T, typename Args, typename Loss>
struct YoloImage {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { OBJECT = Loss::OBJECT };
    const Args &args;
    const MapSizes sizes;
    const Loss loss;
    int64_t cells, planes, index, count;
    const Truths<Loss> truths;

    YoloImage(const Args &args, const Loss &loss, int64_t index)
        : args(args), sizes(map_sizes(args)), loss(loss), cells(sizes.cells()), planes(sizes.channels * cells),
          index(index), count(args.count[index]),
          truths{this->loss, sizes, args.matched + index * args.truths, count} {}
    YoloImage(const YoloImage &) = delete;   // `truths` refers to members

    // Those of other heads follow the head's own.
    const double *anchor_size(int64_t anchor) const
    {
        return anchor < sizes.anchors ? sizes.anchor_sizes + 2 * anchor
                                      : args.other_anchors.values + 2 * (anchor - sizes.anchors);
    }

    // The anchor of any head whose size has the largest IoU with a box of size (w, h).
    int64_t best_anchor(A w, A h) const
    {
        int64_t best = 0;
        A max_iou = 0;
        for (int64_t anchor = 0; anchor < all_anchors(args); ++anchor) {
            const double *of_anchor = anchor_size(anchor);
            const Box<A> size = {0, 0, A(of_anchor[0]) / A(sizes.width), A(of_anchor[1]) / A(sizes.height)};
            const A iou = iou_of(size, {0, 0, w, h});
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best < sizes.anchors ? best : sizes.anchors;
    }

    int64_t match_truths() const
    {
        const T *rows = args.truth + index * args.truths * 5;
        const auto best = [this](A w, A h, int64_t) { return best_anchor(w, h); };
        MatchedBox *boxes = args.matched + index * args.truths;
        return gluonops::GLUONOPS_TARGET::match_truths(sizes, rows, args.truths, boxes, best,
                                                         loss.point_shift());
    }

    // One anchor's planes of the gradient, and its share of the parts.
    void anchor_loss(int64_t anchor, double *parts) const
    {
        const int64_t first = (index * sizes.anchors + anchor) * planes;
        const T *data = args.data + first;
        A *gradient = args.gradient + first;
        if (!begin_share<T>(count, gradient, planes, parts))
            return;
        memset(gradient, 0, size_t(planes * int64_t(sizeof(A))));
        // Until the objectness has its gradient, its plane marks the cells that a box is assigned to.
        for (int64_t t = 0; t < count; ++t)
            if (truths.is_at(t, anchor, truths.all[t].cell))
                gradient[OBJECT * cells + truths.all[t].cell] = 1;
        unassigned_cells(anchor, data, gradient, parts);
        for (int64_t t = 0; t < count; ++t)
            if (truths.is_at(t, anchor, truths.all[t].cell) && truths.is_first_at(t, anchor))
                compute(anchor, truths.all[t].cell, data, gradient, parts);
    }

    void compute(int64_t anchor, int64_t cell, const T *data, A *gradient, double *parts) const
    {
        compute_prediction(loss, Prediction<T>(sizes, data, gradient, anchor, cell), truths, parts);
    }

    // The cells without a box. Lanes beyond the end count as assigned.
    void unassigned_cells(int64_t anchor, const T *data, A *gradient, double *parts) const
    {
        const int64_t cells = this->cells;
        const A prior_w = A(sizes.anchor_sizes[2 * anchor]) / A(sizes.width);
        const A prior_h = A(sizes.anchor_sizes[2 * anchor + 1]) / A(sizes.height);
        const A width = A(sizes.width), height = A(sizes.height);
        const A scale = loss.scale_x_y, shift = (scale - 1) / 2;
        // From this IoU on, a prediction is computed alone. pjreddie's program ignores it whatever its classes are.
        const A ignored = loss.alexeyab ? infinity<A>() : loss.ignore_thresh;
        const A alone = loss.alexeyab && loss.ignore_thresh < loss.truth_thresh ? loss.ignore_thresh
                                                                                : loss.truth_thresh;
        const bool new_coords = loss.new_coords;
        for_each_vector<T>(cells, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
            const T *from = data + cell;
            A *to = gradient + cell + OBJECT * cells;
            const CellCoordinates<T> coordinates(cell, sizes.width);
            const int64_t step = Loss::STEP * cells;
            const V raw_x = load(from, mask, A(0)), raw_y = load(from + step, mask, A(0));
            const V raw_w = load(from + 2 * step, mask, A(0)), raw_h = load(from + 3 * step, mask, A(0));
            const V number = load(from + OBJECT * cells, mask, A(0));
            const V x = scale * (new_coords ? raw_x : sigmoid(raw_x)) - shift;
            const V y = scale * (new_coords ? raw_y : sigmoid(raw_y)) - shift;
            const V w = (new_coords ? 4 * raw_w * raw_w : full_range_exponential(raw_w)) * prior_w;
            const V h = (new_coords ? 4 * raw_h * raw_h : full_range_exponential(raw_h)) * prior_h;
            const V objectness = new_coords ? number : sigmoid(number);
            const V is_unassigned = 1 - load(to, mask, A(1));
            const V center_x = loss.center(V((x + coordinates.column) / width), w);
            const V center_y = loss.center(V((y + coordinates.row) / height), h);
            const V max_iou = largest_iou<T>(center_x, center_y, w, h, truths.all, count);

            const V zero = broadcast(A(0));
            const V is_together = max_iou > alone ? zero : is_unassigned;
            const V weight = (max_iou > ignored ? zero : is_together) * loss.obj_normalizer;
            const V weighted_error = weight * objectness;
            store(to, weighted_error, mask);
            parts[COST] += double(reduce_sum(weighted_error * weighted_error));
            parts[NO_OBJECTNESS] += new_coords ? 0.5 * double(reduce_sum(weighted_error * objectness))
                                               : sum_of_softplus(number, weight);
            for (int lane = 0; lane < Simd<T>::LANES; ++lane)
                if (is_together[lane] != is_unassigned[lane])
                    compute(anchor, cell + lane, data, gradient, parts);
        });
    }

    // The sum of weight * log(1 + exp(x)): one logarithm, of a product. A weight is 0 or the same in all lanes.
    GLUONOPS_INLINE double sum_of_softplus(V x, V weight) const
    {
        const V zero = broadcast(A(0)), positive = maximum(x, zero);
        const V sums = 1 + full_range_exponential(x - positive - positive);
        double product = 1;
        for (int lane = 0; lane < Simd<T>::LANES; ++lane)
            product *= weight[lane] != 0 ? double(sums[lane]) : 1;
        return double(loss.obj_normalizer) * logarithm(product) + double(reduce_sum(weight * positive));
    }
};

template <template <typename> class Args, typename T, typename Loss>
void yolo_forward(const Args<T> &args, const Loss &loss)
{
    map_loss_forward(args, all_anchors(args), [&](int64_t index) {
        return YoloImage<T, Args<T>, Loss>(args, loss, index);
    });
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
