// Rows of an (outer, length, inner) tensor. A row holds the logits of all classes.
//
// blockDim.x threads share a row: 1 to 32 lanes of a warp, or a whole block. A long row may have gridDim.y splits, a
// block for each. A thread holds some of its elements in registers: a RowChunk.
//
// A loop over chunks is not unrolled: the registers of two chunks are those that another block would need.

enum { HELD_BYTES = 128 };     // What one of at most 256 threads holds of a row in registers; see __launch_bounds__.
enum { STREAMED_BYTES = 64 };  // What a thread reads at a time of a row that is not held, so that more threads fit.
enum { SPLIT_UNIT = 64 };      // splits begin at a multiple of this many elements

// A split of a row: elements start, start + inner, ... of the tensor. `position` is that of the first one in its row.
struct RowSplit {
    int64_t start, position, length;

    // Leaves out so many elements at the beginning.
    __device__ void skip(int64_t elements, int64_t inner)
    {
        start += elements * inner;
        position += elements;
        length -= elements;
    }

    // Returns where the last of the chunks begins, whose length is a power of two. It is negative if there is no chunk.
    __device__ int64_t last_chunk(int chunk) const { return (length - 1) & -int64_t(chunk); }
};

// The rows of a tensor, and which elements of them a thread has: of a chunk that begins at the start of a row, packed
// ones are first, first + 1, ..., first + GROUP - 1, first + step, ..., and others first, first + step, ...
template <typename T>
struct Rows {
    enum { GROUP = Pack<T>::SIZE };   // elements of 16 bytes
    int64_t length, inner;
    bool packed;
    int first, step, log_step;

    __device__ Rows(int64_t length, int64_t inner, bool aligned_tensors)
        : length(length), inner(inner), packed(inner == 1 && length % GROUP == 0 && aligned_tensors),
          first(threadIdx.x * width()), step(blockDim.x * width()), log_step(31 - __clz(step)) {}

    // Returns how many elements a thread reads or writes at once.
    __device__ int width() const { return packed ? GROUP : 1; }

    // Returns the first element of a row.
    __device__ int64_t start(int64_t row) const
    {
        if (inner == 1)
            return row * length;
        const int64_t before = quotient(row, inner);
        return row + before * ((length - 1) * inner);
    }

    // Without `reads` the split has no elements.
    __device__ RowSplit split(int64_t row, int number, bool reads = true) const
    {
        const int64_t unit = gridDim.y * SPLIT_UNIT;   // No register holds the length of a split in a loop.
        const int64_t split_length = gridDim.y == 1 ? length : (length + unit - 1) / unit * SPLIT_UNIT;
        const int64_t position = number * split_length;
        return {start(row) + position * inner, position,
                reads && position < length ? minimum(split_length, length - position) : 0};
    }

    // Returns the number of this thread's elements among `left` ones.
    __device__ int count(int left) const
    {
        return left <= first ? 0 : ((left - first + step - 1) >> log_step) * width();
    }

    // Returns the most elements that a thread has among `left` ones.
    __device__ int most(int left) const { return ((left + step - 1) >> log_step) * width(); }

    // Returns the offset, in the chunk, of this thread's element with this number: the inverse of `number`.
    __device__ int offset(int number) const
    {
        const int group = packed ? number / GROUP : number, within = packed ? number % GROUP : 0;
        return first + group * step + within;
    }

    // Returns the number of the element at this offset among the thread's, or -1 if it is another thread's.
    __device__ int number(int offset) const
    {
        const int beyond = (offset & (step - 1)) - first;
        const bool own = beyond >= 0 && beyond < width();
        return own ? (offset >> log_step) * width() + beyond : -1;
    }
};

// The row and the split of it that a thread works on, one after the other. The numbers of a row's blocks follow each
// other, so they run at the same time. The threads of a warp stay together, so that they can reduce without regard to
// what a row is like: behind the last row, some have the last one again.
struct RowLoop {
    int64_t count, number;
    int split;

    __device__ explicit RowLoop(int64_t count) : count(count), number(first_row()), split(0)
    {
        if (gridDim.y > 1) {
            const int64_t block = int64_t(blockIdx.y) * gridDim.x + blockIdx.x;
            number = quotient(block, gridDim.y);
            split = int(block - number * gridDim.y);
        }
    }

    __device__ int64_t row() const { return minimum(number, count - 1); }

    // Otherwise there is nothing to read and nothing to write.
    __device__ bool exists() const { return number < count; }

    __device__ bool goes_on() const { return number - rows_in_front() < count; }

    // Returns the number of the warp's rows that are in front of this one.
    __device__ int rows_in_front() const
    {
        return blockDim.x < 32 ? threadIdx.y & ((32 >> (31 - __clz(blockDim.x))) - 1) : 0;
    }

    __device__ void next() { number += gridDim.y > 1 ? int64_t(gridDim.x) : row_step(); }

    // Returns whether this thread is the first of those that share the row in this block.
    __device__ bool is_first_in_block() const { return exists() && threadIdx.x == 0; }
};

// The elements of a chunk that a thread holds: `count` of them. Behind them is what `read` puts there. What is done to
// elements is done to the first `most`, AT_ONCE without a branch, as this is the fastest.
template <typename T, int BYTES = HELD_BYTES>
struct RowChunk {
    typedef typename Accumulator<T>::type A;
    enum { GROUP = Pack<T>::SIZE, SIZE = BYTES / sizeof(A), AT_ONCE = BYTES < 32 ? SIZE : 32 / sizeof(A) };
    A values[SIZE];
    int count, most;   // most: of all threads

    // Returns how many elements the threads of a row hold together.
    __device__ static int length() { return blockDim.x * SIZE; }

    // Reads the chunk that begins at the i-th element of the split. Elements behind the end are `empty`.
    __device__ void read(const T *tensor, const Rows<T> &rows, const RowSplit &split, int64_t i, A empty)
    {
        const T *const tensors[1] = {tensor};
        read_all<1>(this, tensors, rows, split, i, empty);
    }

    // Reads the same chunk of several tensors.
    template <int TENSORS>
    __device__ static void read_all(RowChunk *x, const T *const *tensors, const Rows<T> &rows, const RowSplit &split,
                                    int64_t i, A empty)
    {
        const int left = int(minimum(split.length - i, length()));
        const T filler(empty);
#pragma unroll
        for (int n = 0; n < TENSORS; ++n) {
            x[n].count = rows.count(left);
            x[n].most = rows.most(left);
        }
        if (rows.packed)
            return read_packs<TENSORS>(x, tensors, split.start + i + rows.first, opaque(rows.step), filler);
#pragma unroll
        for (int n = 0; n < TENSORS; ++n)
            x[n].read_each(tensors[n] + (split.start + (i + rows.first) * rows.inner), rows.step * rows.inner, filler);
    }

    // Whole words are selected, not their halves.
    template <int TENSORS>
    __device__ static void read_packs(RowChunk *x, const T *const *tensors, int64_t first, int64_t step,
                                      const T &filler)
    {
        typedef typename Pack<T>::Whole Whole;
        Pack<T> none;
        none.fill(filler);
        Whole packs[TENSORS][SIZE / GROUP];   // all loads come before the first conversion
#pragma unroll
        for (int n = 0; n < TENSORS; ++n) {
            const T *from = tensors[n] + first;
#pragma unroll
            for (int k = 0; k < SIZE; k += GROUP, from += step)
                if (k < x[n].count)
                    packs[n][k / GROUP] = *reinterpret_cast<const Whole *>(from);
                else
                    packs[n][k / GROUP] = *reinterpret_cast<const Whole *>(none.items);
        }
#pragma unroll
        for (int n = 0; n < TENSORS; ++n)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                x[n].values[k] = load(reinterpret_cast<const T *>(packs[n] + k / GROUP), k % GROUP);
    }

    __device__ void read_each(const T *from, int64_t step, const T &filler)
    {
        T items[SIZE];   // as in read_packs
        read_items(items, from, step * sizeof(T), filler);
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = load(items, k);
    }

    // Items are elements, or pairs of such. Where all of AT_ONCE exist there is no branch for each.
    template <typename Item>
    __device__ void read_items(Item *items, const Item *from, int64_t bytes, const Item &filler) const
    {
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
    }

    __device__ void write(T *tensor, const Rows<T> &rows, const RowSplit &split, int64_t i, int request) const
    {
        if (rows.packed)
            write_packs(tensor + (split.start + i + rows.first), opaque(rows.step), request);
        else
            write_items(tensor + (split.start + (i + rows.first) * rows.inner), rows.step * rows.inner, request);
    }

    // It is store_pack, which tests the request for each element.
    template <int COUNT>
    __device__ static void write_pack(T *to, const A *values, int request)
    {
        Pack<T, COUNT> pack;
        if (request == ADD) {
            pack = load_pack<T, COUNT>(to, 0);
#pragma unroll
            for (int j = 0; j < COUNT; ++j)
                store(pack.items, j, values[j], ADD);
        } else {
#pragma unroll
            for (int j = 0; j < COUNT; ++j)
                store(pack.items, j, values[j], WRITE);
        }
        if (request != NOTHING)
            pack.write(to);
    }

    __device__ void write_packs(T *to, int64_t step, int request) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP, to += step)
            if (k < count)
                write_pack<GROUP>(to, values + k, request);
    }

    __device__ void write_items(T *to, int64_t step, int request) const
    {
        write_each(to, step * sizeof(T), request, [&](T *to, int k, int request) { store(to, 0, values[k], request); });
    }

    // Calls write_item(address, k, request) for the number k of each element.
    template <typename WriteItem>
    __device__ void write_each(T *to, int64_t bytes, int request, const WriteItem &write_item) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k + AT_ONCE <= count && request == WRITE)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, to = behind(to, bytes))
                    write_item(to, j, WRITE);
            else if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j, to = behind(to, bytes))
                    if (j < count)
                        write_item(to, j, request);
    }

    // The same of two rows that are neighbours in memory, and have a thread: an element of each is read at once.
    __device__ static void read_pair(RowChunk &x, RowChunk &y, const T *tensor, const Rows<T> &rows,
                                     const RowSplit &split, int64_t i, A empty)
    {
        typedef Pack<T, 2> Pair;
        typedef typename Pair::Whole Whole;
        Pair none;
        none.fill(T(empty));
        Whole pairs[SIZE];   // as in read_packs
        x.count = x.most = y.count = y.most = int(minimum(split.length - i, SIZE));
        x.read_items(pairs, reinterpret_cast<const Whole *>(tensor + (split.start + i * rows.inner)),
                     rows.inner * sizeof(T), *reinterpret_cast<const Whole *>(none.items));
#pragma unroll
        for (int k = 0; k < SIZE; ++k) {
            x.values[k] = load(reinterpret_cast<const T *>(pairs + k), 0);
            y.values[k] = load(reinterpret_cast<const T *>(pairs + k), 1);
        }
    }

    __device__ static void write_pair(const RowChunk &x, const RowChunk &y, T *tensor, const Rows<T> &rows,
                                      const RowSplit &split, int64_t i, int request)
    {
        T *const to = tensor + (split.start + i * rows.inner);
        x.write_each(to, rows.inner * sizeof(T), request, [&](T *to, int k, int request) {
            const A pair[2] = {x.values[k], y.values[k]};
            write_pack<2>(to, pair, request);
        });
    }

    __device__ void fill(A value)
    {
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = value;
    }

    // Calls visit(k) for the number k of each element, in their order.
    template <typename Visit>
    __device__ void each(const Visit &visit) const
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += AT_ONCE)
            if (k < most)
#pragma unroll
                for (int j = k; j < k + AT_ONCE; ++j)
                    visit(j);
    }

    // Turns each element into formula(element).
    template <typename Formula>
    __device__ void apply(const Formula &formula) { each([&](int k) { values[k] = formula(values[k]); }); }

    // Sets the element with this number, if there is one.
    __device__ void replace(int number, A value)
    {
        if (number < 0)
            return;
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = number == k ? value : values[k];
    }

    // Returns the sum of `start` and the products with the elements of another chunk. Those of the chunk are added up
    // first: one after the other, the terms of a long row would lose digits.
    __device__ A dot(const RowChunk &other, A start) const
    {
        A sum = 0;
        each([&](int k) { sum += values[k] * other.values[k]; });
        return start + sum;
    }

    // `start` combined with each element, in their order.
    template <typename Combine>
    __device__ A fold(A start, Combine combine) const
    {
        each([&](int k) { start = combine(values[k], start); });
        return start;
    }

    // apply, and then the sum of `start` and the results, which are added up first, as in dot.
    template <typename Formula>
    __device__ A apply_and_sum(const Formula &formula, A start)
    {
        A sum = 0;
        each([&](int k) {
            values[k] = formula(values[k]);
            sum += values[k];
        });
        return start + sum;
    }
};
