// Losses over rows of classes, and what has the same layouts: sums over a row, a finish, a map. Rows are of elements
// that are neighbours, or columns, or short. An operator supplies what the layouts share: see ClassRows.
#pragma once

#include "class_rows.h"

namespace gluonops::GLUONOPS_ISA {

// -- losses -----------------------------------------------------------------------------------------------------------

// Stores the outputs of a row. An ignored row counts as a row of zeros, whatever it holds.
template <typename Loss, typename A>
GLUONOPS_INLINE void store_loss(const Loss &loss, int64_t row, int64_t class_id, A max, A log_sum, A logit, A sum)
{
    const bool ignored = class_id == IGNORED;
    A value = ignored ? A(0) : not_a_number<A>();
    if (class_id >= 0)
        value = loss.loss(class_id, log_sum - (logit - max), sum);
    store_scalar(loss.args.output + row, value);
    loss.args.max[row] = ignored ? A(0) : max;
    loss.args.log_sum[row] = ignored ? logarithm(A(loss.sizes.length)) : log_sum;
}

template <bool WEIGHTED, typename Loss>
void class_loss_rows(const Loss &loss)
{
    typedef typename Loss::Type T;
    typedef typename Loss::A A;
    const int64_t length = loss.sizes.length;
    parallel_rows(loss.sizes, loss.tensors() * int64_t(sizeof(T)), [=](int64_t row) {
        const int64_t class_id = class_of_row(loss, row);
        if (class_id == IGNORED)
            return store_loss(loss, row, class_id, A(0), A(0), A(0), A(0));
        const OneRow<WEIGHTED, Loss> at(loss, row, class_id);
        const A max = row_max(at.inputs[0], length);
        const A log_sum = logarithm(row_exponentials(at.inputs[0], length, max, A(1)));
        const SoftmaxRow<A> numbers = {max, log_sum};
        A sum = 0;
        if (loss.sums())
            sum = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return loss.term(at.element(i, numbers, mask));
            });
        store_loss(loss, row, class_id, max, log_sum, load_scalar(at.inputs[0] + (class_id < 0 ? 0 : class_id)), sum);
    });
}

template <typename Loss>
void class_loss_columns(const Loss &loss)
{
    typedef typename Loss::Type T;
    typedef typename Loss::A A;
    typedef typename Simd<T>::Index Index;
    typedef RowNumbers<T, SoftmaxRow, MAX_BLOCK_COLUMNS> Numbers;
    parallel_columns<false, T>(loss.sizes, loss.tensors(), [=](ColumnBlock<T> &block) {
        Index class_ids[MAX_BLOCK_COLUMNS];
        Numbers numbers;
        alignas(64) A sum_buffer[MAX_BLOCK_COLUMNS];
        A *max = numbers.values[0], *log_sum = numbers.values[1], *sum = sum_buffer;
        const Numbers *of_rows = &numbers;
        const OneColumnBlock<Loss> at(loss, block, class_ids);
        const ColumnLines<T> lines = block.lines;
        column_max_and_sum<false>(at.inputs[0], lines, A(1), max, log_sum);
        logarithms(log_sum, block.columns);
        lines.spread(log_sum);

        if (loss.sums())
            lines.sum(sum, [&](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
                return loss.term(at.element(line, j, of_rows, mask));
            });
        read_class_ids(loss, block.first_row, block.columns, class_ids);
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t class_id = class_ids[j];
            const A logit = load_scalar(at.inputs[0] + (class_id < 0 ? 0 : class_id) * block.step + j);
            store_loss(loss, block.first_row + j, class_id, max[j], log_sum[j], logit, loss.sums() ? sum[j] : A(0));
        }
    }, !loss.weights);   // a class weight is one number for all of a line
}

template <typename Loss>
void class_loss_short_rows(const Loss &loss)
{
    typedef typename Loss::Type T;
    typedef typename Loss::A A;
    typedef typename Loss::V V;
    typedef typename Simd<T>::Index Index;
    const int64_t length = loss.sizes.length;
    parallel_short_rows<T>(loss.sizes, 1, [=](const auto &block) {
        typedef std::decay_t<decltype(block)> RowBlock;
        enum { INNER = RowBlock::INNER, ROOM = RowBlock::ROOM };
        Index class_ids[ROOM];
        alignas(64) A max_buffer[ROOM], log_sum_buffer[ROOM], sum[ROOM] = {};
        A *max = max_buffer, *log_sum = log_sum_buffer, *terms = block.scratch;
        const T *logits = loss.inputs[0] + block.start;
        short_row_exponentials(logits, block, A(1), max, log_sum);
        logarithms(log_sum, block.rows);
        if (loss.sums()) {
            block.each([=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
                const SoftmaxRow<V> row = {lanes.of(max), lanes.of(log_sum)};
                store(terms + i, loss.term(class_element<Loss>(&logits, i, row, LabelLanes<T>(), V{}, mask)), mask);
            });
            block.sum(sum, terms);
        }
        read_class_ids(loss, block.first_row, block.rows, class_ids);
        for (int64_t j = 0; j < block.rows; ++j) {
            const int64_t class_id = class_ids[j], of_logit = class_id < 0 ? 0 : class_id;
            const A logit = load_scalar(logits + (j / INNER * length + of_logit) * INNER + j % INNER);
            store_loss(loss, block.first_row + j, class_id, max[j], log_sum[j], logit, sum[j]);
        }
    });
}

template <typename Loss>
void class_loss(const Loss &loss)
{
    if (loss.sizes.empty())
        return;
    if (!reduces_along_rows<typename Loss::Type>(loss.sizes))
        class_loss_columns(loss);
    else if (Loss::VARIES && loss.weights)
        class_loss_rows<Loss::VARIES>(loss);
    else
        class_loss_rows<false>(loss);
}

// Does the same with kernels for short rows.
template <typename Loss>
void short_class_loss(const Loss &loss)
{
    if (has_short_rows<typename Loss::Type>(loss.sizes))
        class_loss_short_rows(loss);
    else
        class_loss(loss);
}

// -- gradients --------------------------------------------------------------------------------------------------------

// Returns the numbers of a row. A label that is no class makes the factor NaN.
template <typename Pass, typename T>
GLUONOPS_INLINE auto row_numbers(const Pass &pass, int64_t row, int64_t class_id, const T *first, int64_t step)
{
    auto numbers = pass.row(row, class_id < 0 ? 0 : class_id, first, step);
    if constexpr (Pass::LABELLED)
        numbers.factor = class_id == NO_CLASS ? not_a_number<typename Pass::A>() : numbers.factor;
    return numbers;
}

// Calls write(result, number) for each result that is wanted.
template <typename Pass, typename T, typename Write>
GLUONOPS_INLINE void each_result(T *const *results, const Write &write)
{
    write(results[0], std::integral_constant<int, 0>());
    if constexpr (Pass::RESULTS > 1)
        if (results[1])
            write(results[1], std::integral_constant<int, 1>());
}

// Writes the results of a row. compute(i, mask, number) gives the values of one of them.
template <typename Pass, typename Compute>
GLUONOPS_INLINE void write_results(const Pass &pass, int64_t row, bool streaming, const Compute &compute)
{
    const int64_t length = pass.sizes.length;
    each_result<Pass>(pass.results, [&](auto *result, auto number) GLUONOPS_LAMBDA {
        write_row(result + row * length, length, streaming, [&](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return compute(i, mask, number);
        });
    });
}

template <bool WEIGHTED, typename Pass>
void class_gradient_rows(const Pass &shared_pass, bool streaming)
{
    typedef typename Pass::Type T;
    typedef typename Pass::A A;
    const int64_t length = shared_pass.sizes.length;
    parallel_rows(shared_pass.sizes, shared_pass.tensors() * int64_t(sizeof(T)), [=](int64_t row) {
        const Pass pass = shared_pass;   // the row refers to a copy, which no store can change
        const int64_t class_id = class_of_row(pass, row);
        if (class_id < 0) {   // whatever the row or the head gradient holds
            const A value = class_id == IGNORED ? A(0) : not_a_number<A>();
            return write_results(pass, row, streaming,
                                 [=](int64_t, auto, auto) GLUONOPS_LAMBDA { return broadcast(value); });
        }
        const OneRow<WEIGHTED, Pass> at(pass, row, class_id);
        auto numbers = pass.row(row, class_id, at.inputs[0], 1);
        if constexpr (Pass::SUMS)
            if (pass.sums())
                numbers.sum = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                    return pass.term(at.element(i, numbers, mask));
                });
        write_results(pass, row, streaming, [=](int64_t i, auto mask, auto number) GLUONOPS_LAMBDA {
            return pass.gradient(at.element(i, numbers, mask), number);
        });
    });
}

template <typename Pass>
void class_gradient_columns(const Pass &shared_pass, bool streaming)
{
    typedef typename Pass::Type T;
    typedef typename Pass::V V;
    typedef typename Simd<T>::Index Index;
    typedef RowNumbers<T, Pass::template Row, MAX_BLOCK_COLUMNS> Numbers;
    parallel_columns<false, T>(shared_pass.sizes, shared_pass.tensors(), [=](ColumnBlock<T> &block) {
        const Pass pass = shared_pass;   // the lines refer to a copy, which no store can change
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        Numbers buffer;
        Index *class_ids = class_id_buffer;
        Numbers *numbers = &buffer;
        const OneColumnBlock<Pass> at(pass, block, class_ids);
        T *results[Pass::RESULTS];
        for (int k = 0; k < Pass::RESULTS; ++k)
            results[k] = pass.results[k] ? block.write(pass.results[k]) : nullptr;
        const ColumnLines<T> lines = block.lines;
        if constexpr (int(Numbers::COUNT) > int(Pass::SUMS)) {   // more than a sum
            read_class_ids(pass, block.first_row, block.columns, class_ids);
            for (int64_t j = 0; j < block.columns; ++j)
                numbers->set(j, row_numbers(pass, block.first_row + j, class_ids[j], at.inputs[0] + j, block.step));
            for (int64_t j = block.columns; j % Simd<T>::LANES; ++j)
                numbers->set(j, {});   // the lanes behind the last column: subnormal numbers would be slow
            if (Pass::LABELLED)
                spread_class_ids(lines, class_ids);
            for (auto &values : buffer.values)
                lines.spread(values);
        }
        if constexpr (Pass::SUMS)
            if (pass.sums()) {
                lines.sum(buffer.values[0], [&](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
                    return pass.term(at.element(line, j, numbers, mask));
                });
                lines.spread(buffer.values[0]);
            }
        each_result<Pass>(results, [&](T *result, auto number) GLUONOPS_LAMBDA {
            lines.write(result, streaming, [&](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
                const V gradient = pass.gradient(at.element(line, j, numbers, mask), number);
                return Pass::LABELLED ? (at.classes(j) == Index(IGNORED) ? V{} : gradient) : gradient;
            });
        });
    }, !shared_pass.weights);
}

// The position of the label's class among a block's elements, from that class, for a vector of rows.
template <typename T, int INNER>
GLUONOPS_INLINE void positions_of_labels(typename Simd<T>::Index *labelled, int64_t rows, int64_t length)
{
    typedef typename Simd<T>::Index Index;
    for_each_vector<T>(rows, [=](int64_t j, auto) GLUONOPS_LAMBDA {
        const auto class_id = load_indices<T>(labelled + j), row = lane_numbers<T>() + Index(j);
        const auto element = (row / INNER * Index(length) + class_id) * INNER + row % INNER;
        const auto position = class_id >= 0 ? element : class_id;
        memcpy(labelled + j, &position, WIDTH);
    });
}

template <typename Pass>
void class_gradient_short_rows(const Pass &pass, bool streaming)
{
    typedef typename Pass::Type T;
    typedef typename Pass::A A;
    typedef typename Pass::V V;
    typedef typename Simd<T>::Index Index;
    parallel_short_rows<T>(pass.sizes, pass.tensors(), [=](const auto &block) {
        typedef std::decay_t<decltype(block)> RowBlock;
        enum { INNER = RowBlock::INNER, ROOM = RowBlock::ROOM };
        typedef RowNumbers<T, Pass::template Row, ROOM> Numbers;
        Index label_buffer[ROOM] = {};   // which of the block's elements a label names
        Numbers buffer;
        Index *labelled = label_buffer;
        Numbers *numbers = &buffer;
        const T *inputs[Pass::INPUTS];
        for (int k = 0; k < Pass::INPUTS; ++k)
            inputs[k] = pass.inputs[k] + block.start;
        if (Pass::LABELLED)
            read_class_ids(pass, block.first_row, block.rows, labelled);
        for (int64_t j = 0; int(Numbers::COUNT) > int(Pass::SUMS) && j < block.rows; ++j)
            numbers->set(j, row_numbers(pass, block.first_row + j, labelled[j], inputs[0], 0));
        if (Pass::LABELLED)
            positions_of_labels<T, INNER>(labelled, block.rows, pass.sizes.length);
        const auto element = [=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            const auto row = numbers->vectors([=](const A *values) GLUONOPS_LAMBDA { return lanes.of(values); });
            const LabelLanes<T> label = {lanes.of(labelled) == lane_numbers<T>() + Index(i)};
            return class_element<Pass>(inputs, i, row, label, V{}, mask);
        };
        if constexpr (Pass::SUMS) {
            A *terms = block.scratch;
            block.each([=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
                store(terms + i, pass.term(element(i, mask, lanes)), mask);
            });
            block.sum(buffer.values[0], terms);
        }
        block.write(pass.results[0] + block.start, streaming,
                    [=, &block](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            if constexpr (Pass::SUMS)
                for (const T *input : inputs)
                    block.prefetch_next(input, i);
            const V gradient = pass.gradient(element(i, mask, lanes), std::integral_constant<int, 0>());
            return Pass::LABELLED ? (lanes.of(labelled) == Index(IGNORED) ? V{} : gradient) : gradient;
        });
    });
}

template <typename Pass>
void class_gradient(const Pass &pass)
{
    typedef typename Pass::Type T;
    const bool along_rows = Pass::SUMS ? reduces_along_rows<T>(pass.sizes) : pass.sizes.inner == 1;
    const bool streaming = use_streaming_stores<T>(pass.sizes);
    if (pass.sizes.empty())
        return;
    if (!along_rows)
        class_gradient_columns(pass, streaming);
    else if (Pass::VARIES && pass.weights)
        class_gradient_rows<Pass::VARIES>(pass, streaming);
    else
        class_gradient_rows<false>(pass, streaming);
}

// The same with kernels for short rows.
template <typename Pass>
void short_class_gradient(const Pass &pass)
{
    typedef typename Pass::Type T;
    const bool streaming = use_streaming_stores_for_short_rows<T>(pass.sizes, pass.tensors());
    if (has_short_rows<T>(pass.sizes))
        class_gradient_short_rows(pass, streaming);
    else
        class_gradient(pass);
}

}  // namespace gluonops::GLUONOPS_ISA
