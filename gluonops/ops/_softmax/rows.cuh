// Rows of an (outer, length, inner) tensor. A row holds the logits of all classes.
//
// blockDim.x threads share a row: 1 to 32 lanes of a warp, or a whole block. A long row may have gridDim.y parts, a
// block for each. A thread holds some of its elements in registers: a RowChunk.
//
// A loop over chunks is not unrolled: the registers of two chunks are those that another block would need.

enum { HELD_BYTES = 128 };     // A thread of at most 256 holds so many of a row in registers; see __launch_bounds__.
enum { STREAMED_BYTES = 64 };  // A thread reads so many of a row that is not held: more threads share a processor.
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

    // Where the last chunk begins, of chunks of a power of two; negative if there is none.
    __device__ int64_t last_chunk(int chunk) const { return (length - 1) & -int64_t(chunk); }
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
    __device__ int64_t start(int64_t row) const
    {
        if (inner == 1)
            return row * length;
        const int64_t before = quotient(row, inner);
        return before * length * inner + (row - before * inner);
    }

    // Without `reads` the part has no elements.
    __device__ RowPart part(int64_t row, int number, bool reads = true) const
    {
        const int64_t position = number * part_length;
        return {start(row) + position * inner, position,
                reads && position < length ? minimum(part_length, length - position) : 0};
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

    // The number of the element at this offset among the thread's, or -1 if it is another thread's.
    __device__ int number(int offset) const
    {
        const int beyond = (offset & (step - 1)) - first;
        const bool own = beyond >= 0 && beyond < width();
        return own ? (offset >> log_step) * width() + beyond : -1;
    }
};

// The row and the part of it that a thread works on, one after the other. Blocks start in the order of their numbers,
// and those of one row wait for each other: so their numbers follow each other. The threads of a warp stay together, so
// that they can reduce without regard to what a row is like: behind the last row, some have the last one again.
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

    // The chunk begins at the i-th element of the part. Behind the end is `empty`.
    __device__ void read(const T *tensor, const Rows<T> &rows, const RowPart &part, int64_t i, A empty)
    {
        const int left = int(minimum(part.length - i, length()));
        count = rows.count(left);
        most = rows.most(left);
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

    // The element with this number, and another one in its place.
    __device__ A value(int number) const
    {
        A found = 0;
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            found = number == k ? values[k] : found;
        return found;
    }

    __device__ void replace(int number, A value)
    {
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            values[k] = number == k ? value : values[k];
    }

    // The sum of `start` and the products with the elements of another chunk.
    __device__ A dot(const RowChunk &other, A start) const
    {
        each([&](int k) { start += values[k] * other.values[k]; });
        return start;
    }

    // `start` combined with each element, in their order.
    template <typename Combine>
    __device__ A fold(A start, Combine combine) const
    {
        each([&](int k) { start = combine(values[k], start); });
        return start;
    }

    // apply, and then the sum of `start` and the results.
    template <typename Formula>
    __device__ A apply_and_sum(const Formula &formula, A start)
    {
        each([&](int k) {
            values[k] = formula(values[k]);
            start += values[k];
        });
        return start;
    }
};
