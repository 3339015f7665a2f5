// margin_softmax_cross_entropy. A row has 1 to 32 threads, a block, or parts with a block each. It is read once, and the
// label's cosine twice. The threads of a row all compute its margin: this takes no memory and no barrier.
#include "../_labels/labels.cuh"
#include "../_softmax/angles.cuh"
#include "../_softmax/margin.cuh"
#include "../_softmax/softmax.cuh"

// The label of a row, and the margin of its cosine. A row without a class has none.
template <typename T>
struct LabelOfRow {
    typedef typename Accumulator<T>::type A;
    int64_t class_id;
    MarginValue<A> target;

    template <typename L>
    __device__ LabelOfRow(const T *data, const L *label, const Rows<T> &rows, int64_t row, const RowLabels<A> &labels,
                          const Margin<A> &margin)
        : class_id(labels.class_id(label, row))
    {
        target.cosine = target.slope = 0;
        if (class_id >= 0)
            target = margin(load(data, row * rows.length + class_id));
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
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 4)
margin_softmax_cross_entropy_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                                     typename Accumulator<T>::type *__restrict__ max,
                                     typename Accumulator<T>::type *__restrict__ log_sum,
                                     double *__restrict__ partial, int output_request, int max_request,
                                     int log_sum_request, int64_t step, int64_t count, int64_t classes,
                                     int64_t ignores, int64_t ignore_label, int64_t weighted,
                                     const double *__restrict__ class_weight, double scale, double m1, double m2,
                                     double m3, double cosine_of_m2, double sine_of_m2, int64_t easy_margin)
{
    typedef typename Accumulator<T>::type A;
    if (step == 0) {
        clear_counts(partial, count);
        return;
    }
    const RowLabels<A> labels = {classes, ignores != 0, ignore_label, weighted ? class_weight : 0};
    const Margin<A> margin = {A(m1), A(m2), A(m3), A(cosine_of_m2), A(sine_of_m2), easy_margin != 0};
    const Rows<T> rows(classes, 1, aligned(data));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const LabelOfRow<T> row_label(data, label, rows, at.row, labels, margin);
        const bool has_class = row_label.class_id >= 0;
        const MarginSource<T> source(data, rows, row_label, A(scale));
        SoftmaxSums<A> sums;
        const bool reads = at.exists && has_class;
        const bool has_sums = sum_row_once<A>(source, at, rows.start(at.row), reads, partial, count, sums);
        if (!has_sums || !at.is_first_in_block())
            continue;

        if (!has_class)
            sums.set_zeros(classes);
        const A row_log_sum = Power<T>::log(sums.exponentials);
        A loss = row_label.class_id == IGNORED ? 0 : not_a_number<A>();
        if (has_class) {
            const A nll = row_log_sum - (row_label.target.cosine - sums.max) * A(scale);
            loss = labels.weight_of(row_label.class_id) * nll;
        }
        store(output, at.row, loss, output_request);
        store(max, at.row, sums.max, max_request);
        store(log_sum, at.row, row_log_sum, log_sum_request);
    }
}

// The gradient of a row is head * scale * softmax, and another number for the label's cosine.
template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 3)
margin_softmax_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                      const L *__restrict__ label,
                                      const typename Accumulator<T>::type *__restrict__ max,
                                      const typename Accumulator<T>::type *__restrict__ log_sum,
                                      T *__restrict__ data_grad, double *__restrict__ partial, int data_grad_request,
                                      int64_t step, int64_t count, int64_t classes, int64_t ignores,
                                      int64_t ignore_label, int64_t weighted, const double *__restrict__ class_weight,
                                      double scale, double m1, double m2, double m3, double cosine_of_m2,
                                      double sine_of_m2, int64_t easy_margin)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const RowLabels<A> labels = {classes, ignores != 0, ignore_label, weighted ? class_weight : 0};
    const Margin<A> margin = {A(m1), A(m2), A(m3), A(cosine_of_m2), A(sine_of_m2), easy_margin != 0};
    const Rows<T> rows(classes, 1, aligned(data) && aligned(data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const LabelOfRow<T> row_label(data, label, rows, at.row, labels, margin);
        A head = not_a_number<A>();
        if (row_label.class_id >= 0)
            head = load(output_grad, at.row) * labels.weight_of(row_label.class_id) * A(scale);
        const A row_max = load(max, at.row), row_log_sum = load(log_sum, at.row);
        const A of_label = exponential((row_label.target.cosine - row_max) * A(scale) - row_log_sum);
        const Constant<A> label_gradient = {head * (of_label - 1) * row_label.target.slope};
        const Exponential<T> probability(row_max, A(scale), row_log_sum);
        const Product<A> times_head = {head};
        const RowPart part = rows.part(at.row, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(data, rows, part, i, 0);
            x.apply(probability);
            x.apply(times_head);
            x.apply_to(number_of_class(row_label.class_id, rows, part, i, Chunk::length()), label_gradient);
            if (row_label.class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(data_grad, rows, part, i, data_grad_request);
        }
    }
}
