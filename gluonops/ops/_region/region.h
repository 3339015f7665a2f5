// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness. Vectors run
// along the cells of a plane.
#pragma once

#include "../../native/kernel.h"
#include "../_boxes/boxes.h"

namespace gluonops::GLUONOPS_ISA {

struct MapSizes {
    int64_t batch, anchors, classes, channels, height, width;   // channels of an anchor
    const double *anchor_sizes;   // w0, h0, w1, h1, ... in cells

    GLUONOPS_INLINE int64_t cells() const { return height * width; }
};

template <typename Args>
MapSizes map_sizes(const Args &args)
{
    return {args.batch, args.anchors.count / 2, args.classes, args.channels, args.height, args.width,
            args.anchors.values};
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

}  // namespace gluonops::GLUONOPS_ISA
