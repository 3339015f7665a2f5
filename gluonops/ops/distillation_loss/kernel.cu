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
        const A teacher_factor = ExponentialOf<T>::of(teacher_power * ExponentialOf<T>::unit());
        differences = teacher_exponentials == 0 ? A(0) : (differences + raised) * teacher_factor;
        exponentials *= ExponentialOf<T>::of(power * ExponentialOf<T>::unit());
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
        const A weight = ExponentialOf<T>::of(teacher_power * ExponentialOf<T>::unit());
        exponentials += ExponentialOf<T>::of(power * ExponentialOf<T>::unit());
        teacher_exponentials += weight;
        differences += weight * (teacher_power - power);
    }
};

template <typename T>
__device__ PairSums<T> sum_pair(const DistillationLossArgs<T> &args, const Rows<T> &rows, const RowPart &row)
{
    typedef typename Accumulator<T>::type A;
    PairSums<T> sums(args.scale);
#pragma unroll 1
    for (RowPart left = row; left.length > 0; left.skip(RowChunk<T, BYTES>::length(), rows.inner)) {
        RowChunk<T, BYTES> x, target;
        x.read(args.data, rows, left, 0, -infinity<A>());
        target.read(args.teacher, rows, left, 0, -infinity<A>());
        sums.add(x, target);
    }
    reduce_sums<A>(sums);
    return sums;
}

template <typename T>
__device__ void forward(const DistillationLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.teacher));
    for (RowLoop at(args.batch * args.inner); at.goes_on(); at.next()) {
        const int64_t r = at.row;
        const PairSums<T> sums = sum_pair(args, rows, rows.part(r, 0, at.exists));
        if (!at.is_first_thread())
            continue;
        // The logarithm of a quotient: a difference of logarithms would be less exact.
        const A divergence = sums.differences / sums.teacher_exponentials
                             - logarithm(sums.teacher_exponentials / sums.exponentials);
        store(args.output, r, divergence * A(args.temperature * args.temperature), args.output_request);
        store(args.max, r, sums.max, args.max_request);
        store(args.log_sum, r, logarithm(sums.exponentials), args.log_sum_request);
        store(args.teacher_max, r, sums.teacher_max, args.teacher_max_request);
        store(args.teacher_log_sum, r, logarithm(sums.teacher_exponentials), args.teacher_log_sum_request);
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
__device__ void backward(const DistillationLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, BYTES> Chunk;
    const bool all_aligned = aligned(args.data) && aligned(args.teacher) && aligned(args.data_grad);
    const Rows<T> rows(args.classes, args.inner, all_aligned);
    for (int64_t r = first_row(); r < args.batch * args.inner; r += row_step()) {
        const RowPart row = rows.part(r, 0);
        const Exponential<T> of_student(args.max[r], args.scale, args.log_sum[r]);
        const Exponential<T> of_teacher(args.teacher_max[r], args.scale, args.teacher_log_sum[r]);
        const A head = load(args.output_grad, r) * A(args.temperature);
#pragma unroll 1
        for (int64_t i = 0; i < row.length; i += Chunk::length()) {
            Chunk x, target;
            x.read(args.data, rows, row, i, 0);
            target.read(args.teacher, rows, row, i, 0);
            x.apply(of_student);
            target.apply(of_teacher);
            const Distance<A, Chunk> distance = {target, head};
            x.apply(distance);
            x.write(args.data_grad, rows, row, i, args.data_grad_request);
        }
    }
}
