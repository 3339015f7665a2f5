// Rows of few classes that are neighbours in memory, such as those of an image's pixels. A thread has all classes of a
// column: of one row, or of float16 of two, which halves the loads, the stores and the addresses. Requests to add go
// another way, and so do tensors whose words are not aligned.
#include "../_softmax/softmax.cuh"

// What a thread reads of a class: at least 4 bytes.
template <typename T>
struct Word {
    enum { ROWS = 1 };
    typedef T type;

    __device__ static T of(const T *values) { return values[0]; }
    __device__ static T value(T word, int) { return word; }
    __device__ static T kept(T word, unsigned rows) { return rows ? word : T(0); }
};

template <>
struct Word<__half> {
    enum { ROWS = 2 };
    typedef unsigned type;

    __device__ static unsigned of(const float *values)
    {
        return __half(values[0]).bits | unsigned(__half(values[1]).bits) << 16;
    }

    __device__ static float value(unsigned word, int row)
    {
        __half half;
        half.bits = (unsigned short)(word >> 16 * row);
        return half;
    }

    // The word with 0 for the rows that are not among these, which have 16 bits each.
    __device__ static unsigned kept(unsigned word, unsigned rows) { return word & rows; }
};

// The sizes of a tensor of columns. `fit` says whether a kernel has a thread for each, and whether words are aligned.
template <typename T>
struct ColumnSizes {
    enum { ROWS = Word<T>::ROWS, MOST = 32 };   // classes
    int64_t count, inner;   // count: of rows
    int classes;

    __device__ ColumnSizes(int64_t count, int64_t classes, int64_t inner)
        : count(count), inner(inner), classes(int(minimum(classes, MOST + 1))) {}

    __device__ bool fit(const T *tensor) const
    {
        const bool whole_words = inner % ROWS == 0 && reinterpret_cast<size_t>(tensor) % (ROWS * sizeof(T)) == 0;
        return inner > 1 && classes <= MOST && blockDim.x == 1 && gridDim.y == 1 && whole_words;
    }

    // The first element of a row.
    __device__ int64_t start(int64_t row) const { return row + quotient(row, inner) * (classes - 1) * inner; }
};

// The first row of each column that a thread has.
template <typename T>
struct ColumnLoop {
    int64_t row, count;

    __device__ explicit ColumnLoop(int64_t count) : row(first_row() * Word<T>::ROWS), count(count) {}
    __device__ bool goes_on() const { return row < count; }
    __device__ void next() { row += row_step() * Word<T>::ROWS; }
};

// Some classes of a column, as they are in memory. What is done to them is done to AT_ONCE without a branch.
template <typename T, int SIZE>
struct ColumnChunk {
    typedef typename Accumulator<T>::type A;
    typedef typename Word<T>::type Item;
    enum { ROWS = Word<T>::ROWS, AT_ONCE = 4 };
    Item items[SIZE];
    int classes;

    // The first of `left` classes. Behind them is -infinity.
    __device__ ColumnChunk(const T *tensor, int64_t inner, int left) : classes(left < SIZE ? left : SIZE)
    {
        const Item *from = reinterpret_cast<const Item *>(tensor);
        const int64_t bytes = inner * sizeof(T);
        const A none[2] = {-infinity<A>(), -infinity<A>()};
        const Item filler = Word<T>::of(none);
#pragma unroll
        for (int k = 0; k < SIZE && k < classes; k += AT_ONCE)
            if (k + AT_ONCE <= classes)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, from = behind(from, bytes))
                    items[j] = *from;
            else
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, from = behind(from, bytes))
                    items[j] = j < classes ? *from : filler;
    }

    // Adds the classes to the sums of each row; see SoftmaxSums.
    template <typename Sums>
    __device__ void add_to(Sums *sums) const
    {
        A max[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            max[r] = sums[r].max;
#pragma unroll
        for (int k = 0; k < SIZE && k < classes; k += AT_ONCE)
#pragma unroll
            for (int j = k; j < k + AT_ONCE; ++j)
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    max[r] = larger(Word<T>::value(items[j], r), max[r]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            sums[r].exponentials *= Exponential<T>(max[r], sums[r].scale)(sums[r].max, 0);
            sums[r].max = max[r];
        }
#pragma unroll
        for (int k = 0; k < SIZE && k < classes; k += AT_ONCE)
#pragma unroll
            for (int j = k; j < k + AT_ONCE; ++j)
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    sums[r].exponentials += Exponential<T>(max[r], sums[r].scale)(Word<T>::value(items[j], r), j);
    }

    // Writes formulas[row](element, its class), and 0 to the rows that are not `kept`.
    template <typename Formula>
    __device__ void write(T *tensor, int64_t inner, const Formula *formulas, unsigned kept) const
    {
        Item *to = reinterpret_cast<Item *>(tensor);
        const int64_t bytes = inner * sizeof(T);
#pragma unroll
        for (int k = 0; k < SIZE && k < classes; k += AT_ONCE) {
            Item results[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                A values[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    values[r] = formulas[r](Word<T>::value(items[k + j], r), k + j);
                results[j] = Word<T>::kept(Word<T>::of(values), kept);
            }
            to = store_words(to, bytes, results, classes - k);
        }
    }

    // Stores the first `left` results. Returns where the next ones go.
    __device__ static Item *store_words(Item *to, int64_t bytes, const Item *results, int left)
    {
        if (left >= AT_ONCE)
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j, to = behind(to, bytes))
                *to = results[j];
        else
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j, to = behind(to, bytes))
                if (j < left)
                    *to = results[j];
        return to;
    }
};

enum { STREAMED_CLASSES = 12 };   // of a column, that a thread holds

// Sums each row of a tensor. `losses` writes what follows from the sums.
template <typename Sums, typename T, typename Losses>
__device__ void sum_columns(const T *data, const ColumnSizes<T> &sizes, const Losses &losses)
{
    enum { ROWS = Word<T>::ROWS };
    for (ColumnLoop<T> at(sizes.count); at.goes_on(); at.next()) {
        Sums sums[ROWS];
        const int64_t start = sizes.start(at.row);
        const T *from = data + start;
#pragma unroll 1
        for (int left = sizes.classes; left > 0; left -= STREAMED_CLASSES, from += STREAMED_CLASSES * sizes.inner)
            ColumnChunk<T, STREAMED_CLASSES>(from, sizes.inner, left).add_to(sums);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            losses.write(at.row + r, start + r, sums[r]);
    }
}

// The gradient of a row with a class: (softmax - target) * head. The target is `less` at the class, and 0 elsewhere. Of a
// row that is not kept the gradient is 0.
template <typename T>
struct ColumnGradient {
    typedef typename Accumulator<T>::type A;
    Exponential<T> probability;
    A less, head;
    int class_id;   // the number of classes behind those that are done
    bool is_kept;

    __device__ ColumnGradient() {}
    __device__ ColumnGradient(A max, A log_sum, A less, A head, int class_id, bool is_kept)
        : probability(max, 1, log_sum), less(less), head(head), class_id(class_id), is_kept(is_kept) {}

    __device__ A operator()(A x, int k) const { return (probability(x, k) - (k == class_id ? less : 0)) * head; }
};

// Writes the gradient of each row of a tensor; `of_rows` knows it.
template <typename T, typename Gradients>
__device__ void write_columns(const T *data, T *data_grad, const ColumnSizes<T> &sizes, const Gradients &of_rows)
{
    enum { ROWS = Word<T>::ROWS };
    for (ColumnLoop<T> at(sizes.count); at.goes_on(); at.next()) {
        int64_t start = sizes.start(at.row);
        ColumnGradient<T> gradients[ROWS];
        unsigned kept = 0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            gradients[r] = of_rows.gradient(at.row + r, start + r);
            kept |= gradients[r].is_kept ? 0xffffu << 16 * r : 0;
        }
#pragma unroll 1
        for (int left = sizes.classes; left > 0; left -= STREAMED_CLASSES, start += STREAMED_CLASSES * sizes.inner) {
            ColumnChunk<T, STREAMED_CLASSES>(data + start, sizes.inner, left)
                .write(data_grad + start, sizes.inner, gradients, kept);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                gradients[r].class_id -= STREAMED_CLASSES;
        }
    }
}

// All classes of a column, as numbers.
template <typename T>
struct HeldColumn {
    typedef typename Accumulator<T>::type A;
    typedef typename Word<T>::type Item;
    enum { ROWS = Word<T>::ROWS, MOST = ColumnSizes<T>::MOST };
    typedef ColumnChunk<T, MOST> Words;
    A values[MOST][ROWS];
    int classes;

    __device__ HeldColumn(const T *tensor, const ColumnSizes<T> &sizes) : classes(sizes.classes)
    {
        const Words words(tensor, sizes.inner, classes);
#pragma unroll
        for (int k = 0; k < MOST; ++k)
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                values[k][r] = Word<T>::value(words.items[k], r);
    }

    // The sums of a row, whose numbers become exponentials; see SoftmaxSums.
    __device__ SoftmaxSums<A> exponentials(int row, A scale)
    {
        SoftmaxSums<A> sums(scale);
#pragma unroll
        for (int k = 0; k < MOST && k < classes; k += Words::AT_ONCE)
#pragma unroll
            for (int j = k; j < k + Words::AT_ONCE; ++j)
                sums.max = larger(values[j][row], sums.max);
        const Exponential<T> formula(sums.max, scale);
#pragma unroll
        for (int k = 0; k < MOST && k < classes; k += Words::AT_ONCE)
#pragma unroll
            for (int j = k; j < k + Words::AT_ONCE; ++j) {
                values[j][row] = formula(values[j][row], j);
                sums.exponentials += values[j][row];
            }
        return sums;
    }

    // Writes the products with a factor for each row.
    __device__ void write(T *tensor, int64_t inner, const A *factors) const
    {
        Item *to = reinterpret_cast<Item *>(tensor);
#pragma unroll
        for (int k = 0; k < MOST && k < classes; k += Words::AT_ONCE) {
            Item results[Words::AT_ONCE];
#pragma unroll
            for (int j = 0; j < Words::AT_ONCE; ++j) {
                A products[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    products[r] = values[k + j][r] * factors[r];
                results[j] = Word<T>::of(products);
            }
            to = Words::store_words(to, inner * sizeof(T), results, classes - k);
        }
    }
};

// Softmax of columns; see softmax_rows. False: there are none, and nothing is done.
template <typename Args>
__device__ bool softmax_columns(const Args &args, typename Args::A scale)
{
    typedef typename Args::Data T;
    enum { ROWS = Word<T>::ROWS };
    const ColumnSizes<T> sizes(args.batch * args.inner, args.classes, args.inner);
    if (args.output_request != WRITE || !sizes.fit(args.data) || !sizes.fit(args.output))
        return false;
    for (ColumnLoop<T> at(args.batch * args.inner); at.goes_on(); at.next()) {
        const int64_t start = sizes.start(at.row);
        HeldColumn<T> x(args.data + start, sizes);
        typename Args::A factors[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            factors[r] = 1 / x.exponentials(r, scale).exponentials;
        x.write(args.output + start, args.inner, factors);
    }
    return true;
}
