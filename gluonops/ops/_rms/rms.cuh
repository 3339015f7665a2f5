// Rows of a (batch, channels, inner) tensor, divided by the root of the sum of their squares times `share`, plus eps,
// and scaled.
//
// A block of THREADS has blockDim.y rows, with blockDim.x threads each. The threads of a row have consecutive
// numbers where its elements are neighbours (inner is 1). Otherwise the rows are neighbours, and so are the threads of
// different rows. A thread holds the same channels of every row: there it sums the gradient of the scale.
#include "../_softmax/rows.cuh"

// Returns the sum over the threads of a block whose numbers differ from this one's only in the bits from `first` to
// below `end`. Both are powers of two. Every thread of the block calls it.
template <typename A>
__device__ A sum_over_threads(A value, int first, int end)
{
    for (int step = first; step < end && step < 32; step *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    if (first == end || end <= 32)   // nothing goes from warp to warp
        return value;
    __shared__ A values[THREADS];
    __syncthreads();   // the sums before may still be computed
    values[thread_number()] = value;
    __syncthreads();   // the values of all threads
    const int step = first < 32 ? 32 : first, start = thread_number() / end * end + thread_number() % step;
    value = 0;
    for (int other = start; other < start + end; other += step)
        value += values[other];
    return value;
}

// The rows of a block, and what this thread has of them.
template <typename T>
struct RowsOfBlock {
    typedef typename Accumulator<T>::type A;
    Rows<T> rows;
    int64_t count;
    int own;   // the number of this thread's row in the block

    template <typename Args>
    __device__ RowsOfBlock(const Args &args, bool aligned_tensors)
        : rows(args.channels, args.inner, aligned_tensors), count(args.batch * args.inner), own(threadIdx.y)
    {
        if (args.inner > 1) {
            own = thread_number() % blockDim.y;
            rows.first = thread_number() / blockDim.y;
        }
    }

    // Returns this thread's row if the rows of the block begin with `block_row`. Behind the last row there is an empty
    // one.
    __device__ RowSplit split(int64_t block_row) const
    {
        RowSplit split = rows.split(block_row + own, blockIdx.y);
        if (block_row + own >= count)
            split.length = 0;
        return split;
    }

    __device__ bool is_first(const RowSplit &split) const { return split.length > 0 && rows.first == 0; }

    __device__ A sum_over_row(A value) const
    {
        const bool neighbours = rows.inner > 1;
        return sum_over_threads(value, neighbours ? blockDim.y : 1, neighbours ? THREADS : blockDim.x);
    }

    // Returns the number of the thread that has the same as the first row's `position`-th thread, in another row.
    __device__ int thread_of(int row, int position) const
    {
        return rows.inner > 1 ? position * blockDim.y + row : row * blockDim.x + position;
    }

    // Returns the offset in a chunk of the k-th element of a row's `position`-th thread; `slot` is k blockDim.x +
    // position.
    __device__ int offset(int slot) const
    {
        const int k = slot / blockDim.x, position = slot % blockDim.x, width = rows.width();
        return k / width * rows.step + position * width + k % width;
    }

    // Multiplies each element by its channel's scale; `scale` is that of the chunk's first channel.
    __device__ void multiply(RowChunk<T> &x, const T *scale) const
    {
        enum { GROUP = RowChunk<T>::GROUP, SIZE = RowChunk<T>::SIZE };
        const T *from = scale + rows.first;
        const int64_t step = opaque(rows.step);
        if (rows.packed) {
#pragma unroll
            for (int k = 0; k < SIZE; k += GROUP, from += step)
                if (k < x.count) {
                    const Pack<T> factors = load_pack(from, 0);
#pragma unroll
                    for (int j = 0; j < GROUP; ++j)
                        x.values[k + j] *= load(factors.items, j);
                }
            return;
        }
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP)
            if (k < x.most)
#pragma unroll
                for (int j = k; j < k + GROUP; ++j, from += opaque(step))
                    x.values[j] *= load(j < x.count ? from : scale, 0);   // no branch: loads are under way together
    }
};

template <typename Args>
__device__ void rms_forward(const Args &args)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const RowsOfBlock<T> block(args, aligned(args.data) && aligned(args.scale) && aligned(args.output));
    const Rows<T> &rows = block.rows;
    for (int64_t r = int64_t(blockIdx.x) * blockDim.y; r < block.count; r += row_step()) {
        const RowSplit split = block.split(r);
        RowChunk<T> x;
        A squares = 0;
        for (int64_t i = 0; i < split.length; i += x.length()) {
            x.read(args.data, rows, split, i, 0);
            squares = x.dot(x, squares);
        }
        const A rstd = 1 / square_root(block.sum_over_row(squares) * args.share + A(args.eps));
        if (block.is_first(split))
            store(args.rstd, r + block.own, rstd, args.rstd_request);
        for (int64_t i = 0; i < split.length; i += x.length()) {
            if (split.length > x.length())
                x.read(args.data, rows, split, i, 0);
            x.apply([&](A x) { return x * rstd; });
            block.multiply(x, args.scale + i);
            x.write(args.output, rows, split, i, args.output_request);
        }
    }
}

// The gradients of the scale, summed over rows: for each thread those of its chunk. They are in shared memory, so that
// more threads have enough registers.
template <typename T>
struct ScaleSums {
    typedef typename Accumulator<T>::type A;
    enum { SIZE = RowChunk<T>::SIZE, TOGETHER = 4 };
    struct __align__(16) Group { A values[TOGETHER]; };
    typedef Group Groups[SIZE / TOGETHER][THREADS];
    Groups &groups;

    __device__ explicit ScaleSums(Groups &groups) : groups(groups) {}

    __device__ void clear()
    {
        const Group zeros = {{0, 0, 0, 0}};
#pragma unroll
        for (int k = 0; k < SIZE; k += TOGETHER)
            groups[k / TOGETHER][thread_number()] = zeros;
    }

    __device__ void add(const RowChunk<T> &x, const RowChunk<T> &grad_out, A rstd)
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += TOGETHER) {
            if (k >= x.count)
                continue;
            Group group = groups[k / TOGETHER][thread_number()];
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                group.values[j] += grad_out.values[k + j] * (x.values[k + j] * rstd);
            groups[k / TOGETHER][thread_number()] = group;
        }
    }

    // The sums over the rows of the block, of the chunk at the i-th element of a split.
    __device__ void store_to(A *sums, const RowsOfBlock<T> &block, const RowSplit &split, int64_t i) const
    {
        __syncthreads();   // the sums of all threads
        const int64_t left = split.length - i;
        // `slot` counts the elements that the threads of a row hold, thread by thread.
        for (int slot = thread_number(); slot < blockDim.x * SIZE; slot += THREADS) {
            const int offset = block.offset(slot), k = slot / blockDim.x;
            if (offset >= left)
                continue;
            A sum = 0;
            for (int row = 0; row < blockDim.y; ++row)
                sum += groups[k / TOGETHER][block.thread_of(row, slot % blockDim.x)].values[k % TOGETHER];
            sums[split.position + i + offset] = sum;
        }
        __syncthreads();   // the sums are read
    }
};

// Returns this thread's dot product of a split of a row, without the chunk at its i-th element. A split has several
// chunks in float64, and where there are no blocks for more splits.
template <typename T>
__device__ typename Accumulator<T>::type dot_of_others(const T *__restrict__ output_grad, const T *__restrict__ data,
                                                       const T *__restrict__ scale, const RowsOfBlock<T> &block,
                                                       const RowSplit &split, int64_t i)
{
    const bool has_others = split.length > RowChunk<T>::length();
    const int64_t inner = block.rows.inner;
    typename Accumulator<T>::type dot = 0;
    for (int64_t c = block.rows.first / block.rows.width(); has_others && c < split.length; c += blockDim.x) {
        const bool is_other = c < i || c >= i + RowChunk<T>::length();
        if (is_other)
            dot += load(output_grad, split.start + c * inner) * load(scale, split.position + c)
                * load(data, split.start + c * inner);
    }
    return dot;
}

// Adds up what the blocks have summed: 8 channels at a time. A thread has four loads under way.
template <typename T, typename A>
__device__ void combine_scale_sums(const A *__restrict__ sums, T *__restrict__ scale_grad, int request, int64_t length)
{
    enum { CHANNELS = 8, STEP = THREADS / CHANNELS, TOGETHER = 4 };
    const int channel = thread_number() % CHANNELS, first = thread_number() / CHANNELS;
    for (int64_t c = int64_t(blockIdx.x) * CHANNELS; blockIdx.y == 0 && c < length;
         c += int64_t(gridDim.x) * CHANNELS) {
        A sum = 0;
        for (int block = first; block < gridDim.x && c + channel < length; block += TOGETHER * STEP) {
            A values[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                values[k] = block + k * STEP < gridDim.x ? sums[(block + k * STEP) * length + c + channel] : A(0);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                sum += values[k];
        }
        sum = sum_over_threads(sum, CHANNELS, THREADS);
        if (first == 0 && c + channel < length)
            store(scale_grad, c + channel, sum, request);
    }
}

// DOTS and ROWS. Where the compiler knows that rows are PACKED, the loads of two chunks are under way together. It does
// not know that they are not, since both kinds would take more registers then.
template <bool PACKED, typename Args>
__device__ void differentiate_rows(const Args &args, RowsOfBlock<typename Args::Data> block,
                                   ScaleSums<typename Args::Data> scale_sums)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    block.rows.packed = PACKED || opaque(0);
    const Rows<T> &rows = block.rows;
    const RowSplit channels = rows.split(0, blockIdx.y);
    for (int64_t i = 0; i < channels.length; i += RowChunk<T>::length()) {
        scale_sums.clear();
        for (int64_t r = int64_t(blockIdx.x) * blockDim.y; r < block.count; r += row_step()) {
            const RowSplit split = block.split(r);
            const int64_t row = split.length > 0 ? r + block.own : 0;
            const A rstd = args.rstd[row];
            RowChunk<T> x, grad_out;
            A dot = dot_of_others(args.output_grad, args.data, args.scale, block, split, i);
            x.read(args.data, rows, split, i, 0);
            grad_out.read(args.output_grad, rows, split, i, 0);
            scale_sums.add(x, grad_out, rstd);
            block.multiply(grad_out, args.scale + split.position + i);
            dot = grad_out.dot(x, dot);
            if (gridDim.y == 1 || args.step == args.DOTS)
                dot = block.sum_over_row(dot);
            if (args.step == args.DOTS) {
                if (block.is_first(split))
                    args.dots[row * gridDim.y + blockIdx.y] = dot;
                continue;
            }
            if (gridDim.y > 1) {
                dot = 0;
                for (int other = 0; other < gridDim.y; ++other)
                    dot += args.dots[row * gridDim.y + other];
            }
            const bool is_single = args.channels == 1;
            const A own = is_single ? A(args.eps) * rstd * rstd : 1;   // 1 - (x rstd)^2, without a difference
            dot = is_single ? 0 : dot * rstd * rstd * args.share;
#pragma unroll
            for (int k = 0; k < RowChunk<T>::SIZE; ++k)   // the scale is in the head gradient
                x.values[k] = fma(-x.values[k], dot * rstd, grad_out.values[k] * (own * rstd));
            x.write(args.data_grad, rows, split, i, args.data_grad_request);
        }
        if (args.step == args.DOTS)
            return;
        scale_sums.store_to(args.sums + blockIdx.x * args.channels, block, channels, i);
    }
}

// The steps: where a row has several splits, a block for each, DOTS computes the sums of each split; ROWS computes the
// gradient of the data, and each block its sums of the scale's gradient; SCALE adds these up.
template <typename Args>
__device__ void rms_backward(const Args &args)
{
    typedef typename Args::Data T;
    __shared__ typename ScaleSums<T>::Groups groups;
    if (args.step == args.SCALE) {
        combine_scale_sums(args.sums, args.scale_grad, args.scale_grad_request, args.channels);
        return;
    }
    const RowsOfBlock<T> block(args, aligned(args.output_grad, args.data, args.scale, args.data_grad));
    if (block.rows.packed)
        differentiate_rows<true>(args, block, ScaleSums<T>(groups));
    else
        differentiate_rows<false>(args, block, ScaleSums<T>(groups));
}
