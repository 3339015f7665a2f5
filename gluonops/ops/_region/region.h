// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness. Vectors run
// along the cells of a plane.
#pragma once

#include "../../native/kernel.h"
#include "../_boxes/boxes.h"

namespace gluonops {

struct MapSizes {
    int64_t batch, anchors, classes, channels, height, width;   // channels of an anchor
    const double *anchor_sizes;   // w0, h0, w1, h1, ... in cells

    GLUONOPS_INLINE int64_t cells() const { return height * width; }
};

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

#include "class_logits.inl"

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
