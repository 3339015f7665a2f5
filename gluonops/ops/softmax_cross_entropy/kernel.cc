// softmax_cross_entropy on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the
// logits' (read, write); dense labels' as often. What is read again after a reduction is still in the cache.
//
// A row's target is keep * label + spread: label is 1 at the class and 0 elsewhere where labels are sparse.
#include "generated/softmax_cross_entropy.h"
#include "../../native/rows.h"

namespace gluonops {

struct SoftmaxCrossEntropyCall {
    int type;
    RowSizes sizes;
    bool sparse;
    Labels labels;             // sparse
    const void *dense;         // dense
    double smoothing;
    const void *data;
    void *output, *max, *log_sum;                  // backward reads max and log_sum
    const void *output_grad;                       // backward
    void *data_grad, *label_grad;                  // backward; label_grad with dense labels only
};

namespace GLUONOPS_TARGET {
namespace {

// The call in the types of one instantiation. A is what T computes in; it is also the type of max and log_sum.
template <typename T>
struct Typed {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    bool sparse, smooth;
    Labels labels;
    A keep, spread, smoothing;
    const T *data, *dense, *output_grad;
    T *output, *data_grad, *label_grad;
    A *max, *log_sum;

    explicit Typed(const SoftmaxCrossEntropyCall &call)
        : sizes(call.sizes), sparse(call.sparse), smooth(call.smoothing > 0), labels(call.labels),
          keep(A(1 - call.smoothing)), spread(A(call.smoothing / double(call.sizes.classes))),
          smoothing(A(call.smoothing)), data(static_cast<const T *>(call.data)),
          dense(static_cast<const T *>(call.dense)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          label_grad(static_cast<T *>(call.label_grad)), max(static_cast<A *>(call.max)),
          log_sum(static_cast<A *>(call.log_sum)) {}
};

template <typename T>
void forward_rows(const Typed<T> &call)
{
    typedef typename Simd<T>::Scalar A;
    const Typed<T> k = call;
    const int64_t classes = k.sizes.classes;
    each_row(k.sizes, (k.sparse ? 1 : 2) * sizeof(T), [=](int64_t row) {
        const int64_t named = k.sparse ? class_of(k.labels, row, classes) : NO_CLASS;
        const T *x = k.data + row * classes;
        if (named == IGNORED) {   // counts as a row of zeros, whatever it holds
            put(k.output + row, A(0));
            k.max[row] = 0;
            k.log_sum[row] = logarithm(A(classes));
            return;
        }
        const A top = row_maximum(x, classes);
        const A log_all = logarithm(row_exponentials<false>(x, classes, top, A(1)));
        A loss = 0;
        if (!k.sparse) {
            const T *q = k.dense + row * classes;
            const A keep = k.keep, spread = k.spread;
            loss = row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                return (keep * load(q + i, lanes, A(0)) + spread) * (log_all - (load(x + i, lanes, A(0)) - top));
            });
        } else if (named == NO_CLASS) {
            loss = not_a_number<A>();
        } else {
            if (k.smooth)
                loss = k.spread * row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                    return log_all - (load(x + i, lanes, A(0)) - top);
                });
            loss += k.keep * (log_all - (get(x + named) - top));
        }
        put(k.output + row, loss);
        k.max[row] = top;
        k.log_sum[row] = log_all;
    });
}

template <typename T>
void forward_columns(const Typed<T> &call)
{
    typedef typename Simd<T>::Scalar A;
    const Typed<T> k = call;
    const int64_t classes = k.sizes.classes, inner = k.sizes.inner;
    each_block<T>(k.sizes, (k.sparse ? 1 : 2) * sizeof(T), [=](int64_t start, int64_t first_row, int64_t width) {
        alignas(64) A top[COLUMNS], log_all[COLUMNS], loss[COLUMNS];
        A *tops = top, *logs = log_all, *losses = loss;
        const T *x = k.data + start;
        column_totals<false>(x, k.sizes, width, A(1), tops, logs);
        for (int64_t j = 0; j < width; ++j)
            logs[j] = logarithm(logs[j]);
        each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA { store(losses + j, all(A(0)), All()); });
        if (!k.sparse || k.smooth)
            for (int64_t c = 0; c < classes; ++c)
                each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                    const auto surprise = load(logs + j, All()) -
                                          (load(x + c * inner + j, lanes, A(0)) - load(tops + j, All()));
                    auto target = all(k.spread);
                    if (!k.sparse)
                        target += k.keep * load(k.dense + start + c * inner + j, lanes, A(0));
                    store(losses + j, load(losses + j, All()) + target * surprise, All());
                });
        for (int64_t j = 0; j < width; ++j) {
            const int64_t row = first_row + j, named = k.sparse ? class_of(k.labels, row, classes) : 0;
            if (k.sparse && named >= 0)
                losses[j] += k.keep * (logs[j] - (get(x + named * inner + j) - tops[j]));
            if (named == NO_CLASS)
                losses[j] = not_a_number<A>();
            put(k.output + row, named == IGNORED ? A(0) : losses[j]);
            k.max[row] = named == IGNORED ? A(0) : tops[j];
            k.log_sum[row] = named == IGNORED ? logarithm(A(classes)) : logs[j];
        }
    });
}

template <bool PAST_CACHE, typename T>
void backward_rows(const Typed<T> &call)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const Typed<T> k = call;
    const int64_t classes = k.sizes.classes;
    each_row(k.sizes, (k.sparse ? 2 : 4) * sizeof(T), [=](int64_t row) {
        const T *x = k.data + row * classes;
        T *grad = k.data_grad + row * classes;
        const A head = get(k.output_grad + row), top = k.max[row], log_all = k.log_sum[row];
        const A keep = k.keep, spread = k.spread;
        if (!k.sparse) {
            const T *q = k.dense + row * classes;
            const A mass = row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                return keep * load(q + i, lanes, A(0)) + spread;
            });
            write_row<PAST_CACHE>(grad, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                const auto p = exponential(load(x + i, lanes, A(0)) - top - log_all);
                return head * (mass * p - (keep * load(q + i, lanes, A(0)) + spread));
            });
            write_row<PAST_CACHE>(k.label_grad + row * classes, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                return -keep * head * (load(x + i, lanes, A(0)) - top - log_all);
            });
            return;
        }
        const int64_t named = class_of(k.labels, row, classes);
        if (named < 0) {   // whatever the row or the head gradient holds
            const A value = named == IGNORED ? A(0) : not_a_number<A>();
            write_row<PAST_CACHE>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return all(value); });
            return;
        }
        write_row<PAST_CACHE>(grad, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            auto v = exponential(load(x + i, lanes, A(0)) - top - log_all) - spread;
            if (uint64_t(named - i) < N)
                v[named - i] -= keep;
            return v * head;
        });
    });
}

template <bool PAST_CACHE, typename T>
void backward_columns(const Typed<T> &call)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const Typed<T> k = call;
    const int64_t classes = k.sizes.classes, inner = k.sizes.inner;
    each_block<T>(k.sizes, (k.sparse ? 2 : 4) * sizeof(T), [=](int64_t start, int64_t first_row, int64_t width) {
        alignas(64) A head[COLUMNS], shift[COLUMNS], mass[COLUMNS];
        alignas(64) Index name[COLUMNS];
        A *heads = head, *shifts = shift, *masses = mass;
        Index *names = name;
        for (int64_t j = 0; j < width; ++j) {
            const int64_t row = first_row + j, named = k.sparse ? class_of(k.labels, row, classes) : 0;
            names[j] = Index(named);
            heads[j] = named == NO_CLASS ? not_a_number<A>() : get(k.output_grad + row);
            masses[j] = A(k.sparse);
            shifts[j] = k.log_sum[row];
        }
        if (!k.sparse)
            for (int64_t c = 0; c < classes; ++c)
                each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                    const auto target = k.keep * load(k.dense + start + c * inner + j, lanes, A(0)) + k.spread;
                    store(masses + j, load(masses + j, All()) + target, All());
                });
        const A *tops = k.max + first_row;
        for (int64_t c = 0; c < classes; ++c) {
            const int64_t line = start + c * inner;
            write_row<PAST_CACHE>(k.data_grad + line, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                const auto zero = all(A(0));
                const auto p = exponential(load(k.data + line + j, lanes, A(0)) - load(tops + j, lanes, A(0)) -
                                           load(shifts + j, All()));
                if (!k.sparse)
                    return load(heads + j, All()) * (load(masses + j, All()) * p -
                                                     (k.keep * load(k.dense + line + j, lanes, A(0)) + k.spread));
                typename Simd<T>::Indices named;
                memcpy(&named, names + j, WIDTH);
                const auto target = (named == Index(c) ? all(k.keep) : zero) + k.spread;
                const auto grad = load(heads + j, All()) * (p - target);
                return named == Index(IGNORED) ? zero : grad;
            });
            if (!k.sparse)
                write_row<PAST_CACHE>(k.label_grad + line, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                    return -k.keep * load(heads + j, All()) *
                           (load(k.data + line + j, lanes, A(0)) - load(tops + j, lanes, A(0)) -
                            load(shifts + j, All()));
                });
        }
    });
}

template <typename T>
void forward(const SoftmaxCrossEntropyCall &call)
{
    const Typed<T> typed(call);
    if (call.sizes.inner == 1)
        forward_rows(typed);
    else
        forward_columns(typed);
}

template <typename T>
void backward(const SoftmaxCrossEntropyCall &call)
{
    const Typed<T> typed(call);
    if (past_cache<T>(call.sizes))
        call.sizes.inner == 1 ? backward_rows<true>(typed) : backward_columns<true>(typed);
    else
        call.sizes.inner == 1 ? backward_rows<false>(typed) : backward_columns<false>(typed);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxCrossEntropyCall adapt(const SoftmaxCrossEntropyAttrs &attrs, const SoftmaxCrossEntropyTensors &tensors,
                                     Workspace &)
{
    SoftmaxCrossEntropyCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.sparse = attrs.sparse_label;
    call.labels = {tensors.label.data, tensors.label.type, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.dense = tensors.label.data;
    call.smoothing = attrs.smoothing;
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    call.label_grad = tensors.label_grad.data;
    return call;
}

}  // namespace gluonops
