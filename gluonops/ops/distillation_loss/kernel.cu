// distillation_loss: see class_loss.cuh. Of a chunk a thread holds the logits of the student and of the teacher.
#include "../_softmax/class_loss.cuh"

// The sums of both rows. A power is (logit - max) * scale.
template <typename T>
struct PairSums {
    enum { NUMBERS = PAIR_NUMBERS };
    typedef typename Accumulator<T>::type A;
    SoftmaxSums<T> student, teacher;
    A differences;   // sums how far the powers of teacher and student are apart, weighted by the teacher's exponentials

    __device__ explicit PairSums(A scale) : student(scale), teacher(scale), differences(0) {}

    // The sums relative to other maxima, which are not below these. A difference of maxima that no element had yet is
    // infinite: it counts for nothing.
    __device__ void raise_maxima(A to, A teacher_to)
    {
        const A raised = (teacher.max - teacher_to) * teacher.scale - (student.max - to) * student.scale;
        const A relative = (differences + teacher.exponentials * raised) * Exponential<T>(teacher_to, teacher.scale)(
            teacher.max);
        differences = teacher.exponentials == 0 ? A(0) : relative;
        student.raise_max(to);
        teacher.raise_max(teacher_to);
    }

    template <typename Chunk>
    __device__ void add_chunks(const Chunk &x, const Chunk &target)
    {
        raise_maxima(x.fold(student.max, Largest()), target.fold(teacher.max, Largest()));
        PairSums chunk = *this;   // what it has is added up first, as in RowChunk::dot
        chunk.student.exponentials = chunk.teacher.exponentials = chunk.differences = 0;
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k)
            if (k < x.count)
                chunk.add_elements(x.values[k], target.values[k]);
        add_relative(chunk);
    }

    // Neither is above the maximum.
    __device__ void add_elements(A x, A target)
    {
        const A weight = Exponential<T>(teacher.max, teacher.scale)(target);
        student.exponentials += Exponential<T>(student.max, student.scale)(x);
        teacher.exponentials += weight;
        differences += weight * ((target - teacher.max) * teacher.scale - (x - student.max) * student.scale);
    }

    // The maxima are the same.
    __device__ void add_relative(const PairSums &other)
    {
        student.exponentials += other.student.exponentials;
        teacher.exponentials += other.teacher.exponentials;
        differences += other.differences;
    }

    __device__ void add(PairSums other)
    {
        raise_maxima(larger(other.student.max, student.max), larger(other.teacher.max, teacher.max));
        other.raise_maxima(student.max, teacher.max);
        add_relative(other);
    }

    __device__ void reduce(int lanes)
    {
        raise_maxima(reduce_warp(student.max, Largest(), lanes), reduce_warp(teacher.max, Largest(), lanes));
        student.exponentials = reduce_warp(student.exponentials, Sum(), lanes);
        teacher.exponentials = reduce_warp(teacher.exponentials, Sum(), lanes);
        differences = reduce_warp(differences, Sum(), lanes);
    }

    __device__ A &number(int i)
    {
        return i == 4 ? differences : i >= 2 ? teacher.number(i - 2) : student.number(i);
    }
};

template <typename T>
struct DistillationLoss {
    typedef typename Accumulator<T>::type A;
    typedef PairSums<T> Sums;
    typedef RowOfLoss Row;
    enum { BYTES = 32 };
    const DistillationLossArgs<T> &args;

    __device__ RowOfLoss row(int64_t, const Rows<T> &) const { return {true}; }
    __device__ Sums none() const { return Sums(args.scale); }

    template <typename Chunk>
    __device__ void add(Sums &sums, Chunk *x, const Row &, const Rows<T> &, const RowSplit &) const
    {
        sums.add_chunks(x[0], x[1]);
    }
};

template <typename T>
__device__ void store_loss(const DistillationLoss<T> &loss, int64_t row, const Rows<T> &, const PairSums<T> &sums)
{
    typedef typename Accumulator<T>::type A;
    const DistillationLossArgs<T> &args = loss.args;
    const A sum = sums.student.exponentials, teacher_sum = sums.teacher.exponentials;
    // The logarithm of a quotient: a difference of logarithms would be less exact.
    const A divergence = sums.differences / teacher_sum - logarithm(teacher_sum / sum);
    store(args.output, row, divergence * A(args.temperature * args.temperature), args.output_request);
    store(args.max, row, sums.student.max, args.max_request);
    store(args.log_sum, row, logarithm(sum), args.log_sum_request);
    store(args.teacher_max, row, sums.teacher.max, args.teacher_max_request);
    store(args.teacher_log_sum, row, logarithm(teacher_sum), args.teacher_log_sum_request);
}

// The inputs are the student's and the teacher's logits.
template <typename T>
struct DistillationGradient : ClassPass<DistillationLossArgs<T>> {
    using ClassPass<DistillationLossArgs<T>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    enum { BYTES = 32, LABELLED = false };
    struct Row { Exponential<T> of_student, of_teacher; A factor; };

    __device__ int64_t class_of_row(int64_t) const { return 0; }

    __device__ Row row(int64_t row, int64_t, int64_t) const
    {
        const DistillationLossArgs<T> &args = this->args;
        return {Exponential<T>(args.max[row], args.scale, args.log_sum[row]),
                Exponential<T>(args.teacher_max[row], args.scale, args.teacher_log_sum[row]),
                load(args.output_grad, row) * A(args.temperature)};
    }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return (at.row.of_student(at.inputs[0]) - at.row.of_teacher(at.inputs[1])) * at.row.factor;
    }
};

template <typename T>
__device__ void forward(const DistillationLossArgs<T> &args)
{
    const ClassRows<T, 2> tensors = {class_rows(args), {args.data, args.teacher}};
    class_loss(tensors, DistillationLoss<T>{args});
}

template <typename T>
__device__ void backward(const DistillationLossArgs<T> &args)
{
    const ClassRows<T, 2> tensors = {class_rows(args), {args.data, args.teacher}, {args.data_grad},
                                     {args.data_grad_request}};
    class_gradient(tensors, DistillationGradient<T>(args));
}
