// Losses that are a function of the nll of a row's class. An operator supplies a formula, value(nll) and slope(nll). A
// row has 1 to 32 threads, a block, or parts with a block each, and is read once.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

// What forward writes of a row.
template <typename T, typename L, typename Formula>
struct FormulaLosses {
    typedef typename Accumulator<T>::type A;
    const T *data;
    const L *label;
    T *output;
    A *max, *log_sum;
    int output_request, max_request, log_sum_request;
    int64_t inner;
    const RowLabels<A> &labels;
    const Formula &formula;

    // `start`: the row's first element.
    __device__ void write(int64_t row, int64_t start, SoftmaxSums<A> sums) const
    {
        const int64_t class_id = labels.class_id(label, row);
        if (class_id == IGNORED)
            sums.set_zeros(labels.classes);
        const A row_log_sum = Power<T>::log(sums.exponentials);
        store(max, row, sums.max, max_request);
        store(log_sum, row, row_log_sum, log_sum_request);
        A loss = class_id == IGNORED ? 0 : not_a_number<A>();
        if (class_id >= 0) {
            const A logit = load(data, start + class_id * inner);
            loss = labels.weight_of(class_id) * formula.value(row_log_sum - (logit - sums.max));
        }
        store(output, row, loss, output_request);
    }
};

// The gradient of a row. It is head * (softmax - onehot).
template <typename T, typename L, typename Formula>
struct FormulaGradients {
    typedef typename Accumulator<T>::type A;
    const T *output_grad, *data;
    const L *label;
    const A *max, *log_sum;
    int64_t inner;
    const RowLabels<A> &labels;
    const Formula &formula;

    // `start`: the row's first element.
    __device__ ColumnGradient<T> gradient(int64_t row, int64_t start) const
    {
        const int64_t class_id = labels.class_id(label, row);
        const A row_max = load(max, row), row_log_sum = load(log_sum, row);
        A head = not_a_number<A>();
        if (class_id >= 0) {
            const A logit = load(data, start + class_id * inner);
            const A slope = formula.slope(row_log_sum - (logit - row_max));
            head = load(output_grad, row) * (labels.weight_of(class_id) * slope);
        }
        return ColumnGradient<T>(row_max, row_log_sum, 1, head, int(class_id), class_id != IGNORED);
    }
};

template <typename T, typename L, typename Formula>
__device__ void class_loss_forward(const T *data, const L *label, T *output, typename Accumulator<T>::type *max,
                                   typename Accumulator<T>::type *log_sum, double *partial, int output_request,
                                   int max_request, int log_sum_request, int64_t step, int64_t count, int64_t inner,
                                   const RowLabels<typename Accumulator<T>::type> &labels, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    if (step == 0) {
        clear_counts(partial, count);
        return;
    }
    const FormulaLosses<T, L, Formula> losses = {data, label, output, max, log_sum, output_request, max_request,
                                                 log_sum_request, inner, labels, formula};
    if (blockDim.x == 1) {   // other rows do without a column's tests
        const ColumnSizes<T> columns(count, labels.classes, inner);
        const bool all_written = output_request == WRITE && max_request == WRITE && log_sum_request == WRITE;
        if (all_written && columns.fit(data)) {
            sum_columns<SoftmaxSums<A> >(data, columns, losses);
            return;
        }
    }
    const Rows<T> rows(labels.classes, inner, aligned(data));
    const SoftmaxSource<T, STREAMED_BYTES> logits(data, rows, 1);
    for (RowLoop at(count); at.goes_on(); at.next()) {
        // What the end of the row computes again is not held in registers.
        const bool reads = at.exists && (!labels.ignores || labels.class_id(label, at.row) != IGNORED);
        SoftmaxSums<A> sums;
        const bool has_sums = sum_row_once<A>(logits, at, rows.start(at.row), reads, partial, count, sums);
        if (has_sums && at.is_first_in_block())
            losses.write(at.row, rows.start(at.row), sums);
    }
}

template <typename T, typename L, typename Formula>
__device__ void class_loss_backward(const T *output_grad, const T *data, const L *label,
                                    const typename Accumulator<T>::type *max,
                                    const typename Accumulator<T>::type *log_sum, T *data_grad, int data_grad_request,
                                    int64_t count, int64_t inner,
                                    const RowLabels<typename Accumulator<T>::type> &labels, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const FormulaGradients<T, L, Formula> gradients = {output_grad, data, label, max, log_sum, inner, labels, formula};
    const ColumnSizes<T> columns(count, labels.classes, inner);
    if (data_grad_request == WRITE && columns.fit(data) && columns.fit(data_grad)) {
        write_columns(data, data_grad, columns, gradients);
        return;
    }
    const Rows<T> rows(labels.classes, inner, aligned(data) && aligned(data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t start = rows.start(at.row);
        const int64_t class_id = labels.class_id(label, at.row);
        const ColumnGradient<T> gradient = gradients.gradient(at.row, start);
        const Difference<A> less_one = {1};
        const Product<A> times_head = {gradient.head};
        const RowPart part = rows.part_from(start, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(data, rows, part, i, 0);
            x.apply(gradient.probability);
            x.apply_to(number_of_class(class_id, rows, part, i, Chunk::length()), less_one);
            x.apply(times_head);
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(data_grad, rows, part, i, data_grad_request);
        }
    }
}
