// What the losses of YOLO's maps share on the CPU. An operator supplies image_of(index), whose result has
//
//     int64_t match_truths() const                              assigns its ground truth; see match_truths() below
//     void anchor_loss(int64_t anchor, double *parts) const     an anchor's planes of the gradient, and its parts
#pragma once

#include "region.h"

namespace gluonops {

#include "parts.inl"

const int64_t INVALID_IMAGE = -1;   // the count of an image with a row that is neither a box nor padding

namespace GLUONOPS_TARGET {

#include "ground_truth.inl"

// Assigns the boxes of an image to the cells of a point, and to the anchors that best_anchor(w, h, cell) names. The point
// lies `shift` boxes up and to the left of the centre. Returns the number of boxes, or INVALID_IMAGE.
template <typename T, typename BestAnchor>
int64_t match_truths(const MapSizes &sizes, const T *rows, int64_t truths, MatchedBox *boxes,
                     const BestAnchor &best_anchor, typename Simd<T>::Scalar shift = 0)
{
    typedef typename Simd<T>::Scalar A;
    int64_t count = 0;
    for (int64_t t = 0; sizes.cells() && t < truths; ++t) {
        const GroundTruth<A> truth(rows, t, sizes.classes, sizes.height, sizes.width, shift);
        if (truth.padding)
            continue;
        if (!truth.valid)
            return INVALID_IMAGE;
        const Box<A> &box = truth.box;
        const int64_t cell = truth.row * sizes.width + truth.column;
        boxes[count++] = {box.x, box.y, box.w, box.h, int64_t(truth.class_id), best_anchor(box.w, box.h, cell), cell,
                          false};
    }
    return count;
}

// Begins an anchor's share. Where the image is invalid, its parts and all elements of its gradient are NaN, and that
// is all. Returns whether it is valid.
template <typename T, typename A>
bool begin_share(int64_t count, A *gradient, int64_t elements, double *parts)
{
    const bool is_valid = count != INVALID_IMAGE;
    for (int p = 0; p < PARTS; ++p)
        parts[p] = is_valid ? 0 : not_a_number<double>();
    if (!is_valid)
        write_row(gradient, elements, false, [](int64_t, auto) GLUONOPS_LAMBDA {
            return broadcast(not_a_number<A>());
        });
    return is_valid;
}

// The largest IoU of each of a vector of boxes with one of the ground truth.
template <typename T, typename V>
GLUONOPS_INLINE V largest_iou(V x, V y, V w, V h, const MatchedBox *truths, int64_t count)
{
    typedef typename Simd<T>::Scalar A;
    const V left = x - w / 2, right = x + w / 2, top = y - h / 2, bottom = y + h / 2;
    const V area = w * h, zero = broadcast(A(0));
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

// The loss and the parts of an image from its anchors' shares.
template <template <typename> class Args, typename T>
void sum_parts(const Args<T> &args, int64_t anchors, int64_t image)
{
    typedef typename Simd<T>::Scalar A;
    double total[PARTS] = {};
    for (int64_t i = image * anchors; i < (image + 1) * anchors; ++i)
        for (int p = 0; p < PARTS; ++p)
            total[p] += args.partial[i * PARTS + p];

    A *parts = args.parts + image * PARTS;
    for (int p = 0; p < PARTS; ++p)
        parts[p] = A(total[p]);
    const double loss = total[COORDINATES] + total[OBJECTNESS] + total[NO_OBJECTNESS] + total[CLASS_PART];
    store_scalar(args.output + image, A(loss));
}

// Each ground truth is compared with `compared_anchors` sizes.
template <typename Args, typename ImageOf>
void map_loss_forward(const Args &args, int64_t compared_anchors, const ImageOf &image_of)
{
    const MapSizes sizes = map_sizes(args);
    const int64_t batch = sizes.batch, anchors = sizes.anchors, cells = sizes.cells();
    parallel_for(batch, args.truths * 64 * (1 + compared_anchors), [&](int64_t begin, int64_t end) {
        for (int64_t image = begin; image < end; ++image)
            args.count[image] = image_of(image).match_truths();
    });
    // The work per anchor takes as much time as moving so many bytes.
    const int64_t bytes = cells * (8 * args.truths + 4 * sizes.channels + 64);
    parallel_for(batch * anchors, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            image_of(i / anchors).anchor_loss(i % anchors, args.partial + i * PARTS);
    });
    for (int64_t image = 0; image < batch; ++image)
        sum_parts(args, anchors, image);
}

// The stored gradients of the images' losses, times the head gradients.
template <typename Args>
void map_loss_backward(const Args &args)
{
    scale_gradient(map_sizes(args), args.output_grad, args.gradient, args.data_grad);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
