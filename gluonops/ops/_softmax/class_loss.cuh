// Losses that are a function of the nll of a row's class. An operator supplies a formula, value(nll) and slope(nll). A
// row has 1 to 32 threads, a block, or parts with a block each, and is read once.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"

template <typename T, typename L, typename Formula>
__device__ void class_loss_forward(const T *data, const L *label, T *output, typename Accumulator<T>::type *max,
                                   typename Accumulator<T>::type *log_sum, double *partial, int output_request,
                                   int max_request, int log_sum_request, int64_t step, int64_t count, int64_t inner,
                                   const RowLabels<typename Accumulator<T>::type> &labels, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const Exchange<SoftmaxSums<A>::NUMBERS> exchange(partial);
    if (step == 0) {
        exchange.empty(count);
        return;
    }
    const Rows<T> rows(labels.classes, inner, aligned(data));
    const SoftmaxSource<T> logits(data, rows, 1);
    for (FirstRow at; at.row < count; at.row += at.step) {
        const int64_t class_id = labels.class_id(label, at.row);
        SoftmaxSums<A> sums;
        if (class_id == IGNORED) {
            sums.max = 0;   // an ignored row counts as a row of zeros, whatever it holds
            sums.exponentials = A(labels.classes);
        } else {
            typename SoftmaxSource<T>::Held held;
            bool is_held;
            sums = sum_row(logits, at.row, at.part, exchange, held, is_held, true);
        }
        if (threadIdx.x != 0 || at.part > 0)
            continue;

        const A row_log_sum = logarithm(sums.exponentials);
        A loss = class_id == IGNORED ? 0 : not_a_number<A>();
        if (class_id >= 0) {
            const A logit = load(data, rows.part(at.row, 0).start + class_id * inner);
            loss = labels.weight_of(class_id) * formula.value(row_log_sum - (logit - sums.max));
        }
        store(output, at.row, loss, output_request);
        store(max, at.row, sums.max, max_request);
        store(log_sum, at.row, row_log_sum, log_sum_request);
    }
}

// The gradient of a row: head * (softmax - onehot).
template <typename A>
struct OnehotGradient {
    A head, max, log_sum;
    int number_of_class;

    __device__ A operator()(A x, int number) const
    {
        return head * (exponential(x - max - log_sum) - (number == number_of_class ? 1 : 0));
    }
};

template <typename T, typename L, typename Formula>
__device__ void class_loss_backward(const T *output_grad, const T *data, const L *label,
                                    const typename Accumulator<T>::type *max,
                                    const typename Accumulator<T>::type *log_sum, T *data_grad, int data_grad_request,
                                    int64_t count, int64_t inner,
                                    const RowLabels<typename Accumulator<T>::type> &labels, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const Rows<T> rows(labels.classes, inner, aligned(data) && aligned(data_grad));
    for (FirstRow at; at.row < count; at.row += at.step) {
        const int64_t class_id = labels.class_id(label, at.row);
        OnehotGradient<A> gradient = {not_a_number<A>(), load(max, at.row), load(log_sum, at.row), 0};
        if (class_id >= 0) {
            const A logit = load(data, rows.part(at.row, 0).start + class_id * inner);
            const A slope = formula.slope(gradient.log_sum - (logit - gradient.max));
            gradient.head = load(output_grad, at.row) * (labels.weight_of(class_id) * slope);
        }
        const RowPart part = rows.part(at.row, at.part);
        for (int64_t i = 0; i < part.length; i += RowChunk<T>::length()) {
            RowChunk<T> x;
            x.read(data, rows, part, i, 0);
            gradient.number_of_class = number_of_class(class_id, rows, part, i);
            x.apply(gradient);
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(data_grad, rows, part, i, data_grad_request);
        }
    }
}
