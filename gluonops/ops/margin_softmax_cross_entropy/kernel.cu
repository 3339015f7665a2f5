// margin_softmax_cross_entropy. A row has 1 to 32 threads, a block, or parts with a block each. It is read once, and the
// label's cosine twice. The threads of a row all compute its margin: this takes no memory and no barrier.
#include "../_labels/labels.cuh"
#include "../_softmax/angles.cuh"
#include "../_softmax/margin.cuh"
#include "../_softmax/softmax.cuh"

template <typename T, typename L>
__device__ Margin<typename Accumulator<T>::type> margin_of(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const Margin<A> margin = {A(args.m1), A(args.m2), A(args.m3), A(args.cosine_of_m2), A(args.sine_of_m2),
                              args.easy_margin};
    return margin;
}

// The label of a row, and the margin of its cosine. A row without a class has none.
template <typename T>
struct LabelOfRow {
    typedef typename Accumulator<T>::type A;
    int64_t class_id;
    MarginValue<A> target;

    template <typename Args>
    __device__ LabelOfRow(const Args &args, int64_t row, const Margin<A> &margin) : class_id(class_of(args, row))
    {
        target.cosine = target.slope = 0;
        if (class_id >= 0)
            target = margin(load(args.data, row * args.classes + class_id));
    }
};

template <typename A>
struct Constant {
    A value;
    __device__ A operator()(A, int) const { return value; }
};

// The cosines of a row, with the margin of its label.
template <typename T>
struct MarginSource {
    typedef typename Accumulator<T>::type A;
    typedef SoftmaxSums<A> Sums;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    struct Held {};

    const T *data;
    const Rows<T> &rows;
    const LabelOfRow<T> &label;
    A scale;

    __device__ MarginSource(const T *data, const Rows<T> &rows, const LabelOfRow<T> &label, A scale)
        : data(data), rows(rows), label(label), scale(scale) {}

    __device__ Sums none() const { return Sums(scale); }

    __device__ Sums sum(int64_t start, int number, bool reads, Held &) const
    {
        const RowPart part = rows.part_from(start, number, reads);
        const Constant<A> with_margin = {label.target.cosine};
        Sums sums = none();
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(data, rows, part, i, -infinity<A>());
            x.apply_to(number_of_class(label.class_id, rows, part, i, Chunk::length()), with_margin);
            sums.add(x);
        }
        return sums;
    }
};

template <typename T, typename L>
__device__ void forward(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const Scratch<A> scratch(args.counts, args.sums);
    const Margin<A> margin = margin_of(args);
    const Rows<T> rows(args.classes, 1, aligned(args.data));
    for (RowLoop at(args.rows); at.goes_on(); at.next()) {
        const LabelOfRow<T> row_label(args, at.row, margin);
        const bool has_class = row_label.class_id >= 0;
        const MarginSource<T> source(args.data, rows, row_label, A(args.scale));
        SoftmaxSums<A> sums;
        const bool reads = at.exists && has_class;
        const bool has_sums = sum_row_once(source, at, rows.start(at.row), reads, scratch, sums);
        if (!has_sums || !at.is_first_in_block())
            continue;

        if (!has_class)
            sums.set_zeros(args.classes);
        const A log_sum = ExponentialOf<T>::log(sums.exponentials);
        A loss = row_label.class_id == IGNORED ? 0 : not_a_number<A>();
        if (has_class) {
            const A nll = log_sum - (row_label.target.cosine - sums.max) * A(args.scale);
            loss = args.class_weight.of(row_label.class_id) * nll;
        }
        store(args.output, at.row, loss, args.output_request);
        store(args.max, at.row, sums.max, args.max_request);
        store(args.log_sum, at.row, log_sum, args.log_sum_request);
    }
}

// The gradient of a row is head * scale * softmax, and another number for the label's cosine.
template <typename T, typename L>
__device__ void backward(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const Margin<A> margin = margin_of(args);
    const Rows<T> rows(args.classes, 1, aligned(args.data) && aligned(args.data_grad));
    for (RowLoop at(args.rows); at.goes_on(); at.next()) {
        const LabelOfRow<T> row_label(args, at.row, margin);
        A head = not_a_number<A>();
        if (row_label.class_id >= 0)
            head = load(args.output_grad, at.row) * args.class_weight.of(row_label.class_id) * A(args.scale);
        const A max = load(args.max, at.row), log_sum = load(args.log_sum, at.row);
        const A of_label = exponential((row_label.target.cosine - max) * A(args.scale) - log_sum);
        const Constant<A> label_gradient = {head * (of_label - 1) * row_label.target.slope};
        const Exponential<T> probability(max, A(args.scale), log_sum);
        const Product<A> times_head = {head};
        const RowPart part = rows.part(at.row, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(args.data, rows, part, i, 0);
            x.apply(probability);
            x.apply(times_head);
            x.apply_to(number_of_class(row_label.class_id, rows, part, i, Chunk::length()), label_gradient);
            if (row_label.class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(args.data_grad, rows, part, i, args.data_grad_request);
        }
    }
}
