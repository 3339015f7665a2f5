// The losses of YOLO's heads on the CPU. Forward has three stages: each ground-truth box of an image is assigned to a
// cell and an anchor; then one pass over the five planes of every anchor that its box and its objectness need, vectors
// along the cells, computes the predictions without a box; last come those that have one, one at a time. Forward stores
// the gradient of every image's loss, and backward scales it by the head gradient. Bytes moved: forward five of the
// map's planes and the gradient, backward twice the gradient.
//
// `Loss` is a RegionLoss, a YoloLoss or a GaussianLoss. Each has, for an Anchor and a Prediction of one of its cells,
//
//     void unassigned_cells(const Loss &, const Anchor &, double *parts)
//     void assigned_cell(const Loss &, const Prediction &, const Truths &, int64_t t, double *parts)
//
// where the former writes the first WRITTEN channels, and the latter is called for every box `t` of the cell.
#pragma once

#include "region.h"

namespace gluonops::GLUONOPS_ISA {

const int64_t INVALID_IMAGE = -1;   // the count of an image with a row that is neither a box nor padding

#include "head.inl"

// The boxes of an image. The anchor of a box that another head takes is one beyond the head's own.
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

    // Returns the first box from number `t` on that is at a prediction, or `count` if there is none.
    template <typename Prediction>
    int64_t next_at(int64_t t, const Prediction &prediction) const
    {
        while (t < count && !is_at(t, prediction))
            ++t;
        return t;
    }
};

// The size of an anchor, in cells and in units of the image.
template <typename A>
struct AnchorSize {
    A in_cells[2], in_images[2];

    GLUONOPS_INLINE A anchor_w() const { return in_cells[0]; }
    GLUONOPS_INLINE A anchor_h() const { return in_cells[1]; }
    GLUONOPS_INLINE A prior_w() const { return in_images[0]; }
    GLUONOPS_INLINE A prior_h() const { return in_images[1]; }
};

// The planes of an anchor in an image.
template <typename T, typename Loss>
struct Anchor {
    typedef typename Simd<T>::Scalar A;
    const MapSizes &sizes;
    const Truths<Loss> &truths;
    int64_t number;
    const T *data;
    A *gradient;
    AnchorSize<A> size;

    bool has(int64_t t) const { return truths.is_at(t, number, truths.all[t].cell); }
};

// The prediction of an anchor in a cell.
template <typename T>
struct Prediction : AnchorSize<typename Simd<T>::Scalar> {
    typedef typename Simd<T>::Scalar A;
    enum { LANES = 1 };   // A GPU has several.
    const T *from;
    A *to;
    int64_t anchor, cell, column, row, width, height, cells, classes;

    template <typename Anchor>
    Prediction(const Anchor &anchor, int64_t cell)
        : AnchorSize<A>(anchor.size), from(anchor.data + cell), to(anchor.gradient + cell), anchor(anchor.number),
          cell(cell), column(cell % anchor.sizes.width), row(cell / anchor.sizes.width), width(anchor.sizes.width),
          height(anchor.sizes.height), cells(anchor.sizes.cells()), classes(anchor.sizes.classes) {}

    const Prediction &again() const { return *this; }   // a GPU has few registers, and reads it again
    A number(int64_t channel) const { return load_scalar(from + channel * cells); }
    void put(int64_t channel, A value) const { to[channel * cells] = value; }
    int lane() const { return 0; }
    int sum(int of_lane) const { return of_lane; }
    template <typename Match>
    void share_best(const Match &) const {}
};

// The predictions of an anchor in the cells from one on, one per lane.
template <typename T, typename Mask>
struct Predictions : CellCoordinates<T>, AnchorSize<typename Simd<T>::Scalar> {
    typedef typename Simd<T>::Scalar A;
    const T *from;
    int64_t width, height, cells;
    Mask mask;

    template <typename Anchor>
    GLUONOPS_INLINE Predictions(const Anchor &anchor, int64_t cell, Mask mask)
        : CellCoordinates<T>(cell, anchor.sizes.width), AnchorSize<A>(anchor.size), from(anchor.data + cell),
          width(anchor.sizes.width), height(anchor.sizes.height), cells(anchor.sizes.cells()), mask(mask) {}

    GLUONOPS_INLINE typename Simd<T>::Vector number(int64_t channel) const
    {
        return load(from + channel * cells, mask);
    }
};

// Returns the largest IoU of each of a vector of boxes with one of the ground truth.
template <typename T, typename V>
GLUONOPS_INLINE V largest_iou(const Box<V> &box, const MatchedBox *truths, int64_t count)
{
    typedef typename Simd<T>::Scalar A;
    const V left = box.x - box.w / 2, right = box.x + box.w / 2, top = box.y - box.h / 2, bottom = box.y + box.h / 2;
    const V area = box.w * box.h, zero = broadcast(A(0));
    V max_iou = zero;
    for (int64_t t = 0; t < count; ++t) {
        const MatchedBox &truth = truths[t];
        const A half_w = A(truth.w) / 2, half_h = A(truth.h) / 2;
        const V truth_left = broadcast(A(truth.x) - half_w), truth_right = broadcast(A(truth.x) + half_w);
        const V truth_top = broadcast(A(truth.y) - half_h), truth_bottom = broadcast(A(truth.y) + half_h);
        const V overlap_w = (right < truth_right ? right : truth_right) - maximum(left, truth_left);
        const V overlap_h = (bottom < truth_bottom ? bottom : truth_bottom) - maximum(top, truth_top);
        const V intersection = maximum(overlap_w, zero) * maximum(overlap_h, zero);
        const V iou = intersection / (area + A(truth.w) * A(truth.h) - intersection);
        max_iou = maximum(intersection > 0 ? iou : zero, max_iou);
    }
    return max_iou;
}

template <typename T, typename Args, typename Loss>
struct HeadImage {
    typedef typename Simd<T>::Scalar A;
    const Args &args;
    const Loss &loss;
    const MapSizes sizes;
    int64_t index, anchors, width, height;
    const double *anchor_sizes;
    const Truths<Loss> truths;

    HeadImage(const Args &args, const Loss &loss, int64_t index)
        : args(args), loss(loss), sizes(map_sizes(args)), index(index), anchors(sizes.anchors), width(sizes.width),
          height(sizes.height), anchor_sizes(sizes.anchor_sizes),
          truths{loss, sizes, args.matched + index * args.truths, args.count[index]} {}
    HeadImage(const HeadImage &) = delete;   // `truths` refers to a member

    int64_t anchor_elements() const { return sizes.channels * sizes.cells(); }
    Anchor<T, Loss> anchor(int64_t number) const
    {
        const int64_t first = (index * anchors + number) * anchor_elements();
        const A w = A(anchor_sizes[2 * number]), h = A(anchor_sizes[2 * number + 1]);
        return {sizes, truths, number, args.data + first, args.gradient + first,
                {{w, h}, {w / A(width), h / A(height)}}};
    }
    A number(int64_t of_anchor, int64_t cell, int64_t channel) const
    {
        return load_scalar(anchor(of_anchor).data + channel * sizes.cells() + cell);
    }

    // Assigns the boxes to cells and anchors. Returns the number of boxes, or INVALID_IMAGE.
    int64_t match_truths() const
    {
        const T *rows = args.truth + index * args.truths * 5;
        MatchedBox *boxes = args.matched + index * args.truths;
        int64_t count = 0;
        for (int64_t t = 0; sizes.cells() && t < args.truths; ++t) {
            const GroundTruth<A> truth(rows, t, sizes.classes, height, width, loss.point_shift());
            if (truth.padding)
                continue;
            if (!truth.valid)
                return INVALID_IMAGE;
            const Box<A> &box = truth.box;
            const int64_t cell = truth.row * width + truth.column;
            boxes[count++] = {box.x, box.y, box.w, box.h, int64_t(truth.class_id),
                              best_anchor(loss, *this, box, cell), cell};
        }
        return count;
    }

    // One anchor's planes of the gradient, and its share of the parts. In an invalid image all of them are NaN.
    void anchor_loss(int64_t number, double *parts) const
    {
        const Anchor<T, Loss> own = anchor(number);
        const bool is_valid = truths.count != INVALID_IMAGE;
        for (int p = 0; p < PARTS; ++p)
            parts[p] = is_valid ? 0 : not_a_number<double>();
        if (!is_valid)
            return write_row(own.gradient, anchor_elements(), false, [](int64_t, auto) GLUONOPS_LAMBDA {
                return broadcast(not_a_number<A>());
            });
        const int64_t written = Loss::WRITTEN * sizes.cells();
        memset(own.gradient + written, 0, size_t((anchor_elements() - written) * int64_t(sizeof(A))));
        // Until the objectness has its gradient, its plane marks the cells that a box is assigned to.
        for (int64_t t = 0; t < truths.count; ++t)
            if (own.has(t))
                own.gradient[Loss::OBJECT * sizes.cells() + truths.all[t].cell] = 1;
        unassigned_cells(loss, own, parts);
        for (int64_t t = 0; t < truths.count; ++t)
            if (own.has(t))
                assigned_cell(loss, Prediction<T>(own, truths.all[t].cell), truths, t, parts);
    }
};

// Computes the loss and the parts of an image from the shares of its anchors.
template <typename Args>
void sum_parts(const Args &args, int64_t anchors, int64_t image)
{
    typedef typename Args::A A;
    double total[PARTS] = {};
    for (int64_t i = image * anchors; i < (image + 1) * anchors; ++i)
        for (int p = 0; p < PARTS; ++p)
            total[p] += args.partial[i * PARTS + p];

    A *parts = args.parts + image * PARTS;
    for (int p = 0; p < PARTS; ++p)
        parts[p] = A(total[p]);
    const double loss = total[COORDINATES] + total[OBJECTNESS] + total[NO_OBJECTNESS] + total[CLASSES];
    store_scalar(args.output + image, A(loss));
}

template <template <typename> class Args, typename T, typename Loss>
void head_loss_forward(const Args<T> &args, const Loss &loss)
{
    typedef HeadImage<T, Args<T>, Loss> Image;
    const MapSizes sizes = map_sizes(args);
    const int64_t batch = sizes.batch, anchors = sizes.anchors, compared = anchors + loss.other_anchors.count / 2;
    parallel_for_each(batch, args.truths * 64 * (1 + compared), [&](int64_t image) {
        args.count[image] = Image(args, loss, image).match_truths();
    });
    // The work per anchor takes as much time as moving this number of bytes.
    const int64_t bytes = sizes.cells() * (8 * args.truths + 4 * sizes.channels + 64);
    parallel_for_each(batch * anchors, bytes, [&](int64_t i) {
        Image(args, loss, i / anchors).anchor_loss(i % anchors, args.partial + i * PARTS);
    });
    for (int64_t image = 0; image < batch; ++image)
        sum_parts(args, anchors, image);
}

// Multiplies the stored gradients of the images' losses by the head gradients.
template <typename Args>
void head_loss_backward(const Args &args)
{
    typedef typename Args::A A;
    const MapSizes sizes = map_sizes(args);
    const int64_t channels = sizes.anchors * sizes.channels, cells = sizes.cells();
    const auto *output_grad = args.output_grad;
    const A *gradients = args.gradient;
    auto *results = args.data_grad;
    const int64_t bytes = cells * int64_t(sizeof(*results) + sizeof(A));
    parallel_for_each(sizes.batch * channels, bytes, [=](int64_t i) {
        const A grad_out = load_scalar(output_grad + i / channels), *gradient = gradients + i * cells;
        write_row(results + i * cells, cells, false, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
            return load(gradient + cell, mask) * grad_out;
        });
    });
}

}  // namespace gluonops::GLUONOPS_ISA
