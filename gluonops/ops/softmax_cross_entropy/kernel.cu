// softmax_cross_entropy. A row has 1 to 32 threads, a block, or several blocks, which need two passes. Each way a row
// is read once.
//
// A row's target distribution is label_weight * label + uniform: with sparse labels, label is 1 at the class and 0
// elsewhere.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"

// Sums over a row, or over a thread's part of one.
template <typename A>
struct RowSums {
    A max;
    A exponentials;     // of exp(x - max)
    A target;           // of the target distribution
    A weighted_logits;  // of target * (x - max)

    __device__ void raise_max(A new_max)
    {
        if (new_max > max) {
            exponentials *= exponential(max - new_max);
            if (target != 0)   // else max may still be so low that the difference is not finite
                weighted_logits += target * (max - new_max);
            max = new_max;
        }
    }

    __device__ void add(RowSums other)
    {
        raise_max(Max()(other.max, max));
        other.raise_max(max);
        exponentials += other.exponentials;
        target += other.target;
        weighted_logits += other.weighted_logits;
    }

    __device__ void write(double *partials) const
    {
        partials[0] = max;
        partials[1] = exponentials;
        partials[2] = target;
        partials[3] = weighted_logits;
    }
};

// The sums of row number `index`. With sparse labels the target is `uniform` everywhere: the class is left to the
// caller.
template <typename T, typename L, typename A>
__device__ RowSums<A> sum_row(const T *data, const L *label, const ChunkedRow<T> &row, bool sparse, A label_weight,
                              A uniform, int64_t index, const Partials<4> &partials)
{
    const bool has_targets = !sparse || uniform > 0;
    RowSums<A> sums = {lowest<A>(), 0, 0, 0};
    for (int64_t i = row.first; i < row.end && !partials.combine_pass(); i += row.step) {
        RowChunk<T> x;
        x.read(data, row, i);
        sums.raise_max(x.largest(row, i, sums.max));
        if (has_targets) {
#pragma unroll
            for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k)
                if (row.contains(i, k)) {
                    const A target = sparse ? uniform : label_weight * A(load(label, row.index(i, k))) + uniform;
                    sums.target += target;
                    sums.weighted_logits += target * (x.values[k] - sums.max);
                }
        }
        sums.exponentials += exponentials(x, row, i, sums.max, A(1));
    }
    for (int block = threadIdx.x; block < gridDim.y && partials.combine_pass(); block += blockDim.x) {
        const double *const written = partials.of_block(index, block);
        const RowSums<A> other = {A(written[0]), A(written[1]), A(written[2]), A(written[3])};
        sums.add(other);
    }

    sums.raise_max(reduce_row(sums.max, Max()));
    sums.exponentials = reduce_row(sums.exponentials, Sum());
    if (has_targets) {
        sums.target = reduce_row(sums.target, Sum());
        sums.weighted_logits = reduce_row(sums.weighted_logits, Sum());
    }
    return sums;
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_cross_entropy_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                              typename Accumulator<T>::type *__restrict__ max,
                              typename Accumulator<T>::type *__restrict__ log_sum,
                              double *__restrict__ partial, int output_request, int max_request,
                              int log_sum_request, int64_t step, int64_t outer, int64_t classes, int64_t inner,
                              int64_t ignores, int64_t ignore_label, int64_t sparse, double smoothing)
{
    typedef typename Accumulator<T>::type A;
    const A label_weight = 1 - A(smoothing), uniform = A(smoothing) / A(classes);
    const bool packed = packed_rows(classes, inner, data, data, data);
    const Partials<4> partials = {partial, step};
    if (partials.combine_pass() && blockIdx.y > 0)   // one block writes a row's results
        return;
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        const int64_t class_id = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        // An ignored row counts as a row of zeros, whatever it holds.
        RowSums<A> sums = {0, A(classes), 0, 0};
        if (class_id != IGNORED)
            sums = sum_row(data, label, row, sparse, label_weight, uniform, r, partials);
        if (threadIdx.x != 0)
            continue;
        if (partials.write_pass()) {
            sums.write(partials.own(r));
            continue;
        }
        const A row_log_sum = logarithm(sums.exponentials);
        A loss = sums.target * row_log_sum - sums.weighted_logits;
        if (class_id == IGNORED)
            loss = 0;
        else if (sparse && class_id == NO_CLASS)
            loss = not_a_number<A>();
        else if (sparse)
            loss += label_weight * (row_log_sum - (load(data, row.start + class_id * inner) - sums.max));
        store(output, r, loss, output_request);
        store(max, r, sums.max, max_request);
        store(log_sum, r, row_log_sum, log_sum_request);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                               const L *__restrict__ label,
                               const typename Accumulator<T>::type *__restrict__ max,
                               const typename Accumulator<T>::type *__restrict__ log_sum,
                               T *__restrict__ data_grad, L *__restrict__ label_grad,
                               double *__restrict__ partial, int data_grad_request, int label_grad_request,
                               int64_t step, int64_t outer, int64_t classes, int64_t inner, int64_t ignores,
                               int64_t ignore_label, int64_t sparse, double smoothing)
{
    typedef typename Accumulator<T>::type A;
    typedef typename Accumulator<L>::type B;
    const A label_weight = 1 - A(smoothing), uniform = A(smoothing) / A(classes);
    const bool packed = packed_rows(classes, inner, data, data_grad, data_grad);
    const Partials<1> partials = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        const int64_t class_id = sparse ? class_of(label, r, classes, ignores, ignore_label) : NO_CLASS;
        const int64_t class_index = row.start + class_id * inner;   // in front of the row where there is no class
        const A head = sparse && class_id == NO_CLASS ? not_a_number<A>() : load(output_grad, r);
        const A row_max = load(max, r), row_log_sum = load(log_sum, r);
        A target_sum = 1;
        if (!sparse) {
            target_sum = 0;
            const int64_t thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x;
            const int64_t first = row.start + thread * inner;
            for (int64_t i = first; i < row.end && !partials.combine_pass(); i += threads * inner)
                target_sum += label_weight * A(load(label, i)) + uniform;
            target_sum = sum_over_row(target_sum, partials, r);
            if (partials.write_pass()) {
                if (threadIdx.x == 0)
                    *partials.own(r) = target_sum;
                continue;
            }
        }
        for (int64_t i = row.first; i < row.end; i += row.step) {
            RowChunk<T> x;
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            else
                x.read(data, row, i);
#pragma unroll
            for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k) {
                if (class_id == IGNORED || !row.contains(i, k))
                    continue;
                const int64_t index = row.index(i, k);
                const A own_label = sparse ? A(index == class_index) : A(load(label, index));
                const A target = label_weight * own_label + uniform;
                const A log_probability = x.values[k] - row_max - row_log_sum;
                x.values[k] = head * (target_sum * exponential(log_probability) - target);
                if (!sparse)
                    store(label_grad, index, B(-label_weight * head * log_probability), label_grad_request);
            }
            x.write(data_grad, row, i, data_grad_request);
        }
    }
}
