// Boxes in C++: what boxes.inl says, for numbers and for vectors, and rows of boxes as vectors.
#pragma once

#include "../../native/kernel.h"

namespace gluonops::GLUONOPS_ISA {

#include "boxes.inl"

template <> struct Lanes<Floats> {
    typedef Ints Mask;
    static GLUONOPS_INLINE Floats all(double x) { return broadcast(float(x)); }
};

template <> struct Lanes<Doubles> {
    typedef Longs Mask;
    static GLUONOPS_INLINE Doubles all(double x) { return broadcast(x); }
};

GLUONOPS_INLINE int64_t lane_count(FullMask, int64_t lanes) { return lanes; }
GLUONOPS_INLINE int64_t lane_count(PartialMask mask, int64_t) { return mask.lanes; }

// Returns a box per lane, from rows of four numbers. Lanes beyond the mask are zeros.
template <typename T, typename Mask>
GLUONOPS_INLINE BoxRow<typename Simd<T>::Vector> load_boxes(const T *from, Mask mask)
{
    typedef typename Simd<T>::Scalar A;
    enum { LANES = Simd<T>::LANES };
    alignas(64) A numbers[4][LANES] = {};
    const int64_t count = lane_count(mask, LANES);
    for (int64_t lane = 0; lane < count; ++lane)
        for (int n = 0; n < 4; ++n)
            numbers[n][lane] = load_scalar(from + 4 * lane + n);
    BoxRow<typename Simd<T>::Vector> row;
    for (int n = 0; n < 4; ++n)
        row.numbers[n] = load(numbers[n]);
    return row;
}

template <typename T, typename Mask>
GLUONOPS_INLINE void store_boxes(T *to, const BoxRow<typename Simd<T>::Vector> &row, Mask mask)
{
    const int64_t count = lane_count(mask, Simd<T>::LANES);
    for (int64_t lane = 0; lane < count; ++lane)
        for (int n = 0; n < 4; ++n)
            store_scalar(to + 4 * lane + n, row.numbers[n][lane]);
}

}  // namespace gluonops::GLUONOPS_ISA
