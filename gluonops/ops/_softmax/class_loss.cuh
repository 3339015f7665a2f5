// Losses over rows of classes, and what has the same layouts: sums over a row, a finish, a map. A row has 1 to 32
// threads, a block, or splits with a block each. An operator supplies what the layouts share. A loss has
//
//     BYTES                                          of each input, that a thread holds
//     Row; row(row, rows)                            what the sums of a row need. If `reads` is false, there are none
//     Sums; none(); add(sums, x, row, rows, split)   the sums of a row; `x` are chunks of a split
//
// and store_loss, a function that stores what there is of a row. A gradient has
//
//     BYTES, LABELLED, SUMS, HELD                   see ClassPass
//     Row; row(row, class_id, start)                numbers of a row. If `factor` is NaN, so is the gradient
//     gradient(element), second_gradient(element)   of the two results; most have one
//
// If SUMS, it has sums() and term(element) too, and a row has the sum of the terms.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"

struct RowSizes {
    int64_t count, length, inner;
};

template <typename Args>
__device__ RowSizes class_rows(const Args &args)
{
    return {args.batch * args.inner, args.classes, args.inner};
}

// The tensors of a pass. Where there are two results, the second one and the second input may be null.
template <typename T, int READ, int WRITTEN = 1>
struct ClassRows {
    typedef T Type;
    enum { INPUTS = READ, RESULTS = WRITTEN };
    RowSizes sizes;
    const T *inputs[READ];
    T *results[WRITTEN];
    int requests[WRITTEN];

    __device__ bool all_aligned() const
    {
        bool all = true;
        for (int n = 0; n < READ; ++n)
            all = all && aligned(inputs[n]);
        for (int n = 0; n < WRITTEN; ++n)
            all = all && aligned(results[n]);
        return all;
    }

    // Reads each input's chunk at the i-th element of a split. One without a tensor is 0: the test for it keeps the
    // loads of the inputs apart.
    template <typename Chunk>
    __device__ void read(Chunk *x, const Rows<T> &rows, const RowSplit &split, int64_t i,
                         typename Accumulator<T>::type empty) const
    {
        if (WRITTEN == 1) {
            Chunk::template read_all<READ>(x, inputs, rows, split, i, empty);
        } else {
#pragma unroll
            for (int n = 0; n < READ; ++n)
                if (n == 0 || inputs[n])
                    x[n].read(inputs[n], rows, split, i, empty);
                else
                    x[n].fill(0);
        }
    }

    template <typename Chunk>
    __device__ void write(const Chunk *x, const Rows<T> &rows, const RowSplit &split, int64_t i) const
    {
#pragma unroll
        for (int n = 0; n < WRITTEN; ++n)
            if (n == 0 || results[n])
                x[n].write(results[n], rows, split, i, requests[n]);
    }
};

// Returns the tensors of a pass over logits. Forward has no gradient of the logits.
template <typename Args>
__device__ ClassRows<typename Args::Data, 1> logit_rows(const Args &args)
{
    return {class_rows(args), {args.data}, {args.data_grad}, {args.data_grad_request}};
}

// Returns the number of a class among this thread's elements of the chunk at the i-th element of a split, or -1 if the
// thread has not got it. The threads of a row hold `length` elements.
template <typename T>
__device__ int number_of_class(int64_t class_id, const Rows<T> &rows, const RowSplit &split, int64_t i, int length)
{
    const int64_t offset = class_id - split.position - i;
    return offset >= 0 && offset < length ? rows.number(int(offset)) : -1;
}

// -- losses -----------------------------------------------------------------------------------------------------------

// What the sums of a row need, at least: whether there is something to read.
struct RowOfLoss {
    bool reads;
};

// What losses of labels share whose sums are those of a softmax. A loss has loss(class_id, nll, log_sum, sums) besides:
// nll is the negative logarithm of the probability of the class. Where has_sums(class_id) is false, a row counts as one
// of zeros.
template <typename GivenArgs>
struct LabelLoss {
    typedef GivenArgs Args;
    typedef typename Args::Data T;
    typedef typename Args::A A;
    typedef SoftmaxSums<T> Sums;
    typedef RowOfLoss Row;
    enum { BYTES = STREAMED_BYTES };
    const Args &args;

    __device__ explicit LabelLoss(const Args &args) : args(args) {}
    __device__ int64_t class_of_row(int64_t row) const { return class_of(args, row); }
    __device__ bool has_sums(int64_t class_id) const { return class_id != IGNORED; }

    // Where no label is ignored, the row does not wait for its label. No register holds the label's address afterwards.
    __device__ Row row(int64_t row, const Rows<T> &) const
    {
        return {!args.ignore_label.has_value || has_sums(class_of_row(opaque(row)))};
    }

    __device__ Sums none() const { return Sums(); }
    __device__ A logit(A x) const { return x; }

    template <typename Chunk>
    __device__ void add(Sums &sums, Chunk *x, const Row &, const Rows<T> &, const RowSplit &) const
    {
        sums.add_chunk(x[0]);
    }
};

// Returns the logit of a row's class.
template <typename Loss>
__device__ typename Loss::A logit_of_class(const Loss &loss, const Rows<typename Loss::T> &rows, int64_t row,
                                           int64_t class_id)
{
    return loss.logit(load(loss.args.data, rows.start(row) + class_id * rows.inner));
}

// Stores the outputs of a row with a label.
template <typename Loss, typename Sums>
__device__ void store_loss(const Loss &loss, int64_t row, const Rows<typename Loss::T> &rows, Sums sums)
{
    typedef typename Loss::A A;
    const int64_t class_id = loss.class_of_row(row);
    if (!loss.has_sums(class_id))
        sums.set_zeros(rows.length);
    const A log_sum = sums.log_sum();
    store(loss.args.max, row, sums.max, loss.args.max_request);
    store(loss.args.log_sum, row, log_sum, loss.args.log_sum_request);
    A value = class_id == IGNORED ? A(0) : not_a_number<A>();
    if (class_id >= 0) {
        const A logit = logit_of_class(loss, rows, row, class_id);
        value = loss.loss(class_id, log_sum - (logit - sums.max) * sums.scale, log_sum, sums);
    }
    store(loss.args.output, row, value, loss.args.output_request);
}

template <int ROWS, typename Tensors, typename Loss>
__device__ void losses_of_rows(const Tensors &tensors, const Loss &loss)
{
    typedef typename Tensors::Type T;
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, Loss::BYTES / ROWS> Chunk;
    const SplitSums<A> splits(loss.args.counts, loss.args.sums);
    const Rows<T> rows(tensors.sizes.length, tensors.sizes.inner, tensors.all_aligned());
    for (RowLoop at(tensors.sizes.count / ROWS); at.goes_on(); at.next()) {
        const int64_t first = at.row() * ROWS;
        const typename Loss::Row row[2] = {loss.row(first, rows), loss.row(first + ROWS - 1, rows)};
        typename Loss::Sums sums[2] = {loss.none(), loss.none()};
        const bool reads = row[0].reads || row[1].reads;
#pragma unroll 1
        for (RowSplit left = rows.split(first, at.split, at.exists() && reads); left.length > 0;
             left.skip(Chunk::length(), rows.inner)) {
            Chunk x[2][Tensors::INPUTS];
            if (ROWS == 1)
                tensors.read(x[0], rows, left, 0, -infinity<A>());
            else
                Chunk::read_pair(x[0][0], x[1][0], tensors.inputs[0], rows, left, 0, -infinity<A>());
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                loss.add(sums[r], x[r], row[r], rows, left);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if ((ROWS > 1 || splits.gather(first, at.split, sums[r], loss.none())) && at.is_first_in_block())
                store_loss(loss, opaque(first + r), rows, sums[r]);   // No register holds its addresses in the loop.
    }
}

template <typename Tensors, typename Loss>
__device__ void class_loss(const Tensors &tensors, const Loss &loss)
{
    if (Tensors::INPUTS == 1 && in_pairs(tensors.sizes.inner, tensors.all_aligned()))
        losses_of_rows<Tensors::INPUTS == 1 ? 2 : 1>(tensors, loss);
    else
        losses_of_rows<1>(tensors, loss);
}

// -- gradients --------------------------------------------------------------------------------------------------------

// Whether an element is that of the label's class.
struct Label {
    bool is_here;

    template <typename A>
    __device__ A subtract_from(A value, A share) const { return is_here ? value - share : value; }

    template <typename A>
    __device__ A replace_in(A value, A other) const { return is_here ? other : value; }
};

template <typename A, int INPUTS, typename Row>
struct ClassElement {
    A inputs[INPUTS], weight;
    const Row &row;
    Label label;
};

// What gradients share. LABELLED: whether rows have labels. SUMS: whether there may be a sum over a row. HELD: whether
// the chunk that is read last for the sum is kept.
template <typename GivenArgs>
struct ClassPass {
    typedef GivenArgs Args;
    typedef typename Args::Data T;
    typedef typename Args::A A;
    enum { BYTES = STREAMED_BYTES, LABELLED = true, SUMS = false, HELD = false };
    const Args &args;

    __device__ explicit ClassPass(const Args &args) : args(args) {}
    __device__ int64_t class_of_row(int64_t row) const { return class_of(args, row); }
    __device__ bool sums() const { return false; }
    __device__ A weight(int64_t) const { return 1; }   // The elements of a class have it.

    template <typename Element>
    __device__ A second_gradient(const Element &) const { return 0; }
};

// The gradients of a chunk take the place of its inputs.
template <int ROWS, typename Pass, typename Tensors>
struct ChunkOfPass {
    typedef typename Tensors::Type T;
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, Pass::BYTES / ROWS> Chunk;
    typedef typename Pass::Row Row;
    typedef ClassElement<A, Tensors::INPUTS, Row> Element;
    const Pass &pass;
    const Rows<T> &rows;
    Chunk x[Tensors::INPUTS];

    __device__ ChunkOfPass(const Pass &pass, const Rows<T> &rows) : pass(pass), rows(rows) {}

    // `first` is the chunk's first class. Behind the end the weight is 0.
    __device__ Element element(int k, const Row &row, bool is_label, int64_t first) const
    {
        Element at = {{}, k < x[0].count ? pass.weight(first + rows.offset(k)) : A(0), row, {is_label}};
#pragma unroll
        for (int n = 0; n < Tensors::INPUTS; ++n)
            at.inputs[n] = x[n].values[k];
        return at;
    }

    __device__ A sum(const Row &row, int64_t first) const
    {
        A sum = 0;
        x[0].each([&](int k) { sum += pass.term(element(k, row, false, first)); });
        return sum;
    }

    // `label` is the number of the label's element. Most groups do without its tests, but with a row or two for each
    // thread, a warp has a label in almost every group.
    __device__ void differentiate(const Row &row, int label, int64_t first)
    {
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; k += Chunk::AT_ONCE) {
            if (k >= x[0].most)
                continue;
            if (Pass::LABELLED && (ROWS > 1 || (label >= k && label < k + Chunk::AT_ONCE)))
                differentiate_group<true>(k, row, label, first);
            else
                differentiate_group<false>(k, row, label, first);
        }
    }

    template <bool HAS_LABEL>
    __device__ void differentiate_group(int k, const Row &row, int label, int64_t first)
    {
#pragma unroll
        for (int j = k; j < k + Chunk::AT_ONCE; ++j) {
            const Element at = element(j, row, HAS_LABEL && label == j, first);
            x[0].values[j] = pass.gradient(at);
            if (Tensors::RESULTS > 1)
                x[Tensors::RESULTS - 1].values[j] = pass.second_gradient(at);
        }
    }
};

// The sum of a row's terms, in front of its gradients. Returns whether these follow in this launch.
template <bool SUMS>
struct SumOfRow {
    template <typename Pass, typename Tensors, typename Chunk>
    __device__ static bool find(const Pass &, const Tensors &, const RowLoop &, const RowSplit &, Chunk &,
                                typename Pass::Row &) { return true; }
};

template <>
struct SumOfRow<true> {
    template <typename Pass, typename Tensors, typename Chunk>
    __device__ static bool find(const Pass &pass, const Tensors &tensors, const RowLoop &at, const RowSplit &split,
                                Chunk &chunk, typename Pass::Row &row)
    {
        typedef typename Pass::A A;
        if (!pass.sums())
            return true;
        PlainSum<A> sums;
#pragma unroll 1
        for (int64_t i = 0; finds_sums(pass.args) && i < split.length; i += Chunk::Chunk::length()) {
            tensors.read(chunk.x, chunk.rows, split, i, 0);
            sums.sum += chunk.sum(row, split.position + i);
        }
        const bool has_sums = share_sums(pass.args, at, sums, PlainSum<A>());
        row.sum = sums.sum;
        return has_sums;
    }
};

template <int ROWS, typename Tensors, typename Pass>
__device__ void gradients_of_rows(const Tensors &tensors, const Pass &pass)
{
    typedef typename Tensors::Type T;
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, Pass::BYTES / ROWS> Chunk;
    const Rows<T> rows(tensors.sizes.length, tensors.sizes.inner, tensors.all_aligned());
    ChunkOfPass<ROWS, Pass, Tensors> chunk[2] = {{pass, rows}, {pass, rows}};
    for (RowLoop at(tensors.sizes.count / ROWS); at.goes_on(); at.next()) {
        const int64_t first = at.row() * ROWS;
        const int64_t class_id[2] = {pass.class_of_row(first), pass.class_of_row(first + ROWS - 1)};
        const RowSplit split = rows.split(first, at.split, at.exists());
        const int64_t start = rows.start(first);
        typename Pass::Row row[2] = {pass.row(first, class_id[0], start),
                                     pass.row(first + ROWS - 1, class_id[1], start + ROWS - 1)};
        if (!SumOfRow<Pass::SUMS>::find(pass, tensors, at, split, chunk[0], row[0]))
            continue;
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (class_id[r] == NO_CLASS)
                row[r].factor = not_a_number<A>();
        const bool is_held = Pass::HELD && gridDim.y == 1;   // the last chunk
        const int64_t last = split.last_chunk(Chunk::length());
#pragma unroll 1
        for (int64_t i = last; i >= 0; i -= Chunk::length()) {
            if (ROWS > 1)
                Chunk::read_pair(chunk[0].x[0], chunk[1].x[0], tensors.inputs[0], rows, split, i, 0);
            else if (!is_held || i < last)
                tensors.read(chunk[0].x, rows, split, i, 0);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const int label = ROWS > 1 ? int(class_id[r] - i)
                    : number_of_class(class_id[r], rows, split, i, Chunk::length());
                chunk[r].differentiate(row[r], label, split.position + i);
                if (Pass::LABELLED && class_id[r] == IGNORED)   // whatever the row or the head gradient holds
                    chunk[r].x[0].fill(0);
            }
            if (ROWS > 1)
                Chunk::write_pair(chunk[0].x[0], chunk[1].x[0], tensors.results[0], rows, split, i,
                                  tensors.requests[0]);
            else
                tensors.write(chunk[0].x, rows, split, i);
        }
    }
}

template <typename Tensors, typename Pass>
__device__ void class_gradient(const Tensors &tensors, const Pass &pass)
{
    if (Tensors::INPUTS == 1 && in_pairs(tensors.sizes.inner, tensors.all_aligned()))
        gradients_of_rows<Tensors::INPUTS == 1 ? 2 : 1>(tensors, pass);
    else
        gradients_of_rows<1>(tensors, pass);
}
