// distillation_loss. The threads of a row read it once: of a chunk they hold the logits of the student and of the teacher.
#include "../_softmax/softmax.cuh"

enum { BYTES = 32 };   // of each of both rows, that a thread holds

// Of a row, or a part of it: the maxima, and the sums relative to them. A power is (logit - maximum) / temperature.
// A part without elements has sums of 0.
template <typename T>
struct PairSums {
    enum { NUMBERS = 5 };
    typedef typename Accumulator<T>::type A;
    A scale, max, teacher_max;
    A exponentials, teacher_exponentials;
    A differences;   // of the teacher's power from the student's, weighted by the teacher's exponentials

    __device__ explicit PairSums(A scale)
        : scale(scale), max(lowest<A>()), teacher_max(lowest<A>()), exponentials(0), teacher_exponentials(0),
          differences(0) {}

    // The sums relative to other maxima, which are not below these. A difference of maxima that no element had yet is
    // infinite: it counts for nothing.
    __device__ void raise_maxima(A to, A teacher_to)
    {
        const A power = (max - to) * scale, teacher_power = (teacher_max - teacher_to) * scale;
        const A raised = teacher_exponentials * (teacher_power - power);
        const A teacher_factor = Power<T>::of(teacher_power * Power<T>::unit());
        differences = teacher_exponentials == 0 ? A(0) : (differences + raised) * teacher_factor;
        exponentials *= Power<T>::of(power * Power<T>::unit());
        teacher_exponentials *= teacher_factor;
        max = to;
        teacher_max = teacher_to;
    }

    template <typename Chunk>
    __device__ void add(const Chunk &student, const Chunk &teacher)
    {
        raise_maxima(student.fold(max, Largest()), teacher.fold(teacher_max, Largest()));
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k)
            if (k < student.count)
                add(student.values[k], teacher.values[k]);
    }

    __device__ void reduce(const OverLanes &over)
    {
        raise_maxima(over(max, Largest()), over(teacher_max, Largest()));
        exponentials = over(exponentials, Sum());
        teacher_exponentials = over(teacher_exponentials, Sum());
        differences = over(differences, Sum());
    }

    __device__ A &number(int i)
    {
        switch (i) {
        case 0: return max;
        case 1: return teacher_max;
        case 2: return exponentials;
        case 3: return teacher_exponentials;
        default: return differences;
        }
    }

 private:
    __device__ void add(A student, A teacher)
    {
        const A power = (student - max) * scale, teacher_power = (teacher - teacher_max) * scale;
        const A weight = Power<T>::of(teacher_power * Power<T>::unit());
        exponentials += Power<T>::of(power * Power<T>::unit());
        teacher_exponentials += weight;
        differences += weight * (teacher_power - power);
    }
};

template <typename T>
__device__ PairSums<T> sum_pair(const T *__restrict__ data, const T *__restrict__ teacher, const Rows<T> &rows,
                                const RowPart &row, typename Accumulator<T>::type scale)
{
    typedef typename Accumulator<T>::type A;
    PairSums<T> sums(scale);
#pragma unroll 1
    for (RowPart left = row; left.length > 0; left.skip(RowChunk<T, BYTES>::length(), rows.inner)) {
        RowChunk<T, BYTES> x, target;
        x.read(data, rows, left, 0, -infinity<A>());
        target.read(teacher, rows, left, 0, -infinity<A>());
        sums.add(x, target);
    }
    reduce_sums<A>(sums);
    return sums;
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 4)
distillation_loss_forward(const T *__restrict__ data, const T *__restrict__ teacher, T *__restrict__ output,
                          typename Accumulator<T>::type *__restrict__ max,
                          typename Accumulator<T>::type *__restrict__ log_sum,
                          typename Accumulator<T>::type *__restrict__ teacher_max,
                          typename Accumulator<T>::type *__restrict__ teacher_log_sum, int output_request,
                          int max_request, int log_sum_request, int teacher_max_request, int teacher_log_sum_request,
                          int64_t outer, int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const Rows<T> rows(classes, inner, aligned(data) && aligned(teacher));
    for (RowLoop at(outer * inner); at.goes_on(); at.next()) {
        const int64_t r = at.row;
        const PairSums<T> sums = sum_pair(data, teacher, rows, rows.part(r, 0, at.exists), A(1 / temperature));
        if (!at.is_first_thread())
            continue;
        // The logarithm of a quotient: a difference of logarithms would be less exact.
        const A divergence = sums.differences / sums.teacher_exponentials
                             - logarithm(sums.teacher_exponentials / sums.exponentials);
        store(output, r, divergence * A(temperature * temperature), output_request);
        store(max, r, sums.max, max_request);
        store(log_sum, r, logarithm(sums.exponentials), log_sum_request);
        store(teacher_max, r, sums.teacher_max, teacher_max_request);
        store(teacher_log_sum, r, logarithm(sums.teacher_exponentials), teacher_log_sum_request);
    }
}

// The gradient, from the student's probability: its distance from the teacher's, times the head gradient.
template <typename A, typename Chunk>
struct Distance {
    const Chunk &target;
    A head;
    __device__ A operator()(A probability, int number) const { return (probability - target.values[number]) * head; }
};

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 4)
distillation_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                           const T *__restrict__ teacher, const typename Accumulator<T>::type *__restrict__ max,
                           const typename Accumulator<T>::type *__restrict__ log_sum,
                           const typename Accumulator<T>::type *__restrict__ teacher_max,
                           const typename Accumulator<T>::type *__restrict__ teacher_log_sum,
                           T *__restrict__ data_grad, int data_grad_request, int64_t outer, int64_t classes,
                           int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, BYTES> Chunk;
    const A scale = A(1 / temperature);
    const Rows<T> rows(classes, inner, aligned(data) && aligned(teacher) && aligned(data_grad));
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const RowPart row = rows.part(r, 0);
        const Exponential<T> of_student(max[r], scale, log_sum[r]);
        const Exponential<T> of_teacher(teacher_max[r], scale, teacher_log_sum[r]);
        const A head = load(output_grad, r) * A(temperature);
#pragma unroll 1
        for (int64_t i = 0; i < row.length; i += Chunk::length()) {
            Chunk x, target;
            x.read(data, rows, row, i, 0);
            target.read(teacher, rows, row, i, 0);
            x.apply(of_student);
            target.apply(of_teacher);
            const Distance<A, Chunk> distance = {target, head};
            x.apply(distance);
            x.write(data_grad, rows, row, i, data_grad_request);
        }
    }
}
