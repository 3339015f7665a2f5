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

namespace GLUONOPS_TARGET {
namespace {

// Whether labels are classes, all of the same weight.
template <typename T>
GLUONOPS_INLINE bool is_plain(const SoftmaxCrossEntropyArgs<T> &args)
{
    return args.sparse_label && !args.class_weight.values;
}

// The weights of the classes from i on.
template <bool WEIGHTED, typename T, typename Mask>
GLUONOPS_INLINE typename Simd<T>::Vector weights_at(const SoftmaxCrossEntropyArgs<T> &args, int64_t i, Mask mask)
{
    typedef typename Simd<T>::Scalar A;
    if constexpr (WEIGHTED)
        return load(args.class_weight.values + i, mask, A(0));
    else
        return broadcast(A(1));
}

template <bool WEIGHTED, typename T>
void forward_rows(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const T *dense = args.label.template as<T>();
    const int64_t classes = args.classes;
    parallel_rows(class_rows(args), (args.sparse_label ? 1 : 2) * sizeof(T), [=](int64_t row) {
        const int64_t class_id = args.sparse_label ? class_of(labels, row, classes) : NO_CLASS;
        const T *logits = args.data + row * classes;
        if (class_id == IGNORED) {   // counts as a row of zeros, whatever it holds
            store_scalar(args.output + row, A(0));
            args.max[row] = 0;
            args.log_sum[row] = logarithm(A(classes));
            return;
        }
        const A max = row_max(logits, classes);
        const A log_sum = logarithm(row_exponentials<false>(logits, classes, max, A(1)));
        A loss = 0;
        if (!args.sparse_label) {
            const T *label = dense + row * classes;
            const A label_weight = args.label_weight, uniform = args.uniform;
            loss = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                const auto nll = log_sum - (load(logits + i, mask, A(0)) - max);
                return target * weights_at<WEIGHTED>(args, i, mask) * nll;
            });
        } else if (class_id == NO_CLASS) {
            loss = not_a_number<A>();
        } else {
            if (args.smoothing > 0)
                loss = args.uniform * row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                    const auto nll = log_sum - (load(logits + i, mask, A(0)) - max);
                    return nll * weights_at<WEIGHTED>(args, i, mask);
                });
            const A nll = log_sum - (load_scalar(logits + class_id) - max);
            loss += args.label_weight * args.class_weight.of(class_id) * nll;
        }
        store_scalar(args.output + row, loss);
        args.max[row] = max;
        args.log_sum[row] = log_sum;
    });
}

// The end of the forward pass for neighbouring rows: adds the label's share to each loss, and stores what there is of a
// row. logit(j, class_id) is the j-th row's logit of its class. An ignored row counts as a row of zeros, whatever it
// holds.
template <typename T, typename Index, typename A, typename Logit>
GLUONOPS_INLINE void store_losses(const SoftmaxCrossEntropyArgs<T> &args, int64_t first_row, int64_t rows,
                                  const Index *class_ids, const A *max, const A *log_sum, A *loss, const Logit &logit)
{
    const A log_of_zeros = logarithm(A(args.classes));
    for (int64_t j = 0; j < rows; ++j) {
        const int64_t row = first_row + j, class_id = args.sparse_label ? class_ids[j] : NO_CLASS;
        if (class_id >= 0) {
            const A nll = log_sum[j] - (logit(j, class_id) - max[j]);
            loss[j] += args.label_weight * args.class_weight.of(class_id) * nll;
        } else if (args.sparse_label)
            loss[j] = class_id == IGNORED ? A(0) : not_a_number<A>();
        store_scalar(args.output + row, loss[j]);
        args.max[row] = class_id == IGNORED ? A(0) : max[j];
        args.log_sum[row] = class_id == IGNORED ? log_of_zeros : log_sum[j];
    }
}

template <typename T>
void forward_columns(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const int64_t classes = args.classes;
    parallel_columns<false, T>(class_rows(args), args.sparse_label ? 1 : 2, [=](ColumnBlock<T> &block) {
        Index class_ids[MAX_BLOCK_COLUMNS];
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS], loss_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *log_sum = log_sum_buffer, *loss = loss_buffer;
        const T *logits = block.read(args.data);
        const T *dense = args.sparse_label ? nullptr : block.read(args.label.template as<T>());
        const ColumnLines<T> lines = block.lines;
        const int64_t columns = block.columns, pitch = lines.pitch;

        column_max_and_sum<false>(logits, lines, A(1), max, log_sum);
        logarithms(log_sum, columns);
        lines.spread(log_sum);

        for_each_column<T>(lines.lanes(), [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(loss + j, broadcast(A(0)), FullMask());
        });
        if (!args.sparse_label || args.smoothing > 0) {
            lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
                const int64_t line = number * pitch;
                const A weight = args.class_weight.of(number);
                for_each_column<T>(width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto shifted = load(logits + line + j, mask, A(0)) - load(max + j, FullMask());
                    const auto nll = load(log_sum + j, FullMask()) - shifted;
                    auto target = broadcast(args.uniform);
                    if (!args.sparse_label)
                        target += args.label_weight * load(dense + line + j, mask, A(0));
                    const auto sum = load(loss + j, mask, A(0)) + target * weight * nll;
                    store(loss + j, sum, mask);
                });
            });
            lines.fold_sums(loss);
        }

        if (args.sparse_label)
            classes_of(labels, block.first_row, columns, classes, class_ids);
        const int64_t step = block.step;
        store_losses(args, block.first_row, columns, class_ids, max, log_sum, loss,
                     [=](int64_t j, int64_t class_id) GLUONOPS_LAMBDA {
            return load_scalar(logits + class_id * step + j);
        });
    }, !args.class_weight.values);   // a class weight is one number for all of a line
}

template <int INNER, typename T>
void forward_short_rows(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    typedef ShortRows<T, INNER> Block;
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const int64_t classes = args.classes;
    parallel_short_rows<T, INNER>(class_rows(args), 1, [=](const Block &block) {
        Index class_ids[Block::ROOM];
        alignas(64) A max_buffer[Block::ROOM], log_sum_buffer[Block::ROOM], loss[Block::ROOM] = {};
        A *max = max_buffer, *log_sum = log_sum_buffer, *scratch = block.scratch;
        const T *logits = args.data + block.start;
        short_row_exponentials(logits, block, A(1), max, log_sum);
        logarithms(log_sum, block.rows);
        if (args.smoothing > 0) {
            block.each([=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
                const auto nll = lanes.of(log_sum) - (load(logits + i, mask, A(0)) - lanes.of(max));
                store(scratch + i, args.uniform * nll, mask);
            });
            block.sum(loss, scratch);
        }
        classes_of(labels, block.first_row, block.rows, classes, class_ids);
        store_losses(args, block.first_row, block.rows, class_ids, max, log_sum, loss,
                     [=](int64_t j, int64_t class_id) GLUONOPS_LAMBDA {
            return load_scalar(logits + (j / INNER * classes + class_id) * INNER + j % INNER);
        });
    });
}

template <bool STREAMING, int INNER, typename T>
void backward_short_rows(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    typedef ShortRows<T, INNER> Block;
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const int64_t classes = args.classes;
    parallel_short_rows<T, INNER>(class_rows(args), 2, [=](const Block &block) {
        Index label_buffer[Block::ROOM] = {};   // which of the block's elements a label names
        alignas(64) A max_buffer[Block::ROOM], log_sum_buffer[Block::ROOM], head_buffer[Block::ROOM];
        A *max = max_buffer, *log_sum = log_sum_buffer, *head = head_buffer;
        Index *labelled = label_buffer;
        const T *logits = args.data + block.start, *head_grads = args.output_grad + block.first_row;
        memcpy(max, args.max + block.first_row, size_t(block.rows) * sizeof(A));
        memcpy(log_sum, args.log_sum + block.first_row, size_t(block.rows) * sizeof(A));
        classes_of(labels, block.first_row, block.rows, classes, labelled);
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
        T *grads = args.data_grad + block.start;
        block.template write<STREAMING>(grads, [=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            const auto zero = broadcast(A(0));
            const auto log_p = load(logits + i, mask, A(0)) - lanes.of(max) - lanes.of(log_sum);
            const auto place = lanes.of(labelled);
            const auto is_labelled = place == lane_numbers<T>() + Index(i);
            const auto target = (is_labelled ? broadcast(args.label_weight) : zero) + args.uniform;
            const auto grad = lanes.of(head) * (exponential(log_p) - target);
            return place == Index(IGNORED) ? zero : grad;
        });
    });
}

template <bool STREAMING, bool WEIGHTED, typename T>
void backward_rows(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const T *dense = args.label.template as<T>();
    const A weight_sum = A(args.class_weight.sum);
    const int64_t classes = args.classes;
    parallel_rows(class_rows(args), (args.sparse_label ? 2 : 4) * sizeof(T), [=](int64_t row) {
        const T *logits = args.data + row * classes;
        T *grad = args.data_grad + row * classes;
        const A head = load_scalar(args.output_grad + row), max = args.max[row], log_sum = args.log_sum[row];
        const A label_weight = args.label_weight, uniform = args.uniform;
        if (!args.sparse_label) {
            const T *label = dense + row * classes;
            const A target_sum = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                return target * weights_at<WEIGHTED>(args, i, mask);
            });
            write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto p = exponential(load(logits + i, mask, A(0)) - max - log_sum);
                const auto scaled = target_sum * p;
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                return head * (scaled - target * weights_at<WEIGHTED>(args, i, mask));
            });
            T *label_grad = args.label_grad + row * classes;
            write_row<STREAMING>(label_grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto log_p = load(logits + i, mask, A(0)) - max - log_sum;
                return -label_weight * head * weights_at<WEIGHTED>(args, i, mask) * log_p;
            });
            return;
        }
        const int64_t class_id = class_of(labels, row, classes);
        if (class_id < 0)
            return write_row_without_class<STREAMING>(grad, classes, class_id);
        const A weight = label_weight * args.class_weight.of(class_id);
        const A target_sum = WEIGHTED ? weight + uniform * weight_sum : A(1);
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto scaled = target_sum * exponential(load(logits + i, mask, A(0)) - max - log_sum);
            auto error = scaled - uniform * weights_at<WEIGHTED>(args, i, mask);
            if (uint64_t(class_id - i) < N)
                error[class_id - i] -= weight;
            return error * head;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const SoftmaxCrossEntropyArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const SoftmaxCrossEntropyArgs<T> args = given;
    const Labels labels = labels_of(args);
    const A weight_sum = A(args.class_weight.sum);
    const int64_t classes = args.classes;
    parallel_columns<false, T>(class_rows(args), args.sparse_label ? 2 : 4, [=](ColumnBlock<T> &block) {
        alignas(64) A head_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A target_sum_buffer[MAX_BLOCK_COLUMNS], max_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *head = head_buffer, *max = max_buffer, *log_sum = log_sum_buffer, *target_sum = target_sum_buffer;
        Index *class_ids = class_id_buffer;
        const T *logits = block.read(args.data);
        const T *dense = args.sparse_label ? nullptr : block.read(args.label.template as<T>());
        T *grads = block.write(args.data_grad);
        T *label_grads = args.sparse_label ? nullptr : block.write(args.label_grad);
        const ColumnLines<T> lines = block.lines;
        const int64_t pitch = lines.pitch;
        memcpy(max, args.max + block.first_row, size_t(block.columns) * sizeof(A));
        memcpy(log_sum, args.log_sum + block.first_row, size_t(block.columns) * sizeof(A));
        for (int64_t j = 0; j < block.columns; ++j) {
            head[j] = load_scalar(args.output_grad + block.first_row + j);
            target_sum[j] = args.sparse_label ? A(1) : A(0);
            class_ids[j] = 0;
        }
        if (args.sparse_label)
            classes_of(labels, block.first_row, block.columns, classes, class_ids);
        for (int64_t j = 0; j < block.columns; ++j) {
            if (class_ids[j] == Index(NO_CLASS))
                head[j] = not_a_number<A>();
            if (args.sparse_label && args.class_weight.values && class_ids[j] >= 0)
                target_sum[j] = args.label_weight * args.class_weight.of(class_ids[j]) + args.uniform * weight_sum;
        }
        lines.spread(target_sum);
        if (!args.sparse_label) {
            lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
                const A weight = args.class_weight.of(number);
                for_each_column<T>(width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto label = load(dense + number * pitch + j, mask, A(0));
                    const auto target = args.label_weight * label + args.uniform;
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
            const A weight = args.class_weight.of(number);
            write_row<STREAMING>(grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto zero = broadcast(A(0));
                const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                   load(log_sum + j, FullMask());
                const auto scaled = rounded(load(target_sum + j, FullMask()) * exponential(log_p));
                if (!args.sparse_label) {
                    const auto target = args.label_weight * load(dense + line + j, mask, A(0)) + args.uniform;
                    return load(head + j, FullMask()) * (scaled - target * weight);
                }
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto target = (class_id == first_class ? broadcast(args.label_weight) : zero) + args.uniform;
                const auto grad = load(head + j, FullMask()) * (scaled - target * weight);
                return class_id == Index(IGNORED) ? zero : grad;
            });
            if (!args.sparse_label)
                write_row<STREAMING>(label_grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                       load(log_sum + j, FullMask());
                    return -args.label_weight * weight * load(head + j, FullMask()) * log_p;
                });
        });
    }, !args.class_weight.values);
}

template <typename T>
void forward(const SoftmaxCrossEntropyArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    if (sizes.empty())
        return;
    if (is_plain(args) && has_short_rows<T>(sizes))
        args.inner == 1 ? forward_short_rows<1>(args) : forward_short_rows<2>(args);
    else if (!reduces_along_rows<T>(sizes))
        forward_columns(args);
    else if (args.class_weight.values)
        forward_rows<true>(args);
    else
        forward_rows<false>(args);
}

template <bool STREAMING, typename T>
void backward_short_rows(const SoftmaxCrossEntropyArgs<T> &args)
{
    if (args.inner == 1)
        backward_short_rows<STREAMING, 1>(args);
    else
        backward_short_rows<STREAMING, 2>(args);
}

template <bool STREAMING, typename T>
void backward_of_layout(const SoftmaxCrossEntropyArgs<T> &args)
{
    if (args.inner > 1)
        backward_columns<STREAMING>(args);
    else if (args.class_weight.values)
        backward_rows<STREAMING, true>(args);
    else
        backward_rows<STREAMING, false>(args);
}

template <typename T>
void backward(const SoftmaxCrossEntropyArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    if (sizes.empty())
        return;
    if (is_plain(args) && has_short_rows<T>(sizes))
        use_streaming_stores_for_short_rows<T>(sizes, 2) ? backward_short_rows<true>(args)
                                                         : backward_short_rows<false>(args);
    else if (use_streaming_stores<T>(sizes))
        backward_of_layout<true>(args);
    else
        backward_of_layout<false>(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
