// Softmax along an axis: a tensor seen as (outer, classes, inner), one row of classes per (outer, inner).
//
// Where inner is 1 rows lie in memory as they are, and vectors run along the row. Elsewhere vectors run across
// neighbouring rows: a block of columns, whose maxima and sums wait in the fastest cache while the classes go by.
#ifndef GLUONOPS_NATIVE_ROWS_H_
#define GLUONOPS_NATIVE_ROWS_H_

#include "kernel.h"

namespace gluonops {

struct RowSizes {
    int64_t outer, classes, inner;
};

namespace GLUONOPS_TARGET {

// The maximum of a row that is not NaN, at least the lowest finite number.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Scalar row_maximum(const T *x, int64_t classes)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { N = Simd<T>::LANES };
    const A low = lowest<A>();
    V top0 = all(low), top1 = top0, top2 = top0, top3 = top0;
    int64_t i = 0;
    for (; i + 4 * N <= classes; i += 4 * N) {
        top0 = larger(load(x + i, All()), top0);
        top1 = larger(load(x + i + N, All()), top1);
        top2 = larger(load(x + i + 2 * N, All()), top2);
        top3 = larger(load(x + i + 3 * N, All()), top3);
    }
    for (; i + N <= classes; i += N)
        top0 = larger(load(x + i, All()), top0);
    if (i < classes)
        top1 = larger(load(x + i, First{classes - i}, low), top1);
    return largest_lane(larger(larger(top0, top1), larger(top2, top3)), low);
}

// The sum over a row of term(i, lanes), in an order that only the row's length determines.
template <typename T, typename Term>
GLUONOPS_INLINE typename Simd<T>::Scalar row_sum(int64_t classes, const Term &term)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { N = Simd<T>::LANES };
    V sum0 = all(A(0)), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    int64_t i = 0;
    for (; i + 4 * N <= classes; i += 4 * N) {
        sum0 += term(i, All());
        sum1 += term(i + N, All());
        sum2 += term(i + 2 * N, All());
        sum3 += term(i + 3 * N, All());
    }
    for (; i + N <= classes; i += N)
        sum0 += term(i, All());
    if (i < classes) {
        const V rest = term(i, First{classes - i});
        for (int lane = 0; lane < N; ++lane)
            sum1[lane] += lane < classes - i ? rest[lane] : 0;
    }
    return sum_of_lanes((sum0 + sum1) + (sum2 + sum3));
}

// The sum of exp((x - top) * scale).
template <typename T, typename A>
GLUONOPS_INLINE A row_exponentials(const T *x, int64_t classes, A top, A scale)
{
    return row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
        return exponential((load(x + i, lanes, lowest<A>()) - top) * scale);
    });
}

const int64_t COLUMNS = 512;   // at most, in a block

// Blocks are as wide as keeps their logits in the second cache, and a multiple of a cache line.
template <typename T>
GLUONOPS_INLINE int64_t block_width(const RowSizes &sizes)
{
    const int64_t line = 64 / int64_t(sizeof(T)), fitting = 262144 / int64_t(sizeof(T)) / (sizes.classes + 1) / line * line;
    const int64_t width = fitting < line ? line : fitting > COLUMNS ? COLUMNS : fitting;
    return width < sizes.inner ? width : sizes.inner;
}

// visit(j, lanes) for the columns of a block, a vector at a time.
template <typename T, typename Visit>
GLUONOPS_INLINE void each_column(int64_t width, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t j = 0;
    for (; j + N <= width; j += N)
        visit(j, All());
    if (j < width)
        visit(j, First{width - j});
}

// Maxima and sums of exp((x - top) * scale) of a block of columns; the arrays are padded to whole vectors.
template <typename T, typename A>
GLUONOPS_INLINE void column_totals(const T *x, const RowSizes &sizes, int64_t width, A scale, A *top, A *sum)
{
    const int64_t inner = sizes.inner;
    const A low = lowest<A>();
    each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA {
        store(top + j, all(low), All());
        store(sum + j, all(A(0)), All());
    });
    for (int64_t c = 0; c < sizes.classes; ++c)
        each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
            store(top + j, larger(load(x + c * inner + j, lanes, low), load(top + j, All())), All());
        });
    for (int64_t c = 0; c < sizes.classes; ++c)
        each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
            const auto power = (load(x + c * inner + j, lanes, low) - load(top + j, All())) * scale;
            store(sum + j, load(sum + j, All()) + exponential(power), All());
        });
}

// body(start, width): for every block of columns, where it starts in the tensor and which rows it holds.
template <typename T, typename Body>
inline void each_block(const RowSizes &sizes, int64_t bytes_per_element, const Body &body)
{
    if (!sizes.outer || !sizes.classes || !sizes.inner)
        return;
    const int64_t widest = block_width<T>(sizes), blocks = (sizes.inner + widest - 1) / widest;
    const RowSizes s = sizes;
    parallel_for(s.outer * blocks, widest * s.classes * bytes_per_element, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t o = i / blocks, column = i % blocks * widest;
            body(o * s.classes * s.inner + column, o * s.inner + column,
                 s.inner - column < widest ? s.inner - column : widest);
        }
    });
}

// body(row): for every row, where inner is 1.
template <typename Body>
inline void each_row(const RowSizes &sizes, int64_t bytes_per_element, const Body &body)
{
    if (!sizes.classes)
        return;
    parallel_for(sizes.outer, sizes.classes * bytes_per_element, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            body(row);
        fence();
    });
}

// exp((x - max) * scale) over its sum.
template <bool PAST_CACHE, typename T>
inline void probability_rows(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const A scale = A(1) / A(temperature);
    const int64_t classes = sizes.classes;
    each_row(sizes, 2 * sizeof(T), [=](int64_t row) {
        const T *x = data + row * classes;
        const A top = row_maximum(x, classes), share = A(1) / row_exponentials(x, classes, top, scale);
        write_row<PAST_CACHE>(output + row * classes, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            return exponential((load(x + i, lanes, A(0)) - top) * scale) * share;
        });
    });
}

template <typename T>
inline void probability_columns(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const A scale = A(1) / A(temperature);
    const int64_t inner = sizes.inner;
    each_block<T>(sizes, 2 * sizeof(T), [=](int64_t start, int64_t, int64_t width) {
        alignas(64) A top[COLUMNS], sum[COLUMNS];
        A *tops = top, *sums = sum;
        column_totals(data + start, sizes, width, scale, tops, sums);
        each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(sums + j, A(1) / load(sums + j, All()), All());
        });
        for (int64_t c = 0; c < sizes.classes; ++c)
            write_row<false>(output + start + c * inner, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                const auto x = load(data + start + c * inner + j, lanes, A(0));
                return exponential((x - load(tops + j, All())) * scale) * load(sums + j, All());
            });
    });
}

template <typename T>
inline void probabilities(const RowSizes &sizes, const void *data, void *output, double temperature)
{
    const T *from = static_cast<const T *>(data);
    T *to = static_cast<T *>(output);
    if (sizes.inner != 1)
        probability_columns(sizes, from, to, temperature);
    else if (sizes.outer * sizes.classes * int64_t(sizeof(T)) >= PAST_CACHE_BYTES)
        probability_rows<true>(sizes, from, to, temperature);
    else
        probability_rows<false>(sizes, from, to, temperature);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_ROWS_H_
