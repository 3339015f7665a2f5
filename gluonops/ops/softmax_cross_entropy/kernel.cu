// softmax_cross_entropy. A row has 1 to 32 threads, a block, or parts with a block each; or a thread has the rows of a
// column. Each way a row is read once, but dense labels twice in backward.
//
// A row's target distribution is label_weight * label + uniform: with sparse labels, label is 1 at the class and 0
// elsewhere. With class weights each number of it is multiplied by the weight of its class.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

// A softmax's sums, and those of a target distribution: of target, and of target * (x - max).
template <typename A>
struct TargetSums : SoftmaxSums<A> {
    enum { NUMBERS = 4 };
    A target, weighted_logits;

    __device__ TargetSums() : target(0), weighted_logits(0) {}

    __device__ void raise_max(A to)
    {
        if (target != 0)   // else max may still be so low that the difference is not finite
            weighted_logits += target * (this->max - to);
        SoftmaxSums<A>::raise_max(to);
    }

    // Adds a chunk and its targets, and turns the chunk into exponentials.
    template <typename T, int BYTES>
    __device__ void add(RowChunk<T, BYTES> &x, const RowChunk<T, BYTES> &targets)
    {
        raise_max(x.fold(this->max, Largest()));
#pragma unroll
        for (int k = 0; k < RowChunk<T, BYTES>::SIZE; ++k)
            if (k < x.count) {
                target += targets.values[k];
                weighted_logits += targets.values[k] * (x.values[k] - this->max);
            }
        SoftmaxSums<A>::add(x);
    }

    __device__ void add(TargetSums other)
    {
        raise_max(larger(other.max, this->max));
        other.raise_max(this->max);
        this->exponentials += other.exponentials;
        target += other.target;
        weighted_logits += other.weighted_logits;
    }

    __device__ void reduce(const OverLanes &over)
    {
        raise_max(over(this->max, Largest()));
        this->exponentials = over(this->exponentials, Sum());
        target = over(target, Sum());
        weighted_logits = over(weighted_logits, Sum());
    }

    __device__ A &number(int i)
    {
        return i == 2 ? target : i == 3 ? weighted_logits : SoftmaxSums<A>::number(i);
    }
};

template <typename A>
__device__ SoftmaxSums<A> &softmax_sums(TargetSums<A> &sums) { return sums; }

template <typename A>
struct TargetOfLabel {
    A label_weight, uniform;
    __device__ A operator()(A label, int) const { return label_weight * label + uniform; }
};

// Multiplies the numbers of a chunk by the weights of their classes. `weights` are those from the chunk's first class on.
template <typename T, int BYTES>
__device__ void multiply_by_weights(RowChunk<T, BYTES> &x, const double *weights, const Rows<T> &rows)
{
    typedef typename Accumulator<T>::type A;
    const double *weight = weights + rows.first;
#pragma unroll
    for (int k = 0; k < RowChunk<T, BYTES>::SIZE; ++k) {
        if (k < x.count) {
            x.values[k] *= A(*weight);
            weight += rows.to_next(k);
        }
    }
}

// Logits and their targets; without a label the target is `uniform` everywhere.
template <typename T>
struct TargetSource {
    typedef typename Accumulator<T>::type A;
    typedef TargetSums<A> Sums;
    enum { OF_A_PACK = Pack<T>::SIZE * sizeof(A) };   // bytes: of more, the registers would not do
    struct Held {};

    const T *data, *label;
    bool weighted;
    const double *weights;
    const Rows<T> &rows;
    TargetOfLabel<A> target;

    __device__ TargetSource(const T *data, const T *label, bool weighted, const double *weights, const Rows<T> &rows,
                            const TargetOfLabel<A> &target)
        : data(data), label(label), weighted(weighted), weights(weights), rows(rows), target(target) {}

    __device__ Sums none() const { return Sums(); }

    __device__ Sums sum(int64_t start, int number, bool reads, Held &) const
    {
        Sums sums;
        RowChunk<T, OF_A_PACK> x, targets;
#pragma unroll 1
        for (RowPart left = rows.part_from(start, number, reads); left.length > 0; left.skip(x.length(), rows.inner)) {
            x.read(data, rows, left, 0, -infinity<A>());
            if (label) {
                targets.read(label, rows, left, 0, 0);
                targets.apply(target);
            } else {
                targets.count = x.count;
                targets.most = x.most;
                targets.fill(target.uniform);
            }
            if (weighted)
                multiply_by_weights(targets, weights + left.position, rows);
            sums.add(x, targets);
        }
        return sums;
    }
};

// Dense labels.
template <typename T>
struct LabelSource {
    typedef typename Accumulator<T>::type A;
    typedef PlainSum<A> Sums;
    struct Held {};

    const T *label;
    const double *weights;   // null without
    const Rows<T> &rows;

    __device__ LabelSource(const T *label, const double *weights, const Rows<T> &rows)
        : label(label), weights(weights), rows(rows) {}

    __device__ Sums none() const { return Sums(); }

    __device__ Sums sum(int64_t start, int number, bool reads, Held &) const
    {
        const RowPart part = rows.part_from(start, number, reads);
        Sums sums;
        RowChunk<T, HELD_BYTES / 4> labels;
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += labels.length()) {
            labels.read(label, rows, part, i, 0);
            if (weights)
                multiply_by_weights(labels, weights + part.position + i, rows);
            sums.sum = labels.fold(sums.sum, Sum());
        }
        return sums;
    }
};

// Dense labels have the type of the data; a kernel for labels of another type needs no code for them.
template <typename T, typename L> struct Same { enum { TYPE = false }; };
template <typename T> struct Same<T, T> { enum { TYPE = true }; };

// The blocks that share a multiprocessor. A kernel with the code for dense labels needs more registers.
template <typename T, typename L>
struct Blocks {
    enum {
        FORWARD = sizeof(T) == 8 ? 2 : sizeof(T) == 2 && Same<T, L>::TYPE ? 3 : 4,
        BACKWARD = sizeof(T) == 8 || Same<T, L>::TYPE ? 2 : 3
    };
};

// The loss of a row, and what forward writes of it.
template <typename T>
struct RowLoss {
    typedef typename Accumulator<T>::type A;
    T *output;
    A *max, *log_sum;
    int output_request, max_request, log_sum_request;
    bool is_dense;
    A label_weight;
    const double *class_weight;   // null without
    int64_t classes;

    // `logit` is that of the row's class, if it has one.
    __device__ void write(int64_t row, TargetSums<A> sums, int64_t class_id, A logit) const
    {
        if (class_id == IGNORED)
            sums.set_zeros(A(classes));
        const A row_log_sum = Power<T>::log(sums.exponentials);
        store(max, row, sums.max, max_request);
        store(log_sum, row, row_log_sum, log_sum_request);
        A loss = sums.target * row_log_sum - sums.weighted_logits;
        if (class_id >= 0) {
            const A own_weight = label_weight * (class_weight ? A(class_weight[class_id]) : 1);
            loss += own_weight * (row_log_sum - (logit - sums.max));
        } else if (!is_dense) {
            loss = class_id == IGNORED ? 0 : not_a_number<A>();
        }
        store(output, row, loss, output_request);
    }
};

// The losses of rows with class labels that are not smoothed, for sum_columns.
template <typename T, typename L>
struct ClassLosses {
    typedef typename Accumulator<T>::type A;
    const T *data;
    const L *label;
    const ColumnSizes<T> &sizes;
    bool ignores;
    int64_t ignore_label;
    RowLoss<T> of_row;

    // `start`: the row's first element.
    __device__ void write(int64_t row, int64_t start, const TargetSums<A> &sums) const
    {
        const int64_t class_id = class_of(label, row, sizes.classes, ignores, ignore_label);
        const A logit = class_id >= 0 ? load(data, start + class_id * sizes.inner) : 0;
        of_row.write(row, sums, class_id, logit);
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, Blocks<T, L>::FORWARD)
softmax_cross_entropy_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                              typename Accumulator<T>::type *__restrict__ max,
                              typename Accumulator<T>::type *__restrict__ log_sum,
                              double *__restrict__ partial, int output_request, int max_request,
                              int log_sum_request, int64_t step, int64_t outer, int64_t classes, int64_t inner,
                              int64_t ignores, int64_t ignore_label, int64_t sparse, double label_weight,
                              double uniform, double uniform_sum, int64_t weighted,
                              const double *__restrict__ class_weight)
{
    typedef typename Accumulator<T>::type A;
    const int64_t count = outer * inner;
    if (step == 0) {
        clear_counts(partial, count);
        return;
    }
    const TargetOfLabel<A> target = {A(label_weight), A(uniform)};
    const bool is_dense = Same<T, L>::TYPE && !sparse;
    const RowLoss<T> row_loss = {output, max, log_sum, output_request, max_request, log_sum_request, is_dense,
                                 target.label_weight, weighted ? class_weight : 0, classes};
    if (blockDim.x == 1) {   // other rows do without a column's tests
        const ColumnSizes<T> columns(count, classes, inner);
        const bool all_written = output_request == WRITE && max_request == WRITE && log_sum_request == WRITE;
        if (!is_dense && uniform == 0 && all_written && columns.fit(data)) {
            const ClassLosses<T, L> losses = {data, label, columns, ignores != 0, ignore_label, row_loss};
            sum_columns<TargetSums<A> >(data, columns, losses);
            return;
        }
    }
    const T *const dense_label = is_dense ? reinterpret_cast<const T *>(label) : 0;
    const Rows<T> rows(classes, inner, aligned(data) && (!is_dense || aligned(label)));
    const SoftmaxSource<T, STREAMED_BYTES> logits(data, rows, 1);
    const TargetSource<T> with_targets(data, dense_label, weighted != 0, class_weight, rows, target);
    for (RowLoop at(count); at.goes_on(); at.next()) {
        // The label is read again where it is used, so that no register holds it.
        const bool reads = at.exists && (is_dense || !ignores
                                         || class_of(label, at.row, classes, ignores, ignore_label) != IGNORED);
        TargetSums<A> sums;
        const bool has_sums = is_dense || uniform > 0
                              ? sum_row_once<A>(with_targets, at, rows.start(at.row), reads, partial, count, sums)
                              : sum_row_once<A>(logits, at, rows.start(at.row), reads, partial, count,
                                                softmax_sums(sums));
        if (!has_sums || !at.is_first_in_block())
            continue;

        const int64_t class_id = is_dense ? NO_CLASS : class_of(label, at.row, classes, ignores, ignore_label);
        const A logit = class_id >= 0 ? load(data, rows.start(at.row) + class_id * inner) : 0;
        row_loss.write(at.row, sums, class_id, logit);
    }
}

// The gradient of a row with a class: head * (softmax - target).
template <typename T>
struct ClassGradient {
    typedef typename Accumulator<T>::type A;
    Exponential<T> probability;
    Difference<A> less_label;
    ScaledDifference<A> less_uniform_times_head;

    __device__ ClassGradient(A max, A log_sum, const TargetOfLabel<A> &target, A head)
        : probability(max, 1, log_sum)
    {
        less_label.less = target.label_weight;
        less_uniform_times_head.less = target.uniform;
        less_uniform_times_head.factor = head;
    }

    template <int BYTES>
    __device__ void apply_to(RowChunk<T, BYTES> &x, int number_of_class) const
    {
        x.apply(probability);
        x.apply_to(number_of_class, less_label);
        x.apply(less_uniform_times_head);
    }
};

// The gradient of a row whose label is smoothed and weighted: a ClassGradient less a share of the head gradient for each
// class, times the weight of the class.
template <typename T>
__device__ void write_weighted(const T *data, T *data_grad, int request, const Rows<T> &rows, const RowPart &part,
                               const ClassGradient<T> &gradient, int64_t class_id, const double *class_weight,
                               typename Accumulator<T>::type share)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, HELD_BYTES / 4> Chunk;
#pragma unroll 1
    for (int64_t i = 0; i < part.length; i += Chunk::length()) {
        Chunk x;
        x.read(data, rows, part, i, 0);
        gradient.apply_to(x, number_of_class(class_id, rows, part, i, Chunk::length()));
        const double *weight = class_weight + part.position + i + rows.first;
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k) {
            if (k < x.count)
                x.values[k] -= share * A(*weight);
            weight += rows.to_next(k);
        }
        x.write(data_grad, rows, part, i, request);
    }
}

template <typename A>
struct LogProbability {
    A max, log_sum;
    __device__ A operator()(A x, int) const { return x - max - log_sum; }
};

// The gradient of a row with dense labels, of targets.
template <typename T>
struct DenseGradient {
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, HELD_BYTES / 4> Chunk;
    const Chunk &log_probabilities;
    A head, target_sum;

    __device__ DenseGradient(const Chunk &log_probabilities, A head, A target_sum)
        : log_probabilities(log_probabilities), head(head), target_sum(target_sum) {}

    __device__ A operator()(A target, int number) const
    {
        return head * (target_sum * exponential(log_probabilities.values[number]) - target);
    }
};

// The gradients of rows with class labels that are not smoothed, for write_columns.
template <typename T, typename L>
struct ClassGradients {
    typedef typename Accumulator<T>::type A;
    const T *output_grad;
    const L *label;
    const A *max, *log_sum;
    int64_t classes;
    bool ignores;
    int64_t ignore_label;
    A label_weight;
    const double *class_weight;   // null without

    __device__ ColumnGradient<T> gradient(int64_t row, int64_t) const
    {
        const int64_t class_id = class_of(label, row, classes, ignores, ignore_label);
        A head = class_id == NO_CLASS ? not_a_number<A>() : load(output_grad, row);
        if (class_weight && class_id >= 0)
            head *= A(class_weight[class_id]);
        return ColumnGradient<T>(load(max, row), load(log_sum, row), label_weight, head, int(class_id),
                                 class_id != IGNORED);
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, Blocks<T, L>::BACKWARD)
softmax_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                               const L *__restrict__ label,
                               const typename Accumulator<T>::type *__restrict__ max,
                               const typename Accumulator<T>::type *__restrict__ log_sum,
                               T *__restrict__ data_grad, L *__restrict__ label_grad,
                               double *__restrict__ partial, int data_grad_request, int label_grad_request,
                               int64_t step, int64_t outer, int64_t classes, int64_t inner, int64_t ignores,
                               int64_t ignore_label, int64_t sparse, double label_weight, double uniform,
                               double uniform_sum, int64_t weighted, const double *__restrict__ class_weight)
{
    typedef typename Accumulator<T>::type A;
    const int64_t count = outer * inner;
    const Exchange<PlainSum<A>::NUMBERS> exchange(partial, count);
    if (step == 0) {
        exchange.empty();
        return;
    }
    const TargetOfLabel<A> target = {A(label_weight), A(uniform)};
    if (Same<T, L>::TYPE && !sparse) {
        const T *const dense_label = reinterpret_cast<const T *>(label);
        T *const dense_grad = reinterpret_cast<T *>(label_grad);
        const bool all_aligned = aligned(data) && aligned(data_grad) && aligned(label) && aligned(label_grad);
        const Rows<T> rows(classes, inner, all_aligned);
        const double *const weights = weighted ? class_weight : 0;
        const LabelSource<T> labels(dense_label, weights, rows);
        for (RowLoop at(count); at.goes_on(); at.next()) {
            typename LabelSource<T>::Held held;
            const int64_t start = rows.start(at.row);
            const A label_sum = sum_row(labels, at, start, at.exists, exchange, held).sum;
            const A head = load(output_grad, at.row);
            const LogProbability<A> log_probability = {load(max, at.row), load(log_sum, at.row)};
            const A target_sum = target.label_weight * label_sum + A(uniform_sum);
            const Product<A> label_gradient = {-target.label_weight * head};
            const RowPart part = rows.part_from(start, at.part, at.exists);
#pragma unroll 1
            for (int64_t i = 0; i < part.length; i += RowChunk<T, HELD_BYTES / 4>::length()) {
                RowChunk<T, HELD_BYTES / 4> x, targets;
                x.read(data, rows, part, i, 0);
                x.apply(log_probability);
                targets.read(dense_label, rows, part, i, 0);
                targets.apply(target);
                if (weights)
                    multiply_by_weights(targets, weights + part.position + i, rows);
                targets.apply(DenseGradient<T>(x, head, target_sum));
                targets.write(data_grad, rows, part, i, data_grad_request);
                x.apply(label_gradient);
                if (weights)
                    multiply_by_weights(x, weights + part.position + i, rows);
                x.write(dense_grad, rows, part, i, label_grad_request);
            }
        }
        return;
    }

    const ColumnSizes<T> columns(count, classes, inner);
    if (uniform == 0 && data_grad_request == WRITE && columns.fit(data) && columns.fit(data_grad)) {
        const ClassGradients<T, L> gradients = {output_grad, label, max, log_sum, classes, ignores != 0, ignore_label,
                                                target.label_weight, weighted ? class_weight : 0};
        write_columns(data, data_grad, columns, gradients);
        return;
    }
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const Rows<T> rows(classes, inner, aligned(data) && aligned(data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t class_id = class_of(label, at.row, classes, ignores, ignore_label);
        A head = class_id == NO_CLASS ? not_a_number<A>() : load(output_grad, at.row);
        A share = 0;   // of the head gradient that a smoothed label gives to every class, times the class's weight
        TargetOfLabel<A> row_target = target;
        if (weighted && class_id >= 0) {
            const A own = target.label_weight * A(class_weight[class_id]);
            const A target_sum = own + A(uniform_sum);
            share = head * target.uniform;
            head *= target_sum;
            row_target.label_weight = target_sum > 0 ? own / target_sum : 0;
            row_target.uniform = 0;
        }
        const ClassGradient<T> gradient(load(max, at.row), load(log_sum, at.row), row_target, head);
        const RowPart part = rows.part(at.row, at.part, at.exists);
        if (share != 0) {
            write_weighted(data, data_grad, data_grad_request, rows, part, gradient, class_id, class_weight, share);
            continue;
        }
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(data, rows, part, i, 0);
            gradient.apply_to(x, number_of_class(class_id, rows, part, i, Chunk::length()));
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(data_grad, rows, part, i, data_grad_request);
        }
    }
}
