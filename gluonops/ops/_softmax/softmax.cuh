// Rows of an (outer, length, inner) tensor, and sums over them. A row holds the logits of all classes.
//
// blockDim.x threads share a row: 1 to 32 lanes of a warp, or a whole block. A long row has gridDim.y parts, a block for
// each. A thread holds its elements in registers (RowChunk), so that a row is read once however long it is. An operator
// supplies
//
//     a source   the sums of a part of a row, such as SoftmaxSource; sum_row sums it over the row;
//     sums       what is summed, such as SoftmaxSums; Exchange carries it from block to block where all blocks of a row
//                need it; else the last one gathers it;
//     a formula  the new value of an element from the old one and its number, for RowChunk::apply.
//
// A loop over chunks is not unrolled: the registers of two chunks are those that another block would need.
#include "../_blocks/blocks.cuh"

enum { HELD_BYTES = 128 };     // of a row, that a thread of at most 256 holds in registers; see __launch_bounds__
enum { STREAMED_BYTES = 64 };  // of a row of which nothing is held: so more threads share a multiprocessor
enum { PART_UNIT = 64 };       // parts begin at a multiple of so many elements

// A part of a row: elements start, start + inner, ... of the tensor. `position` is that of the first one in its row.
struct RowPart {
    int64_t start, position, length;

    // Leaves out so many elements at the beginning.
    __device__ void skip(int64_t elements, int64_t inner)
    {
        start += elements * inner;
        position += elements;
        length -= elements;
    }
};

// The rows of a tensor, and which elements of them a thread has: of a chunk that begins at the start of a row, packed
// ones are first, first + 1, ..., first + GROUP - 1, first + step, ..., and others first, first + step, ...
template <typename T>
struct Rows {
    enum { GROUP = Pack<T>::SIZE };   // elements of 16 bytes
    int64_t length, inner, part_length;
    bool packed;
    int first, step, log_step;

    __device__ Rows(int64_t length, int64_t inner, bool aligned_tensors)
        : length(length), inner(inner), part_length(length),
          packed(inner == 1 && length % GROUP == 0 && aligned_tensors), first(threadIdx.x * width()),
          step(blockDim.x * width()), log_step(31 - __clz(step))
    {
        if (gridDim.y > 1)
            part_length = (length + gridDim.y * PART_UNIT - 1) / (gridDim.y * PART_UNIT) * PART_UNIT;
    }

    // The elements that a thread reads or writes at once.
    __device__ int width() const { return packed ? GROUP : 1; }

    // The first element of a row.
    __device__ int64_t start(int64_t row) const { return inner == 1 ? row * length : strided_start(row); }

    // Without `reads` the part has no elements.
    __device__ RowPart part(int64_t row, int number, bool reads = true) const
    {
        return part_from(start(row), number, reads);
    }

    // The same of the row that begins there.
    __device__ RowPart part_from(int64_t row_start, int number, bool reads = true) const
    {
        const int64_t position = number * part_length;
        const RowPart part = {row_start + position * inner, position,
                              reads && position < length ? minimum(part_length, length - position) : 0};
        return part;
    }

    __device__ int64_t strided_start(int64_t row) const
    {
        const int64_t before = quotient(row, inner);
        return before * length * inner + (row - before * inner);
    }

    // The number of this thread's elements among `left` ones.
    __device__ int count(int left) const
    {
        return left <= first ? 0 : ((left - first + step - 1) >> log_step) * width();
    }

    // The most elements that a thread has among `left` ones.
    __device__ int most(int left) const { return ((left + step - 1) >> log_step) * width(); }

    // The offset, in the chunk, of this thread's element with this number: the inverse of `number`.
    __device__ int offset(int number) const
    {
        const int group = packed ? number / GROUP : number, within = packed ? number % GROUP : 0;
        return first + group * step + within;
    }

    // How far, in the chunk, this thread's next element is behind the one with this number.
    __device__ int to_next(int number) const
    {
        return !packed ? step : (number + 1) % GROUP == 0 ? step - GROUP + 1 : 1;
    }

    // The number of the element at this offset among the thread's, or -1 if it is another thread's.
    __device__ int number(int offset) const
    {
        const int beyond = (offset & (step - 1)) - first;
        const bool own = beyond >= 0 && beyond < width();
        return own ? (offset >> log_step) * width() + beyond : -1;
    }
};

// The row and the part of it that a thread works on, one after the other. Blocks start in the order of their numbers, and
// those of one row wait for each other: so their numbers follow each other. The threads of a warp stay together, so that
// they can reduce without regard to what a row is like: behind the last row, some have the last one again.
struct RowLoop {
    int64_t row, count, number;
    int part, behind;   // behind: the number of the warp's rows that are in front of this one
    bool exists;        // false: there is nothing to read and nothing to write

    __device__ explicit RowLoop(int64_t count) : count(count), number(first_row()), part(0), behind(0)
    {
        if (gridDim.y > 1) {
            const int64_t block = int64_t(blockIdx.y) * gridDim.x + blockIdx.x;
            number = quotient(block, gridDim.y);
            part = int(block - number * gridDim.y);
        }
        if (blockDim.x < 32)
            behind = threadIdx.y & ((32 >> (31 - __clz(blockDim.x))) - 1);
        set_row();
    }

    __device__ void set_row()
    {
        exists = number < count;
        row = exists ? number : count - 1;
    }

    __device__ bool goes_on() const { return number - behind < count; }

    __device__ void next()
    {
        number += gridDim.y > 1 ? int64_t(gridDim.x) : row_step();
        set_row();
    }

    // The first of the threads that share the row in this block.
    __device__ bool is_first_in_block() const { return exists && threadIdx.x == 0; }

    // The thread that writes what there is once for a row.
    __device__ bool is_first_thread() const { return is_first_in_block() && part == 0; }
};

// The elements of a chunk that a thread holds: `count` of them. Behind them is what `read` puts there. What is done to
// elements is done to the first `most`, AT_ONCE without a branch, as this is the fastest.
template <typename T, int BYTES = HELD_BYTES>
struct RowChunk {
    typedef typename Accumulator<T>::type A;
    enum { GROUP = Pack<T>::SIZE, SIZE = BYTES / sizeof(A), AT_ONCE = BYTES < 32 ? SIZE : 32 / sizeof(A) };
    A values[SIZE];
    int count, most;   // most: of all threads

    // The number of elements that the threads of a row hold.
    __device__ static int length() { return blockDim.x * SIZE; }

    // How many elements a chunk has that begins at the i-th element of the part.
    __device__ void set_size(const Rows<T> &rows, const RowPart &part, int64_t i)
    {
        const int left = int(minimum(part.length - i, length()));
        count = rows.count(left);
        most = rows.most(left);
    }

    // The chunk begins at the i-th element of the part. Behind the end is `empty`.
    __device__ void read(const T *tensor, const Rows<T> &rows, const RowPart &part, int64_t i, A empty)
    {
        set_size(rows, part, i);
        const T filler(empty);
        if (rows.packed)
            read_packs(tensor + (part.start + i + rows.first), opaque(rows.step), filler);
        else
            read_items(tensor + (part.start + (i + rows.first) * rows.inner), rows.step * rows.inner, filler);
    }

    __device__ void read_packs(const T *from, int64_t step, const T &filler)
    {
        Pack<T> packs[SIZE / GROUP];   // all loads come before the first conversion
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP, from += step)
            if (k < count)
                packs[k / GROUP] = load_pack(from, 0);
            else
                packs[k / GROUP].fill(filler);
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = load(packs[k / GROUP].items, k % GROUP);
    }

    // Where all of AT_ONCE elements exist there is no branch for each.
    __device__ void read_items(const T *from, int64_t step, const T &filler)
    {
        const int64_t bytes = step * sizeof(T);
        T items[SIZE];   // as in read_packs
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k + AT_ONCE <= count)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, from = behind(from, bytes))
                    items[j] = *from;
            else if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, from = behind(from, bytes))
                    items[j] = j < count ? *from : filler;
            else
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    items[j] = filler;
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = load(items, k);
    }

    __device__ void write(T *tensor, const Rows<T> &rows, const RowPart &part, int64_t i, int request) const
    {
        if (rows.packed)
            write_packs(tensor + (part.start + i + rows.first), opaque(rows.step), request);
        else
            write_items(tensor + (part.start + (i + rows.first) * rows.inner), rows.step * rows.inner, request);
    }

    __device__ void write_packs(T *to, int64_t step, int request) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP, to += step)
            if (k < count)
                store_pack(to, 0, values + k, request);
    }

    __device__ void write_items(T *to, int64_t step, int request) const
    {
        const int64_t bytes = step * sizeof(T);
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k + AT_ONCE <= count && request == WRITE)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, to = behind(to, bytes))
                    *to = T(values[j]);
            else if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, to = behind(to, bytes))
                    if (j < count)
                        store(to, 0, values[j], request);
    }

    __device__ void fill(A value)
    {
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = value;
    }

    // Turns each element into formula(element, its number).
    template <typename Formula>
    __device__ void apply(const Formula &formula)
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    values[j] = formula(values[j], j);
    }

    // The same of one element; of none where `number` is -1.
    template <typename Formula>
    __device__ void apply_to(int number, const Formula &formula)
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (number >= k && number < k + AT_ONCE)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    values[j] = number == j ? formula(values[j], j) : values[j];
    }

    // The sum of `start` and the products with the elements of another chunk.
    __device__ A dot(const RowChunk &other, A start) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    start += values[j] * other.values[j];
        return start;
    }

    // `start` combined with each element, in their order.
    template <typename Combine>
    __device__ A fold(A start, Combine combine) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    start = combine(values[j], start);
        return start;
    }

    // apply, and then the sum of `start` and the results.
    template <typename Formula>
    __device__ A apply_and_sum(const Formula &formula, A start)
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j) {
                    values[j] = formula(values[j], j);
                    start += values[j];
                }
        return start;
    }
};

// exp(x * factor) of a logarithm x, as exact as T; `unit` is the factor that makes it exp(x). And the logarithm of a sum.
template <typename T>
struct ExponentialOf {
    typedef typename Accumulator<T>::type A;
    __device__ static A unit() { return 1; }
    __device__ static A of(A x) { return exponential(x); }
    __device__ static A log(A x) { return logarithm(x); }
};
template <>
struct ExponentialOf<__half> {
    __device__ static float unit() { return 1.4426950408889634f; }
    __device__ static float of(float x) { return power_of_two(x); }
    __device__ static float log(float x) { return binary_logarithm(x) * 0.6931471805599453f; }
};

// Of a number and NaN it is the number.
struct Largest { template <typename A> __device__ A operator()(A a, A b) const { return larger(a, b); } };

// exp((x - max) * scale - log_sum). The factor is finite, so that 0 stays 0 whatever the scale.
template <typename T>
struct Exponential {
    typedef typename Accumulator<T>::type A;
    A max, factor, log_sum;

    __device__ Exponential() {}
    __device__ explicit Exponential(A max, A scale = 1, A log_sum = 0)
        : max(max), factor(smaller(scale * ExponentialOf<T>::unit(), -lowest<A>())),
          log_sum(log_sum * ExponentialOf<T>::unit()) {}
    __device__ A operator()(A x, int) const { return ExponentialOf<T>::of(fma(x - max, factor, -log_sum)); }
};

template <typename A>
struct Difference {
    A less;
    __device__ A operator()(A x, int) const { return x - less; }
};

template <typename A>
struct ScaledDifference {
    A less, factor;
    __device__ A operator()(A x, int) const { return (x - less) * factor; }
};

template <typename A>
struct Product {
    A factor;
    __device__ A operator()(A x, int) const { return x * factor; }
};

// The number of a class among this thread's elements of the chunk at the i-th element of a part; -1 if it has not got it.
// The threads of a row hold `length` elements.
template <typename T>
__device__ int number_of_class(int64_t class_id, const Rows<T> &rows, const RowPart &part, int64_t i, int length)
{
    const int64_t offset = class_id - part.position - i;
    return offset >= 0 && offset < length ? rows.number(int(offset)) : -1;
}

// What a number is reduced over: neighbouring lanes of a warp, all of whose lanes do the same.
struct OverLanes {
    int lanes;
    template <typename A, typename Combine>
    __device__ A operator()(A value, Combine combine) const { return reduce_warp(value, combine, lanes); }
};

// The sums of a row's threads become those of the row, or of the part that a block has. All numbers go from warp to warp
// at once.
template <typename A, typename Sums>
__device__ void reduce_sums(Sums &sums)
{
    if (blockDim.x == 1)
        return;
    if (blockDim.x < 32) {
        const OverLanes in_row = {int(blockDim.x)};
        sums.reduce(in_row);
        return;
    }
    const OverLanes in_warp = {32};   // a constant, for which there is no branch
    sums.reduce(in_warp);
    if (blockDim.x == 32)
        return;
    __shared__ A numbers[Sums::NUMBERS][32];
    __syncthreads();   // the sums before these may still be read
    if (threadIdx.x % 32 == 0)
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            numbers[i][threadIdx.x / 32] = sums.number(i);
    __syncthreads();
    const OverLanes over_warps = {int(blockDim.x / 32)};   // a power of two
#pragma unroll
    for (int i = 0; i < Sums::NUMBERS; ++i)
        sums.number(i) = numbers[i][threadIdx.x & (over_warps.lanes - 1)];
    sums.reduce(over_warps);
}

// A sum over a row.
template <typename A>
struct PlainSum {
    enum { NUMBERS = 1 };
    A sum;

    __device__ explicit PlainSum(A sum = 0) : sum(sum) {}

    __device__ void add(const PlainSum &other) { sum += other.sum; }
    __device__ void reduce(const OverLanes &over) { sum = over(sum, Sum()); }
    __device__ A &number(int) { return sum; }
};

// The largest x, and the sum of exp((x - max) * scale). A NaN or a +infinity makes the sum NaN. Nothing but -infinity
// makes it 0.
template <typename A>
struct SoftmaxSums {
    enum { NUMBERS = 2 };
    A scale, max, exponentials;

    __device__ explicit SoftmaxSums(A scale = 1) : scale(scale), max(lowest<A>()), exponentials(0) {}

    __device__ A factor_to(A other_max) const { return exponential((max - other_max) * scale); }

    // An ignored row counts as a row of zeros, whatever it holds.
    __device__ void set_zeros(int64_t classes)
    {
        max = 0;
        exponentials = A(classes);
    }

    __device__ void raise_max(A to)
    {
        exponentials *= factor_to(to);
        max = to;
    }

    // Adds a chunk, and turns its elements into exp((x - max) * scale).
    template <typename T, int BYTES>
    __device__ void add(RowChunk<T, BYTES> &x)
    {
        const A before = max;
        max = x.fold(before, Largest());
        const Exponential<T> formula(max, scale);
        exponentials = x.apply_and_sum(formula, exponentials * formula(before, 0));
    }

    __device__ void add(const SoftmaxSums &other)
    {
        raise_max(larger(other.max, max));
        exponentials += other.exponentials * other.factor_to(max);
    }

    __device__ void reduce(const OverLanes &over)
    {
        raise_max(over(max, Largest()));
        exponentials = over(exponentials, Sum());
    }

    __device__ A &number(int i) { return i == 0 ? max : exponentials; }
};

// Where the blocks of a row tell each other the sums of its parts: NUMBERS places for each part. A place is EMPTY until
// its number is there, which is written at once and needs no fence. The last block of a row empties its places again.
template <int NUMBERS>
struct Exchange {
    enum { EMPTY = 0 };        // as 64 bits; a number has the opposite bits, which are never 0
    enum { PATIENCE = 128 };   // times that a place is looked at, together about 100 us
    unsigned *counts;
    int64_t *places;

    template <typename Args>
    __device__ explicit Exchange(const Args &args) : counts(args.counts), places(args.places) {}

    __device__ volatile int64_t *of_part(int64_t row, int part) const
    {
        return places + (row * gridDim.y + part) * NUMBERS;
    }

    // The block has read all places of the row. Nobody needs them after the last block.
    __device__ void leave(int64_t row) const
    {
        if (threadIdx.x >= 32)
            return;
        const int last = threadIdx.x == 0 && is_last_of(gridDim.y, counts + row);
        if (!__shfl_sync(0xffffffffu, last, 0))
            return;
        for (int i = threadIdx.x; i < int(gridDim.y) * NUMBERS; i += 32)
            of_part(row, 0)[i] = EMPTY;
    }

    template <typename Sums>
    __device__ void put(int64_t row, int part, Sums &sums) const
    {
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i) {
            const double number = sums.number(i);
            const bool is_nan = number != number;
            of_part(row, part)[i] = ~__double_as_longlong(is_nan ? not_a_number<double>() : number);
        }
    }

    // Whether the numbers of a part come in time.
    template <typename Sums>
    __device__ bool wait_for(int64_t row, int part, Sums &sums) const
    {
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i) {
            volatile int64_t *const place = of_part(row, part) + i;
            int64_t bits = *place;
            for (int tries = 0; bits == EMPTY && tries < PATIENCE; ++tries)
                bits = *place;
            if (bits == EMPTY)
                return false;
            sums.number(i) = __longlong_as_double(~bits);
        }
        return true;
    }

    // A warp adds all parts of a row to `sums`. Returns a part that does not come, or -1; where several do not come,
    // different blocks get different ones.
    template <typename Sums>
    __device__ int collect(int64_t row, int own, Sums &sums) const
    {
        const int parts = gridDim.y;
        int missing = -1;
        for (int part = threadIdx.x; part < parts; part += 32) {
            Sums other = sums;
            if (wait_for(row, part, other))
                sums.add(other);
            else
                missing = Max()((part + own) % parts, missing);
        }
        const OverLanes in_warp = {32};
        sums.reduce(in_warp);
        missing = reduce_warp(missing, Max());
        return missing < 0 ? missing : (missing - own + parts) % parts;
    }
};

// The sums of the row that begins at `start`, or of nothing without `reads`. `held` is what the threads hold of the source
// afterwards: the last chunk of their part.
//
// A part's block may not even have started, because there is no room for it until others end. So a block does not wait
// for ever: it computes what is missing itself, and its own part again, with the same code and so the same bits.
//
// The first warp adds up what the warps have summed, and what the blocks have.
template <typename Source, int NUMBERS>
__device__ typename Source::Sums sum_row(const Source &source, const RowLoop &at, int64_t start, bool reads,
                                         const Exchange<NUMBERS> &exchange, typename Source::Held &held)
{
    typedef typename Source::A A;
    __shared__ A of_warps[NUMBERS][32];
    __shared__ A of_row[NUMBERS];
    __shared__ int next;
    for (int computed = at.part;;) {
        typename Source::Sums sums = source.sum(start, computed, reads, held);
        if (gridDim.y == 1) {
            reduce_sums<A>(sums);
            return sums;
        }
        const OverLanes in_warp = {32}, over_warps = {int(blockDim.x / 32)};
        sums.reduce(in_warp);
#pragma unroll
        for (int i = 0; i < NUMBERS; ++i)
            if (threadIdx.x % 32 == 0)
                of_warps[i][threadIdx.x / 32] = sums.number(i);
        __syncthreads();   // the warps' sums of the part
        if (threadIdx.x < 32) {
#pragma unroll
            for (int i = 0; i < NUMBERS; ++i)
                sums.number(i) = of_warps[i][threadIdx.x & (over_warps.lanes - 1)];
            sums.reduce(over_warps);
            if (threadIdx.x == 0)
                exchange.put(at.row, computed, sums);
            sums = source.none();
            const int missing = exchange.collect(at.row, at.part, sums);
#pragma unroll
            for (int i = 0; i < NUMBERS; ++i)
                if (threadIdx.x == 0)
                    of_row[i] = sums.number(i);
            if (threadIdx.x == 0)
                next = missing;
        }
        __syncthreads();   // the parts' sums of the row
        if (next < 0 && computed == at.part) {
            exchange.leave(at.row);
#pragma unroll
            for (int i = 0; i < NUMBERS; ++i)
                sums.number(i) = of_row[i];
            return sums;
        }
        computed = next < 0 ? at.part : next;
    }
}

// The sums of this block's part become those of the row, if it is the last block of the row. Whether it is.
template <typename A, typename Sums>
__device__ bool gather(const RowLoop &at, const Scratch<A> &scratch, Sums &sums, Sums none)
{
    if (threadIdx.x == 0)
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            scratch.partial[(at.row * gridDim.y + at.part) * Sums::NUMBERS + i] = sums.number(i);
    if (!scratch.is_last_block(at.row, gridDim.y))
        return false;
    sums = none;
    for (int part = threadIdx.x; part < gridDim.y; part += blockDim.x) {
        Sums other = none;
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            other.number(i) = scratch.partial[(at.row * gridDim.y + part) * Sums::NUMBERS + i];
        sums.add(other);
    }
    reduce_sums<A>(sums);
    return true;
}

// As sum_row, where one block of a row needs the sums: whether it is this one.
template <typename A, typename Source>
__device__ bool sum_row_once(const Source &source, const RowLoop &at, int64_t start, bool reads,
                             const Scratch<A> &scratch, typename Source::Sums &sums)
{
    typename Source::Held held;
    sums = source.sum(start, at.part, reads, held);
    reduce_sums<A>(sums);
    return gridDim.y == 1 || gather(at, scratch, sums, source.none());
}

// The logits of a softmax. They are held as exponentials.
template <typename T, int BYTES = HELD_BYTES>
struct SoftmaxSource {
    typedef typename Accumulator<T>::type A;
    typedef SoftmaxSums<A> Sums;
    struct Held {
        RowChunk<T, BYTES> x;
        A max;   // the exponentials are relative to it
    };

    const T *data;
    const Rows<T> &rows;
    A scale;

    __device__ SoftmaxSource(const T *data, const Rows<T> &rows, A scale) : data(data), rows(rows), scale(scale) {}

    __device__ Sums none() const { return Sums(scale); }

    __device__ Sums sum(int64_t start, int number, bool reads, Held &held) const
    {
        Sums sums = none();
        for (RowPart left = rows.part_from(start, number, reads); left.length > 0;
             left.skip(held.x.length(), rows.inner)) {
            held.x.read(data, rows, left, 0, -infinity<A>());
            sums.add(held.x);
        }
        held.max = sums.max;
        return sums;
    }
};

// Softmax of rows: exp((x - max) * scale) over its sum. A row with a NaN or a +infinity is NaN, and so is a row of
// nothing but -infinity.
template <typename Args>
__device__ void softmax_rows(const Args &args, typename Args::A scale)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const Exchange<SoftmaxSums<A>::NUMBERS> exchange(args);
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.output));
    const SoftmaxSource<T> source(args.data, rows, scale);
    for (RowLoop at(args.batch * args.inner); at.goes_on(); at.next()) {
        typename SoftmaxSource<T>::Held held;
        RowChunk<T> &x = held.x;
        const int64_t start = rows.start(at.row);
        const SoftmaxSums<A> sums = sum_row(source, at, start, at.exists, exchange, held);
        const RowPart part = rows.part_from(start, at.part, at.exists);
        const bool is_held = part.length <= x.length();
        const Exponential<T> exponentials(sums.max, scale);
        const Product<A> normalized = {(is_held ? exponential((held.max - sums.max) * scale) : 1) / sums.exponentials};
        for (int64_t i = 0; i < part.length; i += x.length()) {
            if (!is_held) {
                x.read(args.data, rows, part, i, 0);
                x.apply(exponentials);
            }
            x.apply(normalized);
            x.write(args.output, rows, part, i, args.output_request);
        }
    }
}
