// Losses that are a function of the nll of a row's class. An operator supplies a formula, value(nll) and slope(nll). A
// row has 1 to 32 threads, a block, or parts with a block each, and is read once.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

// What forward writes of a row.
template <typename Args, typename Formula>
struct FormulaLosses {
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const Args &args;
    const Weights<A> &weights;
    const Formula &formula;

    // `start`: the row's first element.
    __device__ void write(int64_t row, int64_t start, SoftmaxSums<A> sums) const
    {
        const int64_t class_id = class_of(args, row);
        if (class_id == IGNORED)
            sums.set_zeros(args.classes);
        const A log_sum = ExponentialOf<T>::log(sums.exponentials);
        store(args.max, row, sums.max, args.max_request);
        store(args.log_sum, row, log_sum, args.log_sum_request);
        A loss = class_id == IGNORED ? 0 : not_a_number<A>();
        if (class_id >= 0) {
            const A logit = load(args.data, start + class_id * args.inner);
            loss = weights.of(class_id) * formula.value(log_sum - (logit - sums.max));
        }
        store(args.output, row, loss, args.output_request);
    }
};

// The gradient of a row. It is head * (softmax - onehot).
template <typename Args, typename Formula>
struct FormulaGradients {
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const Args &args;
    const Weights<A> &weights;
    const Formula &formula;

    // `start`: the row's first element.
    __device__ ColumnGradient<T> gradient(int64_t row, int64_t start) const
    {
        const int64_t class_id = class_of(args, row);
        const A row_max = load(args.max, row), row_log_sum = load(args.log_sum, row);
        A head = not_a_number<A>();
        if (class_id >= 0) {
            const A logit = load(args.data, start + class_id * args.inner);
            const A slope = formula.slope(row_log_sum - (logit - row_max));
            head = load(args.output_grad, row) * (weights.of(class_id) * slope);
        }
        return ColumnGradient<T>(row_max, row_log_sum, 1, head, int(class_id), class_id != IGNORED);
    }
};

template <typename Args, typename Formula>
__device__ void class_loss_forward(const Args &args, const Weights<typename Args::A> &weights, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const int64_t count = args.batch * args.inner;
    const FormulaLosses<Args, Formula> losses = {args, weights, formula};
    if (blockDim.x == 1) {   // other rows do without a column's tests
        const ColumnSizes<T> columns(count, args.classes, args.inner);
        const bool all_written = args.output_request == WRITE && args.max_request == WRITE
            && args.log_sum_request == WRITE;
        if (all_written && columns.fit(args.data)) {
            sum_columns<SoftmaxSums<A> >(args.data, columns, losses);
            return;
        }
    }
    const Scratch<A> scratch(args.counts, args.sums);
    const Rows<T> rows(args.classes, args.inner, aligned(args.data));
    const SoftmaxSource<T, STREAMED_BYTES> logits(args.data, rows, 1);
    for (RowLoop at(count); at.goes_on(); at.next()) {
        // What the end of the row computes again is not held in registers.
        const bool reads = at.exists && (!args.ignore_label.given || class_of(args, at.row) != IGNORED);
        SoftmaxSums<A> sums;
        const bool has_sums = sum_row_once(logits, at, rows.start(at.row), reads, scratch, sums);
        if (has_sums && at.is_first_in_block())
            losses.write(at.row, rows.start(at.row), sums);
    }
}

template <typename Args, typename Formula>
__device__ void class_loss_backward(const Args &args, const Weights<typename Args::A> &weights, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const int64_t count = args.batch * args.inner;
    const FormulaGradients<Args, Formula> gradients = {args, weights, formula};
    const ColumnSizes<T> columns(count, args.classes, args.inner);
    if (args.data_grad_request == WRITE && columns.fit(args.data) && columns.fit(args.data_grad)) {
        write_columns(args.data, args.data_grad, columns, gradients);
        return;
    }
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t start = rows.start(at.row), class_id = class_of(args, at.row);
        const ColumnGradient<T> gradient = gradients.gradient(at.row, start);
        const Difference<A> less_one = {1};
        const Product<A> times_head = {gradient.head};
        const RowPart part = rows.part_from(start, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(args.data, rows, part, i, 0);
            x.apply(gradient.probability);
            x.apply_to(number_of_class(class_id, rows, part, i, Chunk::length()), less_one);
            x.apply(times_head);
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(args.data_grad, rows, part, i, args.data_grad_request);
        }
    }
}
