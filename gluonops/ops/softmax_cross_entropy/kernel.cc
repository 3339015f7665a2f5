// softmax_cross_entropy on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the
// logits' (read, write); dense labels' as often. What is read again after a reduction is still in the cache.
//
// A row's target distribution is label_weight * label + uniform: with sparse labels, label is 1 at the class and 0
// elsewhere. With class weights each number of it is multiplied by the weight of its class.
#include "generated/softmax_cross_entropy.h"
#include "../../native/simd/logarithm.h"
#include "../_labels/labels.h"
#include "../_softmax/short_softmax.h"

namespace gluonops {

struct SoftmaxCrossEntropyCall {
    int type;
    RowSizes sizes;
    bool sparse;
    Labels labels;             // sparse
    const void *dense;         // dense
    double smoothing;
    ClassWeights weights;
    const void *data;
    void *output, *max, *log_sum;                  // backward reads max and log_sum
    const void *output_grad;                       // backward
    void *data_grad, *label_grad;                  // backward; label_grad with dense labels only
};

namespace GLUONOPS_TARGET {
namespace {

// The call with typed pointers. A is what T computes in, and the type of max and log_sum.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    bool sparse, smooth;
    Labels labels;
    A label_weight, uniform, smoothing;
    const A *weights;   // of the classes; null without
    A weight_sum;
    const T *data, *dense, *output_grad;
    T *output, *data_grad, *label_grad;
    A *max, *log_sum;

    explicit TypedCall(const SoftmaxCrossEntropyCall &call)
        : sizes(call.sizes), sparse(call.sparse), smooth(call.smoothing > 0), labels(call.labels),
          label_weight(A(1 - call.smoothing)), uniform(A(call.smoothing / double(call.sizes.length))),
          smoothing(A(call.smoothing)), weights(static_cast<const A *>(call.weights.values)),
          weight_sum(A(call.weights.sum)), data(static_cast<const T *>(call.data)),
          dense(static_cast<const T *>(call.dense)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          label_grad(static_cast<T *>(call.label_grad)), max(static_cast<A *>(call.max)),
          log_sum(static_cast<A *>(call.log_sum)) {}

    GLUONOPS_INLINE A weight_of(int64_t class_id) const { return weights ? weights[class_id] : A(1); }
};

// Whether labels are classes, all of the same weight.
template <typename T>
GLUONOPS_INLINE bool is_plain(const TypedCall<T> &call)
{
    return call.sparse && !call.weights;
}

// The weights of the classes from i on.
template <bool WEIGHTED, typename T, typename Mask>
GLUONOPS_INLINE typename Simd<T>::Vector weights_at(const TypedCall<T> &call, int64_t i, Mask mask)
{
    typedef typename Simd<T>::Scalar A;
    if constexpr (WEIGHTED)
        return load(call.weights + i, mask, A(0));
    else
        return broadcast(A(1));
}

template <bool WEIGHTED, typename T>
void forward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, (call.sparse ? 1 : 2) * sizeof(T), [=](int64_t row) {
        const int64_t class_id = call.sparse ? class_of(call.labels, row, classes) : NO_CLASS;
        const T *logits = call.data + row * classes;
        if (class_id == IGNORED) {   // counts as a row of zeros, whatever it holds
            store_scalar(call.output + row, A(0));
            call.max[row] = 0;
            call.log_sum[row] = logarithm(A(classes));
            return;
        }
        const A max = row_max(logits, classes);
        const A log_sum = logarithm(row_exponentials<false>(logits, classes, max, A(1)));
        A loss = 0;
        if (!call.sparse) {
            const T *label = call.dense + row * classes;
            const A label_weight = call.label_weight, uniform = call.uniform;
            loss = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                const auto nll = log_sum - (load(logits + i, mask, A(0)) - max);
                return target * weights_at<WEIGHTED>(call, i, mask) * nll;
            });
        } else if (class_id == NO_CLASS) {
            loss = not_a_number<A>();
        } else {
            if (call.smooth)
                loss = call.uniform * row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                    const auto nll = log_sum - (load(logits + i, mask, A(0)) - max);
                    return nll * weights_at<WEIGHTED>(call, i, mask);
                });
            const A nll = log_sum - (load_scalar(logits + class_id) - max);
            loss += call.label_weight * call.weight_of(class_id) * nll;
        }
        store_scalar(call.output + row, loss);
        call.max[row] = max;
        call.log_sum[row] = log_sum;
    });
}

// The end of the forward pass for neighbouring rows: adds the label's share to each loss, and stores what there is of a
// row. logit(j, class_id) is the j-th row's logit of its class. An ignored row counts as a row of zeros, whatever it
// holds.
template <typename T, typename Index, typename A, typename Logit>
GLUONOPS_INLINE void store_losses(const TypedCall<T> &call, int64_t first_row, int64_t rows, const Index *class_ids,
                                  const A *max, const A *log_sum, A *loss, const Logit &logit)
{
    const A log_of_zeros = logarithm(A(call.sizes.length));
    for (int64_t j = 0; j < rows; ++j) {
        const int64_t row = first_row + j, class_id = call.sparse ? class_ids[j] : NO_CLASS;
        if (class_id >= 0)
            loss[j] += call.label_weight * call.weight_of(class_id) * (log_sum[j] - (logit(j, class_id) - max[j]));
        else if (call.sparse)
            loss[j] = class_id == IGNORED ? A(0) : not_a_number<A>();
        store_scalar(call.output + row, loss[j]);
        call.max[row] = class_id == IGNORED ? A(0) : max[j];
        call.log_sum[row] = class_id == IGNORED ? log_of_zeros : log_sum[j];
    }
}

template <typename T>
void forward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_columns<false, T>(call.sizes, call.sparse ? 1 : 2, [=](ColumnBlock<T> &block) {
        Index class_ids[MAX_BLOCK_COLUMNS];
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS], loss_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *log_sum = log_sum_buffer, *loss = loss_buffer;
        const T *logits = block.read(call.data), *labels = call.sparse ? nullptr : block.read(call.dense);
        const ColumnLines<T> lines = block.lines;
        const int64_t columns = block.columns, pitch = lines.pitch;

        column_max_and_sum<false>(logits, lines, A(1), max, log_sum);
        logarithms(log_sum, columns);
        lines.spread(log_sum);

        for_each_column<T>(lines.lanes(), [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(loss + j, broadcast(A(0)), FullMask());
        });
        if (!call.sparse || call.smooth) {
            lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
                const int64_t line = number * pitch;
                const A weight = call.weight_of(number);
                for_each_column<T>(width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto shifted = load(logits + line + j, mask, A(0)) - load(max + j, FullMask());
                    const auto nll = load(log_sum + j, FullMask()) - shifted;
                    auto target = broadcast(call.uniform);
                    if (!call.sparse)
                        target += call.label_weight * load(labels + line + j, mask, A(0));
                    const auto sum = load(loss + j, mask, A(0)) + target * weight * nll;
                    store(loss + j, sum, mask);
                });
            });
            lines.fold_sums(loss);
        }

        if (call.sparse)
            classes_of(call.labels, block.first_row, columns, classes, class_ids);
        const int64_t step = block.step;
        store_losses(call, block.first_row, columns, class_ids, max, log_sum, loss,
                     [=](int64_t j, int64_t class_id) GLUONOPS_LAMBDA {
            return load_scalar(logits + class_id * step + j);
        });
    }, !call.weights);   // a class weight is one number for all of a line
}

template <int INNER, typename T>
void forward_short_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    typedef ShortRows<T, INNER> Block;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_short_rows<T, INNER>(call.sizes, 1, [=](const Block &block) {
        Index class_ids[Block::ROOM];
        alignas(64) A max_buffer[Block::ROOM], log_sum_buffer[Block::ROOM], loss[Block::ROOM] = {};
        A *max = max_buffer, *log_sum = log_sum_buffer, *scratch = block.scratch;
        const T *logits = call.data + block.start;
        short_row_exponentials(logits, block, A(1), max, log_sum);
        logarithms(log_sum, block.rows);
        if (call.smooth) {
            block.each([=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
                const auto nll = lanes.of(log_sum) - (load(logits + i, mask, A(0)) - lanes.of(max));
                store(scratch + i, call.uniform * nll, mask);
            });
            block.sum(loss, scratch);
        }
        classes_of(call.labels, block.first_row, block.rows, classes, class_ids);
        store_losses(call, block.first_row, block.rows, class_ids, max, log_sum, loss,
                     [=](int64_t j, int64_t class_id) GLUONOPS_LAMBDA {
            return load_scalar(logits + (j / INNER * classes + class_id) * INNER + j % INNER);
        });
    });
}

template <bool STREAMING, int INNER, typename T>
void backward_short_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    typedef ShortRows<T, INNER> Block;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_short_rows<T, INNER>(call.sizes, 2, [=](const Block &block) {
        Index label_buffer[Block::ROOM] = {};   // which of the block's elements a label names
        alignas(64) A max_buffer[Block::ROOM], log_sum_buffer[Block::ROOM], head_buffer[Block::ROOM];
        A *max = max_buffer, *log_sum = log_sum_buffer, *head = head_buffer;
        Index *labelled = label_buffer;
        const T *logits = call.data + block.start, *head_grads = call.output_grad + block.first_row;
        memcpy(max, call.max + block.first_row, size_t(block.rows) * sizeof(A));
        memcpy(log_sum, call.log_sum + block.first_row, size_t(block.rows) * sizeof(A));
        classes_of(call.labels, block.first_row, block.rows, classes, labelled);
        for_each_column<T>(block.rows, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            typename Simd<T>::Indices class_id;
            memcpy(&class_id, labelled + j, WIDTH);
            const auto row = lane_numbers<T>() + Index(j);
            const auto element = (row / INNER * Index(classes) + class_id) * INNER + row % INNER;
            const auto place = class_id >= 0 ? element : class_id;
            memcpy(labelled + j, &place, WIDTH);
            const auto nan = broadcast(not_a_number<A>());
            store(head + j, class_id == Index(NO_CLASS) ? nan : load(head_grads + j, mask, A(0)), FullMask());
        });
        T *grads = call.data_grad + block.start;
        block.template write<STREAMING>(grads, [=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            const auto zero = broadcast(A(0));
            const auto log_p = load(logits + i, mask, A(0)) - lanes.of(max) - lanes.of(log_sum);
            const auto place = lanes.of(labelled);
            const auto is_labelled = place == lane_numbers<T>() + Index(i);
            const auto target = (is_labelled ? broadcast(call.label_weight) : zero) + call.uniform;
            const auto grad = lanes.of(head) * (exponential(log_p) - target);
            return place == Index(IGNORED) ? zero : grad;
        });
    });
}

template <bool STREAMING, bool WEIGHTED, typename T>
void backward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, (call.sparse ? 2 : 4) * sizeof(T), [=](int64_t row) {
        const T *logits = call.data + row * classes;
        T *grad = call.data_grad + row * classes;
        const A head = load_scalar(call.output_grad + row), max = call.max[row], log_sum = call.log_sum[row];
        const A label_weight = call.label_weight, uniform = call.uniform;
        if (!call.sparse) {
            const T *label = call.dense + row * classes;
            const A target_sum = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                return target * weights_at<WEIGHTED>(call, i, mask);
            });
            write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto p = exponential(load(logits + i, mask, A(0)) - max - log_sum);
                const auto scaled = target_sum * p;
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                return head * (scaled - target * weights_at<WEIGHTED>(call, i, mask));
            });
            T *label_grad = call.label_grad + row * classes;
            write_row<STREAMING>(label_grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto log_p = load(logits + i, mask, A(0)) - max - log_sum;
                return -label_weight * head * weights_at<WEIGHTED>(call, i, mask) * log_p;
            });
            return;
        }
        const int64_t class_id = class_of(call.labels, row, classes);
        if (class_id < 0) {   // whatever the row or the head gradient holds
            const A value = class_id == IGNORED ? A(0) : not_a_number<A>();
            write_row<STREAMING>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(value); });
            return;
        }
        const A weight = label_weight * call.weight_of(class_id);
        const A target_sum = WEIGHTED ? weight + uniform * call.weight_sum : A(1);
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto scaled = target_sum * exponential(load(logits + i, mask, A(0)) - max - log_sum);
            auto error = scaled - uniform * weights_at<WEIGHTED>(call, i, mask);
            if (uint64_t(class_id - i) < N)
                error[class_id - i] -= weight;
            return error * head;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_columns<false, T>(call.sizes, call.sparse ? 2 : 4, [=](ColumnBlock<T> &block) {
        alignas(64) A head_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A target_sum_buffer[MAX_BLOCK_COLUMNS], max_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *head = head_buffer, *max = max_buffer, *log_sum = log_sum_buffer, *target_sum = target_sum_buffer;
        Index *class_ids = class_id_buffer;
        const T *logits = block.read(call.data), *labels = call.sparse ? nullptr : block.read(call.dense);
        T *grads = block.write(call.data_grad), *label_grads = call.sparse ? nullptr : block.write(call.label_grad);
        const ColumnLines<T> lines = block.lines;
        const int64_t pitch = lines.pitch;
        memcpy(max, call.max + block.first_row, size_t(block.columns) * sizeof(A));
        memcpy(log_sum, call.log_sum + block.first_row, size_t(block.columns) * sizeof(A));
        for (int64_t j = 0; j < block.columns; ++j) {
            head[j] = load_scalar(call.output_grad + block.first_row + j);
            target_sum[j] = call.sparse ? A(1) : A(0);
            class_ids[j] = 0;
        }
        if (call.sparse)
            classes_of(call.labels, block.first_row, block.columns, classes, class_ids);
        for (int64_t j = 0; j < block.columns; ++j) {
            if (class_ids[j] == Index(NO_CLASS))
                head[j] = not_a_number<A>();
            if (call.sparse && call.weights && class_ids[j] >= 0)
                target_sum[j] = call.label_weight * call.weights[class_ids[j]] + call.uniform * call.weight_sum;
        }
        lines.spread(target_sum);
        if (!call.sparse) {
            lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
                const A weight = call.weight_of(number);
                for_each_column<T>(width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto label = load(labels + number * pitch + j, mask, A(0));
                    const auto target = call.label_weight * label + call.uniform;
                    const auto sum = load(target_sum + j, mask, A(0)) + target * weight;
                    store(target_sum + j, sum, mask);
                });
            });
            lines.fold_sums(target_sum);
            lines.spread(target_sum);
        }
        spread_class_ids(lines, class_ids);
        lines.spread(head);
        lines.spread(max);
        lines.spread(log_sum);
        lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
            const int64_t line = number * pitch;
            const Index first_class = Index(number * lines.per_line);
            const A weight = call.weight_of(number);
            write_row<STREAMING>(grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto zero = broadcast(A(0));
                const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                   load(log_sum + j, FullMask());
                const auto scaled = load(target_sum + j, FullMask()) * exponential(log_p);
                if (!call.sparse) {
                    const auto target = call.label_weight * load(labels + line + j, mask, A(0)) + call.uniform;
                    return load(head + j, FullMask()) * (scaled - target * weight);
                }
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto target = (class_id == first_class ? broadcast(call.label_weight) : zero) + call.uniform;
                const auto grad = load(head + j, FullMask()) * (scaled - target * weight);
                return class_id == Index(IGNORED) ? zero : grad;
            });
            if (!call.sparse)
                write_row<STREAMING>(label_grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                       load(log_sum + j, FullMask());
                    return -call.label_weight * weight * load(head + j, FullMask()) * log_p;
                });
        });
    }, !call.weights);
}

template <typename T>
void forward(const SoftmaxCrossEntropyCall &call)
{
    const TypedCall<T> typed(call);
    if (call.sizes.empty())
        return;
    if (is_plain(typed) && has_short_rows<T>(call.sizes))
        call.sizes.inner == 1 ? forward_short_rows<1>(typed) : forward_short_rows<2>(typed);
    else if (!reduces_along_rows<T>(call.sizes))
        forward_columns(typed);
    else if (typed.weights)
        forward_rows<true>(typed);
    else
        forward_rows<false>(typed);
}

template <bool STREAMING, typename T>
void backward_short_rows(const TypedCall<T> &call)
{
    if (call.sizes.inner == 1)
        backward_short_rows<STREAMING, 1>(call);
    else
        backward_short_rows<STREAMING, 2>(call);
}

template <bool STREAMING, typename T>
void backward_of_layout(const TypedCall<T> &call)
{
    if (call.sizes.inner > 1)
        backward_columns<STREAMING>(call);
    else if (call.weights)
        backward_rows<STREAMING, true>(call);
    else
        backward_rows<STREAMING, false>(call);
}

template <typename T>
void backward(const SoftmaxCrossEntropyCall &call)
{
    const TypedCall<T> typed(call);
    if (call.sizes.empty())
        return;
    if (is_plain(typed) && has_short_rows<T>(call.sizes))
        use_streaming_stores_for_short_rows<T>(call.sizes, 2) ? backward_short_rows<true>(typed)
                                                              : backward_short_rows<false>(typed);
    else if (use_streaming_stores<T>(call.sizes))
        backward_of_layout<true>(typed);
    else
        backward_of_layout<false>(typed);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxCrossEntropyCall adapt(const SoftmaxCrossEntropyAttrs &attrs, const SoftmaxCrossEntropyTensors &tensors,
                                     Workspace &memory)
{
    SoftmaxCrossEntropyCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.sparse = attrs.sparse_label;
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.dense = tensors.label.data;
    call.smoothing = attrs.smoothing;
    call.weights = class_weights(attrs.class_weight, call.sizes.length, call.type, memory);
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
