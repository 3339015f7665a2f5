// dice_loss. Forward has steps:
//     PLACES    a thread for a place: the maximum of its logits, and the logarithm of the sum of their exponentials;
//     CLASSES   a row of threads for a class of a sample: its sums, and its loss.
// In backward a thread takes a place.
#include "../_labels/labels.cuh"

enum Step { PLACES, CLASSES };

// The first logit of a place; the next class's is `inner` elements on.
__device__ inline int64_t first_logit(int64_t place, int64_t classes, int64_t inner)
{
    const int64_t sample = quotient(place, inner);
    return sample * classes * inner + (place - sample * inner);
}

// The maximum of a place's logits, and the logarithm of the sum of their exponentials relative to it.
template <typename A>
struct LogSum {
    A max, log_sum;
};

template <typename T>
__device__ LogSum<typename Accumulator<T>::type> divisor_of(const T *__restrict__ logits, int64_t classes,
                                                               int64_t inner)
{
    typedef typename Accumulator<T>::type A;
    A max = lowest<A>(), sum = 0;
    for (int64_t c = 0; c < classes; ++c)
        max = Max()(load(logits, c * inner), max);
    for (int64_t c = 0; c < classes; ++c)
        sum += exponential(load(logits, c * inner) - max);
    const LogSum<A> divisor = {max, logarithm(sum)};
    return divisor;
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
dice_loss_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                  typename Accumulator<T>::type *__restrict__ intersection,
                  typename Accumulator<T>::type *__restrict__ total, typename Accumulator<T>::type *__restrict__ max,
                  typename Accumulator<T>::type *__restrict__ log_sum, double *__restrict__ partial,
                  int output_request, int intersection_request, int total_request, int max_request,
                  int log_sum_request, int64_t step, int64_t batch, int64_t classes, int64_t inner, int64_t ignores,
                  int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    if (step == PLACES) {
        const int64_t thread = first_row() * blockDim.x + threadIdx.x, threads = row_step() * blockDim.x;
        for (int64_t place = thread; place < batch * inner; place += threads) {
            LogSum<A> divisor = {0, logarithm(A(classes))};   // of an ignored place, whatever it holds
            if (class_of(label, place, classes, ignores, ignore_label) != IGNORED)
                divisor = divisor_of(data + first_logit(place, classes, inner), classes, inner);
            store(max, place, divisor.max, max_request);
            store(log_sum, place, divisor.log_sum, log_sum_request);
            partial[2 * place] = divisor.max;
            partial[2 * place + 1] = divisor.log_sum;
        }
        return;
    }
    for (int64_t r = first_row(); r < batch * classes; r += row_step()) {
        const int64_t sample = quotient(r, classes), own = r - sample * classes;
        A common = 0, sum = 0;
        for (int64_t i = threadIdx.x; i < inner; i += blockDim.x) {
            const int64_t place = sample * inner + i;
            const int64_t class_id = class_of(label, place, classes, ignores, ignore_label);
            if (class_id == IGNORED)
                continue;
            A p = exponential(load(data, r * inner + i) - A(partial[2 * place]) - A(partial[2 * place + 1]));
            if (class_id == NO_CLASS)
                p = not_a_number<A>();
            const bool is_own = class_id == own || class_id == NO_CLASS;
            common += is_own ? p : A(0);
            sum += (squared ? p * p : p) + A(class_id == own);
        }
        common = reduce_row(common, Sum());
        sum = reduce_row(sum, Sum());
        if (threadIdx.x == 0) {
            store(output, r, 1 - (2 * common + A(smooth)) / (sum + A(smooth)), output_request);
            store(intersection, r, common, intersection_request);
            store(total, r, sum, total_request);
        }
    }
}

// The gradient of a probability.
template <typename T>
struct ByProbability {
    typedef typename Accumulator<T>::type A;
    const T *output_grad;
    const A *intersection, *total;
    A smooth;
    bool squared;

    __device__ ByProbability(const T *output_grad, const A *intersection, const A *total, A smooth, bool squared)
        : output_grad(output_grad), intersection(intersection), total(total), smooth(smooth), squared(squared) {}

    __device__ A operator()(int64_t map, A p, bool is_own) const
    {
        const A scale = 1 / (total[map] + smooth);
        const A dice = (2 * intersection[map] + smooth) * scale;
        const A slope = squared ? 2 * p : A(1);
        return load(output_grad, map) * scale * (dice * slope - (is_own ? A(2) : A(0)));
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, 1)
dice_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                   const typename Accumulator<T>::type *__restrict__ intersection,
                   const typename Accumulator<T>::type *__restrict__ total,
                   const typename Accumulator<T>::type *__restrict__ max,
                   const typename Accumulator<T>::type *__restrict__ log_sum, T *__restrict__ data_grad,
                   double *__restrict__ partial, int data_grad_request, int64_t step, int64_t batch, int64_t classes,
                   int64_t inner, int64_t ignores, int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    const ByProbability<T> by_probability(output_grad, intersection, total, A(smooth), squared);
    for (int64_t place = first_item(); place < batch * inner; place += item_step()) {
        const int64_t class_id = class_of(label, place, classes, ignores, ignore_label);
        const int64_t first = first_logit(place, classes, inner), first_map = quotient(place, inner) * classes;
        const A shift = max[place], divisor = log_sum[place];
        A mean = class_id == NO_CLASS ? not_a_number<A>() : A(0);
        if (class_id != IGNORED)
            for (int64_t c = 0; c < classes; ++c) {
                const A p = exponential(load(data, first + c * inner) - shift - divisor);
                mean += p * by_probability(first_map + c, p, c == class_id);
            }
        for (int64_t c = 0; c < classes; ++c) {
            const int64_t i = first + c * inner;
            A gradient = 0;   // of an ignored place, whatever it holds
            if (class_id != IGNORED) {
                const A p = exponential(load(data, i) - shift - divisor);
                gradient = p * (by_probability(first_map + c, p, c == class_id) - mean);
            }
            store(data_grad, i, gradient, data_grad_request);
        }
    }
}
