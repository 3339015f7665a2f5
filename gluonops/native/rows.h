// Softmax along an axis: a tensor seen as (outer, classes, inner), one row of classes per (outer, inner).
//
// Where inner is 1 rows lie in memory as they are, and vectors run along the row. Elsewhere vectors run across
// neighbouring rows: a block of columns, whose maxima and sums wait in the fastest cache while the classes go by.
#ifndef GLUONOPS_NATIVE_ROWS_H_
#define GLUONOPS_NATIVE_ROWS_H_

#include <vector>

#include "kernel.h"

namespace gluonops {

struct RowSizes {
    int64_t outer, classes, inner;
};

// A shape seen from the axis of the classes, which may count from the back.
inline RowSizes row_sizes(const std::vector<int64_t> &shape, int64_t axis)
{
    const int64_t ndim = int64_t(shape.size()), place = axis < 0 ? axis + ndim : axis;
    RowSizes sizes = {1, shape[size_t(place)], 1};
    for (int64_t i = 0; i < place; ++i)
        sizes.outer *= shape[size_t(i)];
    for (int64_t i = place + 1; i < ndim; ++i)
        sizes.inner *= shape[size_t(i)];
    return sizes;
}

namespace GLUONOPS_TARGET {

// What (x - max) is multiplied with: finite, so that the largest is 0 whatever the temperature.
template <typename A>
GLUONOPS_INLINE A inverse(double temperature)
{
    const A scale = A(1) / A(temperature), largest = -lowest<A>();
    return scale < largest ? scale : largest;
}

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

// The sum of exp((x - top) * scale); each power is also put into powers, if that is not null. While the processor
// computes, it fetches the row behind this one.
template <bool STORE, typename T, typename A>
GLUONOPS_INLINE A row_exponentials(const T *x, int64_t classes, A top, A scale, A *powers = nullptr)
{
    return row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
        __builtin_prefetch(x + i + classes);
        const auto power = exponential((load(x + i, lanes, lowest<A>()) - top) * scale);
        if (STORE)
            store(powers + i, power, lanes);
        return power;
    });
}

const int64_t COLUMNS = 512;   // at most, in a block
const int64_t SCRATCH_BYTES = 1 << 20;

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

// As each_column, but up to four vectors at a time, visit(j, lanes, Tile<count>()): what a visit keeps in registers
// while the classes go by.
template <int COUNT> struct Tile { enum { VECTORS = COUNT }; };

template <typename T, typename Visit>
GLUONOPS_INLINE void each_tile(int64_t width, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t j = 0;
    for (; j + 4 * N <= width; j += 4 * N)
        visit(j, All(), Tile<4>());
    for (; j + N <= width; j += N)
        visit(j, All(), Tile<1>());
    if (j < width)
        visit(j, First{width - j}, Tile<1>());
}

// Maxima and sums of exp((x - top) * scale) of a block of columns; the arrays are padded to whole vectors. The powers
// are also put into a (classes, width) array, if that is not null.
template <bool STORE, typename T, typename A>
GLUONOPS_INLINE void column_totals(const T *x, const RowSizes &sizes, int64_t width, A scale, A *top, A *sum,
                                   A *powers = nullptr)
{
    typedef typename Simd<T>::Vector V;
    enum { N = Simd<T>::LANES };
    const int64_t inner = sizes.inner, classes = sizes.classes;
    const A low = lowest<A>();
    each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA { store(top + j, all(low), All()); });
    for (int64_t c = 0; c < classes; ++c)
        each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
            store(top + j, larger(load(x + c * inner + j, lanes, low), load(top + j, All())), All());
        });
    each_tile<T>(width, [=](int64_t j, auto lanes, auto tile) GLUONOPS_LAMBDA {
        enum { VECTORS = decltype(tile)::VECTORS };
        V tops[VECTORS], sums[VECTORS];
        for (int v = 0; v < VECTORS; ++v) {
            tops[v] = load(top + j + v * N, All());
            sums[v] = all(A(0));
        }
        for (int64_t c = 0; c < classes; ++c)
            for (int v = 0; v < VECTORS; ++v) {
                const V power = exponential((load(x + c * inner + j + v * N, lanes, low) - tops[v]) * scale);
                if (STORE)
                    store(powers + c * width + j + v * N, power, lanes);
                sums[v] += power;
            }
        for (int v = 0; v < VECTORS; ++v)
            store(sum + j + v * N, sums[v], All());
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
        fence();
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

// A thread's memory for the powers of what it works on; none where they would not stay in the cache, or there is none.
template <typename A>
struct Scratch {
    A *memory;

    explicit Scratch(int64_t items)
        : memory(items * int64_t(sizeof(A)) > SCRATCH_BYTES ? nullptr
                                                            : static_cast<A *>(malloc(size_t(items) * sizeof(A)))) {}
    ~Scratch() { free(memory); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
};

// exp((x - max) * scale) over its sum. Powers are computed once, or twice where there is no scratch memory.
template <bool PAST_CACHE, typename T>
inline void probability_rows(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const A scale = inverse<A>(temperature);
    const int64_t classes = sizes.classes;
    if (!classes)
        return;
    parallel_for(sizes.outer, 2 * classes * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        const Scratch<A> scratch(classes);
        A *powers = scratch.memory;
        for (int64_t row = begin; row < end; ++row) {
            const T *x = data + row * classes;
            T *y = output + row * classes;
            const A top = row_maximum(x, classes);
            if (powers) {
                const A share = A(1) / row_exponentials<true>(x, classes, top, scale, powers);
                write_row<PAST_CACHE>(y, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                    return load(powers + i, lanes, A(0)) * share;
                });
            } else {
                const A share = A(1) / row_exponentials<false>(x, classes, top, scale);
                write_row<PAST_CACHE>(y, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                    return exponential((load(x + i, lanes, A(0)) - top) * scale) * share;
                });
            }
        }
        fence();
    });
}

template <bool PAST_CACHE, typename T>
inline void probability_columns(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const A scale = inverse<A>(temperature);
    const int64_t inner = sizes.inner, classes = sizes.classes;
    if (!sizes.outer || !classes || !inner)
        return;
    const int64_t widest = block_width<T>(sizes), blocks = (inner + widest - 1) / widest;
    parallel_for(sizes.outer * blocks, 2 * widest * classes * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        alignas(64) A top[COLUMNS], sum[COLUMNS];
        A *tops = top, *sums = sum;
        const Scratch<A> scratch(classes * widest);
        A *powers = scratch.memory;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t column = i % blocks * widest, start = i / blocks * classes * inner + column;
            const int64_t width = inner - column < widest ? inner - column : widest;
            if (powers)
                column_totals<true>(data + start, sizes, width, scale, tops, sums, powers);
            else
                column_totals<false>(data + start, sizes, width, scale, tops, sums);
            each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA {
                store(sums + j, A(1) / load(sums + j, All()), All());
            });
            for (int64_t c = 0; c < classes; ++c) {
                const T *x = data + start + c * inner;
                T *y = output + start + c * inner;
                if (powers)
                    write_row<PAST_CACHE>(y, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                        return load(powers + c * width + j, lanes, A(0)) * load(sums + j, lanes, A(0));
                    });
                else
                    write_row<PAST_CACHE>(y, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                        return exponential((load(x + j, lanes, A(0)) - load(tops + j, lanes, A(0))) * scale) *
                               load(sums + j, lanes, A(0));
                    });
            }
        }
        fence();
    });
}

// Whether to write the results of a call past the caches: large ones, in long enough runs.
template <typename T>
GLUONOPS_INLINE bool past_cache(const RowSizes &sizes)
{
    return sizes.outer * sizes.classes * sizes.inner * int64_t(sizeof(T)) >= PAST_CACHE_BYTES &&
           (sizes.inner == 1 ? sizes.classes : block_width<T>(sizes)) * int64_t(sizeof(T)) >= 512;
}

template <typename T>
inline void probabilities(const RowSizes &sizes, const void *data, void *output, double temperature)
{
    const T *from = static_cast<const T *>(data);
    T *to = static_cast<T *>(output);
    if (past_cache<T>(sizes))
        sizes.inner == 1 ? probability_rows<true>(sizes, from, to, temperature)
                         : probability_columns<true>(sizes, from, to, temperature);
    else
        sizes.inner == 1 ? probability_rows<false>(sizes, from, to, temperature)
                         : probability_columns<false>(sizes, from, to, temperature);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_ROWS_H_
