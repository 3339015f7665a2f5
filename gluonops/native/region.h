// YOLOv2's map: (batch, anchors, 5 + classes, height, width), where the 5 are x, y, w, h and objectness. Vectors run along
// the cells of a plane.
#ifndef GLUONOPS_NATIVE_REGION_H_
#define GLUONOPS_NATIVE_REGION_H_

#include <vector>

#include "kernel.h"

namespace gluonops {

struct MapSizes {
    int64_t batch, anchors, classes, height, width;
    bool softmax;
    const double *anchor_sizes;   // w0, h0, w1, h1, ... in cells

    int64_t cells() const { return height * width; }
    int64_t channels() const { return 5 + classes; }
};

// The anchors have to outlive the result.
inline MapSizes map_sizes(const std::vector<int64_t> &shape, const std::vector<double> &anchors, int64_t classes,
                          bool softmax)
{
    return {shape[0], int64_t(anchors.size() / 2), classes, shape[2], shape[3], softmax, anchors.data()};
}

// What a row of truth may be.
enum Row { PADDING, BOX, NEITHER };

GLUONOPS_INLINE Row judge(double x, double y, double w, double h, double named, int64_t classes)
{
    if (x == 0 && y == 0 && w == 0 && h == 0 && named == 0)
        return PADDING;
    const bool box = x >= 0 && x <= 1 && y >= 0 && y <= 1 && w > 0 && h > 0 && w * h < 2 && named >= 0 &&
                     named < double(classes) && double(int64_t(named)) == named;
    return box ? BOX : NEITHER;   // with a NaN, neither
}

namespace GLUONOPS_TARGET {

// exp of any number, by way of its root: infinite where the result is too large, 0 where it is too small.
GLUONOPS_INLINE Floats any_exponential(Floats x)
{
    const Floats half = x * 0.5f, root = exponential(half > 44.5f ? all(44.5f) : half);
    return root * root;
}

GLUONOPS_INLINE Doubles any_exponential(Doubles x)
{
    const Doubles half = x * 0.5, root = exponential(half > 360.0 ? all(360.0) : half);
    return root * root;
}

template <typename V>
GLUONOPS_INLINE V sigmoid(V x)
{
    return 1 / (1 + any_exponential(-x));
}

GLUONOPS_INLINE float power_of_e(float x) { return __builtin_expf(x); }
GLUONOPS_INLINE double power_of_e(double x) { return __builtin_exp(x); }

// Of one number.
template <typename A>
GLUONOPS_INLINE A logistic(A x)
{
    return A(1) / (A(1) + power_of_e(-x));
}

// The columns and rows of the cells from `first` on, one per lane.
template <typename T>
struct Places {
    typename Simd<T>::Vector column, row;

    Places(int64_t first, int64_t width)
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

// visit(first, lanes) for the cells of a plane, a vector at a time.
template <typename T, typename Visit>
GLUONOPS_INLINE void each_vector(int64_t cells, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t first = 0;
    for (; first + N <= cells; first += N)
        visit(first, All());
    if (first < cells)
        visit(first, First{cells - first});
}

// The largest logit of every lane and the sum of exp(logit - largest).
template <typename T>
struct ClassTotals {
    typename Simd<T>::Vector top, sum;

    template <typename Lanes>
    GLUONOPS_INLINE ClassTotals(const T *logits, int64_t classes, int64_t stride, Lanes lanes)
    {
        typedef typename Simd<T>::Scalar A;
        top = all(lowest<A>());
        sum = all(A(0));
        for (int64_t k = 0; k < classes; ++k)
            top = larger(load(logits + k * stride, lanes, A(0)), top);
        for (int64_t k = 0; k < classes; ++k)
            sum += exponential(load(logits + k * stride, lanes, A(0)) - top);
    }
};

// Centre and size.
template <typename A>
struct Box {
    A x, y, w, h;
};

// How far two intervals overlap; negative where they do not.
template <typename A>
GLUONOPS_INLINE A common(A center, A size, A other_center, A other_size)
{
    const A low = center - size / 2, other_low = other_center - other_size / 2;
    const A high = center + size / 2, other_high = other_center + other_size / 2;
    return (high < other_high ? high : other_high) - (low > other_low ? low : other_low);
}

// 0 where boxes do not overlap.
template <typename A>
GLUONOPS_INLINE A iou_of(const Box<A> &a, const Box<A> &b)
{
    const A w = common(a.x, a.w, b.x, b.w), h = common(a.y, a.h, b.y, b.h);
    const A both = w > 0 && h > 0 ? w * h : A(0);
    return both > 0 ? both / (a.w * a.h + b.w * b.h - both) : A(0);
}

// The classes of one place.
template <typename T>
struct Logits {
    typedef typename Simd<T>::Scalar A;
    const T *first;
    int64_t stride;
    bool softmax;
    A top, log_sum;

    Logits(const T *first, int64_t classes, int64_t stride, bool softmax)
        : first(first), stride(stride), softmax(softmax), top(lowest<A>()), log_sum(0)
    {
        if (!softmax)
            return;
        A sum = 0;
        for (int64_t k = 0; k < classes; ++k)
            top = get(first + k * stride) > top ? get(first + k * stride) : top;
        for (int64_t k = 0; k < classes; ++k)
            sum += power_of_e(get(first + k * stride) - top);
        log_sum = logarithm(sum);
    }
    A probability(int64_t k) const
    {
        const A logit = get(first + k * stride);
        return softmax ? power_of_e(logit - top - log_sum) : logistic(logit);
    }
    // Its share in the cross-entropy with a target of 0 or 1.
    A surprise(int64_t k, A target) const
    {
        const A logit = get(first + k * stride);
        if (softmax)
            return target * (log_sum - (logit - top));
        const A positive = logit > 0 ? logit : A(0);
        return logarithm(power_of_e(-positive) + power_of_e(logit - positive)) + positive - logit * target;
    }
};

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_REGION_H_
