// distillation_loss. The threads of a row read it for its maxima, and again, from the cache, for its sums.

template <typename A>
struct Sums {
    A exponentials, teacher_exponentials, differences;   // of the powers, weighted by the teacher's exponentials
};

// A row's logits relative to their maximum, at the temperature.
template <typename T>
struct Powers {
    typedef typename Accumulator<T>::type A;
    const T *logits;
    A max, scale;

    __device__ Powers(const T *logits, A max, A scale) : logits(logits), max(max), scale(scale) {}

    __device__ A operator()(int64_t i) const { return (load(logits, i) - max) * scale; }
};

template <typename T>
__device__ typename Accumulator<T>::type row_max(const T *__restrict__ logits, const Row &row)
{
    typedef typename Accumulator<T>::type A;
    A max = lowest<A>();
    for (int64_t i = row.first; i < row.end; i += row.step)
        max = Max()(load(logits, i), max);
    return reduce_row(max, Max());
}

template <typename T>
__device__ Sums<typename Accumulator<T>::type> row_sums(const Powers<T> &student, const Powers<T> &teacher,
                                                        const Row &row)
{
    typedef typename Accumulator<T>::type A;
    Sums<A> sums = {0, 0, 0};
    for (int64_t i = row.first; i < row.end; i += row.step) {
        const A power = student(i), teacher_power = teacher(i), weight = exponential(teacher_power);
        sums.exponentials += exponential(power);
        sums.teacher_exponentials += weight;
        sums.differences += weight * (teacher_power - power);
    }
    sums.exponentials = reduce_row(sums.exponentials, Sum());
    sums.teacher_exponentials = reduce_row(sums.teacher_exponentials, Sum());
    sums.differences = reduce_row(sums.differences, Sum());
    return sums;
}

template <typename T>
__global__ void __launch_bounds__(256, 2)
distillation_loss_forward(const T *__restrict__ data, const T *__restrict__ teacher, T *__restrict__ output,
                          typename Accumulator<T>::type *__restrict__ max,
                          typename Accumulator<T>::type *__restrict__ log_sum,
                          typename Accumulator<T>::type *__restrict__ teacher_max,
                          typename Accumulator<T>::type *__restrict__ teacher_log_sum, int output_request,
                          int max_request, int log_sum_request, int teacher_max_request, int teacher_log_sum_request,
                          int64_t outer, int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = A(1 / temperature);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const Row row(r, classes, inner);
        const Powers<T> student(data, row_max(data, row), scale), target(teacher, row_max(teacher, row), scale);
        const Sums<A> sums = row_sums(student, target, row);
        if (threadIdx.x > 0)
            continue;
        // The logarithm of a quotient: a difference of logarithms would be less exact.
        const A divergence = sums.differences / sums.teacher_exponentials
                             - logarithm(sums.teacher_exponentials / sums.exponentials);
        store(output, r, divergence * A(temperature * temperature), output_request);
        store(max, r, student.max, max_request);
        store(log_sum, r, logarithm(sums.exponentials), log_sum_request);
        store(teacher_max, r, target.max, teacher_max_request);
        store(teacher_log_sum, r, logarithm(sums.teacher_exponentials), teacher_log_sum_request);
    }
}

template <typename T>
__global__ void __launch_bounds__(256, 2)
distillation_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                           const T *__restrict__ teacher, const typename Accumulator<T>::type *__restrict__ max,
                           const typename Accumulator<T>::type *__restrict__ log_sum,
                           const typename Accumulator<T>::type *__restrict__ teacher_max,
                           const typename Accumulator<T>::type *__restrict__ teacher_log_sum,
                           T *__restrict__ data_grad, int data_grad_request, int64_t outer, int64_t classes,
                           int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = A(1 / temperature);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const Row row(r, classes, inner);
        const Powers<T> student(data, max[r], scale), target(teacher, teacher_max[r], scale);
        const A head = load(output_grad, r) * A(temperature), divisor = log_sum[r], target_divisor = teacher_log_sum[r];
        for (int64_t i = row.first; i < row.end; i += row.step) {
            const A error = exponential(student(i) - divisor) - exponential(target(i) - target_divisor);
            store(data_grad, i, error * head, data_grad_request);
        }
    }
}
