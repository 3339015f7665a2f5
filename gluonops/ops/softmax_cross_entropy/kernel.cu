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
__device__ void multiply_by_weights(RowChunk<T, BYTES> &x, const typename Accumulator<T>::type *weights,
                                    const Rows<T> &rows)
{
    const typename Accumulator<T>::type *weight = weights + rows.first;
#pragma unroll
    for (int k = 0; k < RowChunk<T, BYTES>::SIZE; ++k) {
        if (k < x.count) {
            x.values[k] *= *weight;
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
    const A *weights;   // null without
    const Rows<T> &rows;
    TargetOfLabel<A> target;

    __device__ TargetSource(const T *data, const T *label, const A *weights, const Rows<T> &rows,
                            const TargetOfLabel<A> &target)
        : data(data), label(label), weights(weights), rows(rows), target(target) {}

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
            if (weights)
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
    const A *weights;   // null without
    const Rows<T> &rows;

    __device__ LabelSource(const T *label, const A *weights, const Rows<T> &rows)
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

// Whether labels are dense, which the compiler may know.
template <typename T, typename L>
__device__ bool is_dense(const SoftmaxCrossEntropyArgs<T, L> &args) { return Same<T, L>::TYPE && !args.sparse_label; }

template <typename T, typename L>
__device__ TargetOfLabel<typename Accumulator<T>::type> target_of(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    const TargetOfLabel<typename Accumulator<T>::type> target = {args.label_weight, args.uniform};
    return target;
}

// What forward writes of a row. `logit` is that of the row's class, if it has one.
template <typename T, typename L>
__device__ void write_loss(const SoftmaxCrossEntropyArgs<T, L> &args, int64_t row,
                           TargetSums<typename Accumulator<T>::type> sums, int64_t class_id,
                           typename Accumulator<T>::type logit)
{
    typedef typename Accumulator<T>::type A;
    if (class_id == IGNORED)
        sums.set_zeros(A(args.classes));
    const A log_sum = ExponentialOf<T>::log(sums.exponentials);
    store(args.max, row, sums.max, args.max_request);
    store(args.log_sum, row, log_sum, args.log_sum_request);
    A loss = sums.target * log_sum - sums.weighted_logits;
    if (class_id >= 0) {
        const A own_weight = args.label_weight * args.class_weight.of(class_id);
        loss += own_weight * (log_sum - (logit - sums.max));
    } else if (!is_dense(args)) {
        loss = class_id == IGNORED ? 0 : not_a_number<A>();
    }
    store(args.output, row, loss, args.output_request);
}

// The losses of rows with class labels that are not smoothed, for sum_columns.
template <typename T, typename L>
struct ClassLosses {
    typedef typename Accumulator<T>::type A;
    const SoftmaxCrossEntropyArgs<T, L> &args;

    // `start`: the row's first element.
    __device__ void write(int64_t row, int64_t start, const TargetSums<A> &sums) const
    {
        const int64_t class_id = class_of(args, row);
        const A logit = class_id >= 0 ? load(args.data, start + class_id * args.inner) : 0;
        write_loss(args, row, sums, class_id, logit);
    }
};

template <typename T, typename L>
__device__ void forward(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t count = opaque(args.batch * args.inner);   // for Turing, whose registers would not do
    const bool dense = is_dense(args);
    if (blockDim.x == 1) {   // other rows do without a column's tests
        const ColumnSizes<T> columns(count, args.classes, args.inner);
        const bool all_written = args.output_request == WRITE && args.max_request == WRITE
            && args.log_sum_request == WRITE;
        if (!dense && args.uniform == 0 && all_written && columns.fit(args.data)) {
            const ClassLosses<T, L> losses = {args};
            sum_columns<TargetSums<A> >(args.data, columns, losses);
            return;
        }
    }
    const Scratch<A> scratch(args.counts, args.sums);
    const T *const dense_label = dense ? reinterpret_cast<const T *>(args.label) : 0;
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && (!dense || aligned(args.label)));
    const SoftmaxSource<T, STREAMED_BYTES> logits(args.data, rows, 1);
    const TargetSource<T> with_targets(args.data, dense_label, args.class_weight.values, rows, target_of(args));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        // The label is read again where it is used, so that no register holds it.
        const bool reads = at.exists && (dense || !args.ignore_label.given || class_of(args, at.row) != IGNORED);
        TargetSums<A> sums;
        const bool has_sums = dense || args.uniform > 0
                              ? sum_row_once(with_targets, at, rows.start(at.row), reads, scratch, sums)
                              : sum_row_once(logits, at, rows.start(at.row), reads, scratch, softmax_sums(sums));
        if (!has_sums || !at.is_first_in_block())
            continue;

        const int64_t class_id = dense ? NO_CLASS : class_of(args, at.row);
        const A logit = class_id >= 0 ? load(args.data, rows.start(at.row) + class_id * args.inner) : 0;
        write_loss(args, at.row, sums, class_id, logit);
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
template <typename T, typename L>
__device__ void write_weighted(const SoftmaxCrossEntropyArgs<T, L> &args, const Rows<T> &rows, const RowPart &part,
                               const ClassGradient<T> &gradient, int64_t class_id,
                               typename Accumulator<T>::type share)
{
    typedef RowChunk<T, HELD_BYTES / 4> Chunk;
#pragma unroll 1
    for (int64_t i = 0; i < part.length; i += Chunk::length()) {
        Chunk x;
        x.read(args.data, rows, part, i, 0);
        gradient.apply_to(x, number_of_class(class_id, rows, part, i, Chunk::length()));
        const typename Accumulator<T>::type *weight = args.class_weight.values + part.position + i + rows.first;
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k) {
            if (k < x.count)
                x.values[k] -= share * *weight;
            weight += rows.to_next(k);
        }
        x.write(args.data_grad, rows, part, i, args.data_grad_request);
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
    const SoftmaxCrossEntropyArgs<T, L> &args;

    __device__ ColumnGradient<T> gradient(int64_t row, int64_t) const
    {
        const int64_t class_id = class_of(args, row);
        A head = class_id == NO_CLASS ? not_a_number<A>() : load(args.output_grad, row);
        if (args.class_weight.values && class_id >= 0)
            head *= args.class_weight.values[class_id];
        return ColumnGradient<T>(load(args.max, row), load(args.log_sum, row), args.label_weight, head, int(class_id),
                                 class_id != IGNORED);
    }
};

// The sum of `uniform` over all classes, times their weights.
template <typename T, typename L>
__device__ typename Accumulator<T>::type uniform_sum(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    return args.uniform * A(args.class_weight.values ? args.class_weight.sum : double(args.classes));
}

// The gradients of rows with dense labels, and of the labels.
template <typename T, typename L>
__device__ void backward_dense(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, HELD_BYTES / 4> Chunk;
    const Exchange<PlainSum<A>::NUMBERS> exchange(args);
    const TargetOfLabel<A> target = target_of(args);
    const T *const label = reinterpret_cast<const T *>(args.label);
    T *const label_grad = reinterpret_cast<T *>(args.label_grad);
    const A *const weights = args.class_weight.values;
    const bool all_aligned = aligned(args.data) && aligned(args.data_grad) && aligned(label) && aligned(label_grad);
    const Rows<T> rows(args.classes, args.inner, all_aligned);
    const LabelSource<T> labels(label, weights, rows);
    for (RowLoop at(args.batch * args.inner); at.goes_on(); at.next()) {
        typename LabelSource<T>::Held held;
        const int64_t start = rows.start(at.row);
        const A label_sum = sum_row(labels, at, start, at.exists, exchange, held).sum;
        const A head = load(args.output_grad, at.row);
        const LogProbability<A> log_probability = {load(args.max, at.row), load(args.log_sum, at.row)};
        const A target_sum = target.label_weight * label_sum + uniform_sum(args);
        const Product<A> label_gradient = {-target.label_weight * head};
        const RowPart part = rows.part_from(start, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x, targets;
            x.read(args.data, rows, part, i, 0);
            x.apply(log_probability);
            targets.read(label, rows, part, i, 0);
            targets.apply(target);
            if (weights)
                multiply_by_weights(targets, weights + part.position + i, rows);
            targets.apply(DenseGradient<T>(x, head, target_sum));
            targets.write(args.data_grad, rows, part, i, args.data_grad_request);
            x.apply(label_gradient);
            if (weights)
                multiply_by_weights(x, weights + part.position + i, rows);
            x.write(label_grad, rows, part, i, args.label_grad_request);
        }
    }
}

template <typename T, typename L>
__device__ void backward(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    if (is_dense(args)) {
        backward_dense(args);
        return;
    }
    const int64_t count = args.batch * args.inner;
    const ColumnSizes<T> columns(count, args.classes, args.inner);
    if (args.uniform == 0 && args.data_grad_request == WRITE && columns.fit(args.data) && columns.fit(args.data_grad)) {
        const ClassGradients<T, L> gradients = {args};
        write_columns(args.data, args.data_grad, columns, gradients);
        return;
    }
    const TargetOfLabel<A> target = target_of(args);
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t class_id = class_of(args, at.row);
        A head = class_id == NO_CLASS ? not_a_number<A>() : load(args.output_grad, at.row);
        A share = 0;   // of the head gradient that a smoothed label gives to every class, times the class's weight
        TargetOfLabel<A> row_target = target;
        if (args.class_weight.values && class_id >= 0) {
            const A own = target.label_weight * args.class_weight.values[class_id];
            const A target_sum = own + uniform_sum(args);
            share = head * target.uniform;
            head *= target_sum;
            row_target.label_weight = target_sum > 0 ? own / target_sum : 0;
            row_target.uniform = 0;
        }
        const ClassGradient<T> gradient(load(args.max, at.row), load(args.log_sum, at.row), row_target, head);
        const RowPart part = rows.part(at.row, at.part, at.exists);
        if (share != 0) {
            write_weighted(args, rows, part, gradient, class_id, share);
            continue;
        }
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk x;
            x.read(args.data, rows, part, i, 0);
            gradient.apply_to(x, number_of_class(class_id, rows, part, i, Chunk::length()));
            if (class_id == IGNORED)   // gradient 0, whatever the row or the head gradient holds
                x.fill(0);
            x.write(args.data_grad, rows, part, i, args.data_grad_request);
        }
    }
}
