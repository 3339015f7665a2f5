// The rows of classes as a pass over them sees them: elements with the numbers of their row. A pass does not see
// whether the elements of a row are neighbours, whether the rows are columns, or whether they are short.
#pragma once

#include "short_softmax.h"

namespace gluonops::GLUONOPS_ISA {

// What a pass reads. An operator derives a struct from it. That of a loss, whose first input are logits, has
//
//     bool sums() const;                               // whether the loss needs a sum over the row
//     V term(const ClassElement &) const;              // what is summed; the row is a SoftmaxRow
//     A loss(int64_t class_id, A nll, A sum) const;    // nll: the negative logarithm of the probability of the class
//
// and that of a gradient
//
//     template <typename N> struct Row { N ..., factor; };   // numbers of a row. If factor is NaN, so is the gradient
//     Row<A> row(int64_t row, int64_t class_id, const T *first_input, int64_t step) const;
//     V gradient(const ClassElement &, number) const;           // the values of results[number]
//
// If SUMS, it has sums() and term() too, and the first number of a row is the sum.
template <typename T, int READ, int WRITTEN = 1>
struct ClassRows {
    typedef T Type;
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    // VARIES: whether there may be weights, and all but the first input and result may be null.
    enum { INPUTS = READ, RESULTS = WRITTEN, LABELLED = true, SUMS = false, VARIES = false };
    RowSizes sizes;
    const T *inputs[READ];
    T *results[WRITTEN];   // where gradients go
    Labels labels;         // without an array, every row has the class 0
    const A *weights;      // the weights of the classes, or null

    // Returns how many tensors as large as the first input the pass reads and writes.
    int64_t tensors() const
    {
        int64_t count = 0;
        for (const T *input : inputs)
            count += input != nullptr;
        for (const T *result : results)
            count += result != nullptr;
        return count;
    }
};

// The numbers of as many elements as a vector has lanes. `row` has numbers if all are of one row, else vectors.
template <typename T, int INPUTS, typename Row, typename Label>
struct ClassElement {
    typedef typename Simd<T>::Vector V;
    V inputs[INPUTS], weight;
    Row row;
    Label label;   // which of the elements is the label's class
};

// The lane of the label's class in one row, if it is one. Most vectors of a row have none.
template <typename T>
struct LabelLane {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    int64_t lane;

    // Returns `values` with `share` subtracted at the label's class.
    GLUONOPS_INLINE V subtract_from(V values, A share) const
    {
        if (uint64_t(lane) < Simd<T>::LANES)
            values[lane] -= share;
        return values;
    }

    // Returns `values` with another value at the label's class.
    GLUONOPS_INLINE V replace_in(V values, A value) const
    {
        if (uint64_t(lane) < Simd<T>::LANES)
            values[lane] = value;
        return values;
    }
};

// The lanes of the label's class in several rows. A lane is -1 where the class is, and otherwise 0.
template <typename T>
struct LabelLanes {
    typedef typename Simd<T>::Vector V;
    typename Simd<T>::Indices lanes;

    template <typename Share>
    GLUONOPS_INLINE V subtract_from(V values, Share share) const
    {
        return values - (lanes ? V{} + share : V{});
    }
};

template <typename N> struct SoftmaxRow { N max, log_sum; };

// The numbers of a block's rows.
template <typename T, template <typename> class Row, int ROOM>
struct RowNumbers {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { COUNT = sizeof(Row<A>) / sizeof(A) };
    alignas(64) A values[COUNT][ROOM];

    GLUONOPS_INLINE void set(int64_t j, const Row<A> &row)
    {
        for (int n = 0; n < COUNT; ++n)
            values[n][j] = reinterpret_cast<const A *>(&row)[n];
    }

    // vector_of(numbers) gives those of the rows of a vector's lanes.
    template <typename VectorOf>
    GLUONOPS_INLINE Row<V> vectors(const VectorOf &vector_of) const
    {
        Row<V> row;
        for (int n = 0; n < COUNT; ++n)
            reinterpret_cast<V *>(&row)[n] = vector_of(values[n]);
        return row;
    }
};

// Reads the classes of neighbouring rows. Without labels all of them are 0.
template <typename Pass, typename Index>
GLUONOPS_INLINE void read_class_ids(const Pass &pass, int64_t first_row, int64_t rows, Index *class_ids)
{
    if (Pass::LABELLED && pass.labels.array.values)
        classes_of_block(pass.labels, first_row, rows, pass.sizes.length, class_ids);
    else
        memset(class_ids, 0, size_t(rows) * sizeof(Index));
}

template <typename Pass>
GLUONOPS_INLINE int64_t class_of_row(const Pass &pass, int64_t row)
{
    return Pass::LABELLED && pass.labels.array.values ? class_of(pass.labels, row, pass.sizes.length) : 0;
}

// Returns the elements from `i` on, counted from where `inputs` point to.
template <typename Pass, typename Row, typename Label, typename Mask>
GLUONOPS_INLINE auto class_element(const typename Pass::Type *const *inputs, int64_t i, const Row &row, Label label,
                                   typename Pass::V weight, Mask mask)
{
    ClassElement<typename Pass::Type, Pass::INPUTS, Row, Label> element;
    for (int k = 0; k < Pass::INPUTS; ++k) {
        const bool is_missing = Pass::VARIES && k > 0 && !inputs[k];
        element.inputs[k] = is_missing ? typename Pass::V{} : load(inputs[k] + i, mask);
    }
    element.label = label;
    element.weight = weight;
    element.row = row;
    return element;
}

// A row whose elements are neighbours.
template <bool WEIGHTED, typename Pass>
struct OneRow {
    typedef typename Pass::Type T;
    typedef typename Pass::A A;
    typedef typename Pass::V V;
    const T *inputs[Pass::INPUTS];
    const A *weights;
    int64_t class_id;

    GLUONOPS_INLINE OneRow(const Pass &pass, int64_t row, int64_t class_id) : weights(pass.weights), class_id(class_id)
    {
        for (int k = 0; k < Pass::INPUTS; ++k)
            inputs[k] = pass.inputs[k] ? pass.inputs[k] + row * pass.sizes.length : nullptr;
    }

    template <typename Row, typename Mask>
    GLUONOPS_INLINE auto element(int64_t i, const Row &row, Mask mask) const
    {
        V weight = broadcast(A(1));
        if constexpr (WEIGHTED)
            weight = load(weights + i, mask);
        return class_element<Pass>(inputs, i, row, LabelLane<T>{class_id - i}, weight, mask);
    }
};

// A block of columns.
template <typename Pass>
struct OneColumnBlock {
    typedef typename Pass::Type T;
    typedef typename Pass::A A;
    typedef typename Pass::V V;
    typedef typename Simd<T>::Index Index;
    typedef typename Simd<T>::Indices Indices;
    const T *inputs[Pass::INPUTS];
    const A *weights;
    const Index *class_ids;
    int64_t pitch, per_line;

    GLUONOPS_INLINE OneColumnBlock(const Pass &pass, ColumnBlock<T> &block, const Index *class_ids)
        : weights(pass.weights), class_ids(class_ids), pitch(block.lines.pitch), per_line(block.lines.per_line)
    {
        for (int k = 0; k < Pass::INPUTS; ++k)
            inputs[k] = pass.inputs[k] ? block.read(pass.inputs[k]) : nullptr;
    }

    GLUONOPS_INLINE Indices classes(int64_t j) const { return load_indices<T>(class_ids + j); }

    template <typename Numbers, typename Mask>
    GLUONOPS_INLINE auto element(int64_t line, int64_t j, const Numbers *numbers, Mask mask) const
    {
        const auto row = numbers->vectors([=](const A *values) GLUONOPS_LAMBDA { return load(values + j); });
        const V weight = broadcast(weights ? weights[line] : A(1));
        const LabelLanes<T> label = {classes(j) == Index(line * per_line)};
        return class_element<Pass>(inputs, line * pitch + j, row, label, weight, mask);
    }
};

}  // namespace gluonops::GLUONOPS_ISA
