// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness. Vectors run
// along the cells of a plane. truth.cuh and region.cuh have the same for CUDA, and truth.cuh says why they are apart.
#ifndef GLUONOPS_OPS_REGION_H_
#define GLUONOPS_OPS_REGION_H_

#include "../../native/kernel.h"
#include "../_boxes/boxes.h"

namespace gluonops {

struct MapSizes {
    int64_t batch, anchors, classes, channels, height, width;   // channels of an anchor
    const double *anchor_sizes;   // w0, h0, w1, h1, ... in cells

    GLUONOPS_INLINE int64_t cells() const { return height * width; }
};

// What a row of ground truth holds. A row of zeros is padding.
enum BoxStatus { PADDING, VALID_BOX, INVALID_BOX };

GLUONOPS_INLINE BoxStatus validate_box(double x, double y, double w, double h, double class_id, int64_t classes)
{
    if (x == 0 && y == 0 && w == 0 && h == 0 && class_id == 0)
        return PADDING;
    // A NaN makes each of these false.
    const bool centre_inside = x >= 0 && x <= 1 && y >= 0 && y <= 1;
    const bool has_area = w > 0 && h > 0 && w * h < 2;
    const bool is_class = class_id >= 0 && class_id < double(classes) && double(int64_t(class_id)) == class_id;
    return centre_inside && has_area && is_class ? VALID_BOX : INVALID_BOX;
}

namespace GLUONOPS_TARGET {

template <typename Args>
MapSizes map_sizes(const Args &args)
{
    return {args.batch, args.anchors.count / 2, args.classes, args.channels, args.height, args.width,
            args.anchors.values};
}

template <typename V>
GLUONOPS_INLINE V sigmoid(V x)
{
    return 1 / (1 + full_range_exponential(-x));
}

template <typename A>
GLUONOPS_INLINE A scalar_sigmoid(A x)
{
    return A(1) / (A(1) + exponential(-x));
}

// The columns and rows of the cells from `first` on, one cell per lane.
template <typename T>
struct CellCoordinates {
    typename Simd<T>::Vector column, row;

    CellCoordinates(int64_t first, int64_t width)
    {
        typedef typename Simd<T>::Scalar A;
        int64_t i = first % width, j = first / width;
        for (int lane = 0; lane < Simd<T>::LANES; ++lane) {
            column[lane] = A(i);
            row[lane] = A(j);
            if (++i == width) {
                i = 0;
                ++j;
            }
        }
    }
};

// Calls visit(first, mask) for the cells of a plane, a vector at a time.
template <typename T, typename Visit>
GLUONOPS_INLINE void for_each_cell_vector(int64_t cells, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t first = 0;
    for (; first + N <= cells; first += N)
        visit(first, FullMask());
    if (first < cells)
        visit(first, PartialMask{cells - first});
}

// For each lane: the largest class logit, and the sum of exp(logit - max).
template <typename T>
struct ClassMaxAndSum {
    typename Simd<T>::Vector max, sum;

    template <typename Mask>
    GLUONOPS_INLINE ClassMaxAndSum(const T *logits, int64_t classes, int64_t stride, Mask mask)
    {
        typedef typename Simd<T>::Scalar A;
        max = broadcast(lowest<A>());
        sum = broadcast(A(0));
        for (int64_t k = 0; k < classes; ++k)
            max = maximum(load(logits + k * stride, mask, A(0)), max);
        for (int64_t k = 0; k < classes; ++k)
            sum += exponential(load(logits + k * stride, mask, A(0)) - max);
    }
};

// The class logits of one anchor and cell, `stride` apart.
template <typename T>
struct ClassLogits {
    typedef typename Simd<T>::Scalar A;
    const T *first;
    int64_t stride;
    bool softmax;
    A max, log_sum;   // of the softmax

    ClassLogits(const T *first, int64_t classes, int64_t stride, bool softmax)
        : first(first), stride(stride), softmax(softmax), max(lowest<A>()), log_sum(0)
    {
        if (!softmax)
            return;
        A sum = 0;
        for (int64_t k = 0; k < classes; ++k)
            max = load_scalar(first + k * stride) > max ? load_scalar(first + k * stride) : max;
        for (int64_t k = 0; k < classes; ++k)
            sum += exponential(load_scalar(first + k * stride) - max);
        log_sum = logarithm(sum);
    }

    A probability(int64_t k) const
    {
        const A logit = load_scalar(first + k * stride);
        return softmax ? exponential(logit - max - log_sum) : scalar_sigmoid(logit);
    }

    // The negative log-likelihood of class k, given its target of 0 or 1.
    A nll(int64_t k, A target) const
    {
        const A logit = load_scalar(first + k * stride);
        if (softmax)
            return target * (log_sum - (logit - max));
        const A positive = logit > 0 ? logit : A(0);
        const A sum = exponential(-positive) + exponential(logit - positive);
        return logarithm(sum) + positive - logit * target;
    }
};

// The gradient of a map: that of each image's loss, in the accumulator's type, times the head gradient of the image.
template <typename T, typename A>
void scale_gradient(const MapSizes &sizes, const T *heads, const A *gradients, T *results)
{
    const int64_t channels = sizes.anchors * sizes.channels, cells = sizes.cells();
    parallel_for(sizes.batch * channels, cells * int64_t(sizeof(T) + sizeof(A)), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const A head = load_scalar(heads + i / channels), *gradient = gradients + i * cells;
            write_row(results + i * cells, cells, false, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
                return load(gradient + cell, mask, A(0)) * head;
            });
        }
    });
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_OPS_REGION_H_
