// distillation_loss on the CPU. Bytes moved: forward both logits' and five numbers per row, backward three times the
// logits'. What is read again after a reduction is still in the cache.
#include "generated/distillation_loss.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// Writes a row's numbers. `differences` is the sum of the differences of the powers, weighted by the teacher's
// exponentials.
template <typename T, typename A>
GLUONOPS_INLINE void store_row(const DistillationLossArgs<T> &args, int64_t row, A max, A sum, A teacher_max,
                               A teacher_sum, A differences)
{
    // The logarithm of a quotient: a difference of logarithms would be less exact.
    const A divergence = differences / teacher_sum - logarithm(teacher_sum / sum), temperature = A(args.temperature);
    store_scalar(args.output + row, divergence * temperature * temperature);
    args.max[row] = max;
    args.log_sum[row] = logarithm(sum);
    args.teacher_max[row] = teacher_max;
    args.teacher_log_sum[row] = logarithm(teacher_sum);
}

template <typename T>
void forward_rows(const DistillationLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t classes = args.classes;
    parallel_for(args.batch, 2 * classes * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        const Scratch<A> scratch(classes);
        A *exponentials = scratch.memory;
        for (int64_t row = begin; row < end; ++row) {
            const T *student = args.data + row * classes, *teacher = args.teacher + row * classes;
            const A scale = args.scale, max = row_max(student, classes), teacher_max = row_max(teacher, classes);
            const A sum = row_exponentials(student, classes, max, scale);
            const A teacher_sum = row_exponentials(teacher, classes, teacher_max, scale, exponentials);
            const A differences = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto power = (load(student + i, mask) - max) * scale;
                const auto teacher_power = (load(teacher + i, mask) - teacher_max) * scale;
                const auto weight = exponentials ? load(exponentials + i, mask) : exponential(teacher_power);
                return weight * (teacher_power - power);
            });
            store_row(args, row, max, sum, teacher_max, teacher_sum, differences);
        }
    });
}

template <typename T>
void forward_columns(const DistillationLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    parallel_columns<false, T>(class_rows(args), 2, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A teacher_max_buffer[MAX_BLOCK_COLUMNS], teacher_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A differences_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *sum = sum_buffer, *differences = differences_buffer;
        A *teacher_max = teacher_max_buffer, *teacher_sum = teacher_sum_buffer;
        const T *student = block.read(args.data), *teacher = block.read(args.teacher);
        const ColumnLines<T> lines = block.lines;

        column_max_and_sum<true>(student, lines, args.scale, max, sum);
        column_max_and_sum<true>(teacher, lines, args.scale, teacher_max, teacher_sum);
        lines.sum(differences, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
            const int64_t i = line * lines.pitch + j;
            const auto shifted = load(student + i, mask) - load(max + j);
            const auto target = load(teacher + i, mask) - load(teacher_max + j);
            return exponential(target * args.scale) * (target - shifted) * args.scale;
        });
        for (int64_t j = 0; j < block.columns; ++j)
            store_row(args, block.first_row + j, max[j], sum[j], teacher_max[j], teacher_sum[j], differences[j]);
    });
}

// The inputs are the student's and the teacher's logits.
template <typename T>
struct DistillationGradient : ClassRows<T, 2> {
    typedef typename Simd<T>::Scalar A;
    enum { LABELLED = false };
    DistillationLossArgs<T> args;

    template <typename N> struct Row { N max, log_sum, teacher_max, teacher_log_sum, factor; };

    GLUONOPS_INLINE Row<A> row(int64_t row, int64_t, const T *, int64_t) const
    {
        return {args.max[row], args.log_sum[row], args.teacher_max[row], args.teacher_log_sum[row],
                load_scalar(args.output_grad + row) * A(args.temperature)};
    }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        const auto q = exponential((at.inputs[0] - at.row.max) * args.scale - at.row.log_sum);
        const auto p = exponential((at.inputs[1] - at.row.teacher_max) * args.scale - at.row.teacher_log_sum);
        return (q - p) * at.row.factor;
    }
};

template <typename T>
void forward(const DistillationLossArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    if (sizes.empty())
        return;
    if (reduces_along_rows<T>(sizes))
        forward_rows(args);
    else
        forward_columns(args);
}

template <typename T>
void backward(const DistillationLossArgs<T> &args)
{
    class_gradient(DistillationGradient<T>{
        {class_rows(args), {args.data, args.teacher}, {args.data_grad}, {}, nullptr}, args});
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
