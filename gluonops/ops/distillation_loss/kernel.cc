// distillation_loss on the CPU. Bytes moved: forward both logits' and five numbers per row, backward three times the
// logits'. What is read again after a reduction is still in the cache.
#include "generated/distillation_loss.h"
#include "../_softmax/softmax.h"

namespace gluonops {

struct DistillationLossCall {
    int type;
    RowSizes sizes;
    double temperature;
    const void *data, *teacher;
    void *output, *max, *log_sum, *teacher_max, *teacher_log_sum;   // backward reads all but output
    const void *output_grad;                                        // backward
    void *data_grad;
};

namespace GLUONOPS_TARGET {
namespace {

// The call with typed pointers. A is what T computes in, and the type of the numbers per row.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    A temperature, scale;
    const T *data, *teacher, *output_grad;
    T *output, *data_grad;
    A *max, *log_sum, *teacher_max, *teacher_log_sum;

    explicit TypedCall(const DistillationLossCall &call)
        : sizes(call.sizes), temperature(A(call.temperature)), scale(A(1 / call.temperature)),
          data(static_cast<const T *>(call.data)), teacher(static_cast<const T *>(call.teacher)),
          output_grad(static_cast<const T *>(call.output_grad)), output(static_cast<T *>(call.output)),
          data_grad(static_cast<T *>(call.data_grad)), max(static_cast<A *>(call.max)),
          log_sum(static_cast<A *>(call.log_sum)), teacher_max(static_cast<A *>(call.teacher_max)),
          teacher_log_sum(static_cast<A *>(call.teacher_log_sum)) {}

    // Writes a row's numbers. `differences` is the sum of the differences of the powers, weighted by the teacher's
    // exponentials.
    void write(int64_t row, A row_max, A sum, A row_teacher_max, A teacher_sum, A differences) const
    {
        // The logarithm of a quotient: a difference of logarithms would be less exact.
        const A divergence = differences / teacher_sum - logarithm(teacher_sum / sum);
        store_scalar(output + row, divergence * temperature * temperature);
        max[row] = row_max;
        log_sum[row] = logarithm(sum);
        teacher_max[row] = row_teacher_max;
        teacher_log_sum[row] = logarithm(teacher_sum);
    }
};

template <typename T>
void forward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_for(call.sizes.outer, 2 * classes * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        const Scratch<A> scratch(classes);
        A *exponentials = scratch.memory;
        for (int64_t row = begin; row < end; ++row) {
            const T *student = call.data + row * classes, *teacher = call.teacher + row * classes;
            const A scale = call.scale, max = row_max(student, classes), teacher_max = row_max(teacher, classes);
            const A sum = row_exponentials<false>(student, classes, max, scale);
            const A teacher_sum = exponentials
                                      ? row_exponentials<true>(teacher, classes, teacher_max, scale, exponentials)
                                      : row_exponentials<false>(teacher, classes, teacher_max, scale);
            const A differences = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto power = (load(student + i, mask, A(0)) - max) * scale;
                const auto teacher_power = (load(teacher + i, mask, A(0)) - teacher_max) * scale;
                const auto weight = exponentials ? load(exponentials + i, mask, A(0)) : exponential(teacher_power);
                return weight * (teacher_power - power);
            });
            call.write(row, max, sum, teacher_max, teacher_sum, differences);
        }
    });
}

template <typename T>
void forward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    parallel_columns<false, T>(call.sizes, 2, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A teacher_max_buffer[MAX_BLOCK_COLUMNS], teacher_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A differences_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *sum = sum_buffer, *differences = differences_buffer;
        A *teacher_max = teacher_max_buffer, *teacher_sum = teacher_sum_buffer;
        const T *student = block.read(call.data), *teacher = block.read(call.teacher);
        const ColumnLines<T> lines = block.lines;

        column_max_and_sum<false>(student, lines, call.scale, max, sum);
        column_max_and_sum<false>(teacher, lines, call.scale, teacher_max, teacher_sum);
        for_each_column<T>(lines.lanes(), [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(differences + j, broadcast(A(0)), FullMask());
        });
        lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
            const int64_t line = number * lines.pitch;
            for_each_column<T>(width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto shifted = load(student + line + j, mask, A(0)) - load(max + j, FullMask());
                const auto target = load(teacher + line + j, mask, A(0)) - load(teacher_max + j, FullMask());
                const auto weighted = exponential(target * call.scale) * (target - shifted) * call.scale;
                store(differences + j, load(differences + j, FullMask()) + weighted, mask);
            });
        });
        lines.fold_sums(differences);
        for (int64_t j = 0; j < block.columns; ++j)
            call.write(block.first_row + j, max[j], sum[j], teacher_max[j], teacher_sum[j], differences[j]);
    });
}

template <bool STREAMING, typename T>
void backward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, 3 * sizeof(T), [=](int64_t row) {
        const T *student = call.data + row * classes, *teacher = call.teacher + row * classes;
        const A head = load_scalar(call.output_grad + row) * call.temperature, scale = call.scale;
        const A max = call.max[row], log_sum = call.log_sum[row];
        const A teacher_max = call.teacher_max[row], teacher_log_sum = call.teacher_log_sum[row];
        write_row<STREAMING>(call.data_grad + row * classes, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto q = exponential((load(student + i, mask, A(0)) - max) * scale - log_sum);
            const auto p = exponential((load(teacher + i, mask, A(0)) - teacher_max) * scale - teacher_log_sum);
            return (q - p) * head;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    parallel_columns<false, T>(call.sizes, 3, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS], head_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A teacher_max_buffer[MAX_BLOCK_COLUMNS], teacher_log_sum_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *log_sum = log_sum_buffer, *head = head_buffer;
        A *teacher_max = teacher_max_buffer, *teacher_log_sum = teacher_log_sum_buffer;
        const T *students = block.read(call.data), *teachers = block.read(call.teacher);
        T *grads = block.write(call.data_grad);
        const ColumnLines<T> lines = block.lines;
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t row = block.first_row + j;
            max[j] = call.max[row];
            log_sum[j] = call.log_sum[row];
            teacher_max[j] = call.teacher_max[row];
            teacher_log_sum[j] = call.teacher_log_sum[row];
            head[j] = load_scalar(call.output_grad + row) * call.temperature;
        }
        for (A *values : {max, log_sum, teacher_max, teacher_log_sum, head})
            lines.spread(values);
        lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
            const T *student = students + number * lines.pitch, *teacher = teachers + number * lines.pitch;
            write_row<STREAMING>(grads + number * lines.pitch, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto power = (load(student + j, mask, A(0)) - load(max + j, FullMask())) * call.scale;
                const auto target = (load(teacher + j, mask, A(0)) - load(teacher_max + j, FullMask())) * call.scale;
                const auto q = exponential(power - load(log_sum + j, FullMask()));
                const auto p = exponential(target - load(teacher_log_sum + j, FullMask()));
                return (q - p) * load(head + j, FullMask());
            });
        });
    });
}

template <typename T>
void forward(const DistillationLossCall &call)
{
    const TypedCall<T> typed(call);
    if (call.sizes.empty())
        return;
    if (reduces_along_rows<T>(call.sizes))
        forward_rows(typed);
    else
        forward_columns(typed);
}

template <typename T>
void backward(const DistillationLossCall &call)
{
    const TypedCall<T> typed(call);
    const bool rows = call.sizes.inner == 1;
    if (use_streaming_stores<T>(call.sizes))
        rows ? backward_rows<true>(typed) : backward_columns<true>(typed);
    else
        rows ? backward_rows<false>(typed) : backward_columns<false>(typed);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline DistillationLossCall adapt(const DistillationLossAttrs &attrs, const DistillationLossTensors &tensors,
                                  Workspace &)
{
    DistillationLossCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.temperature = attrs.temperature;
    call.data = tensors.data.data;
    call.teacher = tensors.teacher.data;
    call.output = tensors.output.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    call.teacher_max = tensors.teacher_max.data;
    call.teacher_log_sum = tensors.teacher_log_sum.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    return call;
}

}  // namespace gluonops
