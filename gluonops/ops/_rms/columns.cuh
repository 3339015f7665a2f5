// The rows of rms.cuh where they are neighbours in memory, in packs: a thread takes the same channels of COLUMNS rows
// that follow each other. It reads and writes what these have of a channel at once.
#include "../_rms/rms.cuh"

enum { COLUMNS = 4 };

template <typename T>
struct __align__(sizeof(T) * COLUMNS < 16 ? sizeof(T) * COLUMNS : 16) Columns {
    T of[COLUMNS];
};

// A number of each column, summed over the threads that have the same columns: every `groups`-th one. Every thread of the
// block calls it.
template <typename A>
__device__ Columns<A> sum_over_channels(Columns<A> numbers, int groups)
{
    for (int step = groups; step < 32; step *= 2)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            numbers.of[j] += __shfl_xor_sync(0xffffffffu, numbers.of[j], step);
    __shared__ Columns<A> of_threads[THREADS];
    __syncthreads();   // the numbers before may still be summed
    of_threads[thread_number()] = numbers;
    __syncthreads();   // the numbers of all threads
    const int step = groups < 32 ? 32 : groups;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j)
        numbers.of[j] = 0;
    for (int other = thread_number() & (step - 1); other < THREADS; other += step) {
        const Columns<A> others = of_threads[other];
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            numbers.of[j] += others.of[j];
    }
    return numbers;
}

// The columns of a block, and the channels that a thread has: first, first + step, ... of each chunk of a part.
template <typename T>
struct ColumnsOfBlock {
    typedef typename Accumulator<T>::type A;
    enum { CHANNELS = HELD_BYTES / (COLUMNS * sizeof(A)) };   // of a chunk, that a thread has
    Rows<T> rows;
    int64_t count;
    int groups, group, log_step, step, first;   // groups: of COLUMNS, that a block has; powers of two

    template <typename Args>
    __device__ explicit ColumnsOfBlock(const Args &args)
        : rows(args.channels, args.inner, false), count(args.batch * args.inner), groups(blockDim.y / COLUMNS),
          group(thread_number() & (groups - 1)), log_step(__clz(groups) - __clz(THREADS)), step(1 << log_step),
          first(thread_number() >> (31 - __clz(groups))) {}

    __device__ int chunk() const { return CHANNELS * step; }
    __device__ int64_t row(int64_t block_row) const { return block_row + group * COLUMNS; }

    // This thread's columns where the block's begin with `block_row`; behind the last one they are empty.
    __device__ RowPart part(int64_t block_row) const
    {
        RowPart part = rows.part(row(block_row), blockIdx.y);
        if (row(block_row) >= count)
            part.length = 0;
        return part;
    }

    // Channels that a thread has in the chunk at the i-th channel of a part.
    __device__ int channels(const RowPart &part, int64_t i) const
    {
        const int left = int(minimum(part.length - i, chunk())) - first;
        return left <= 0 ? 0 : (left + step - 1) >> log_step;
    }

    __device__ int64_t place(const RowPart &part, int64_t i) const { return part.start + (i + first) * rows.inner; }
    __device__ int64_t step_bytes() const { return step * rows.inner * sizeof(T); }
};

// What a thread has of a chunk.
template <typename T>
struct ColumnChunk {
    typedef typename Accumulator<T>::type A;
    enum { CHANNELS = ColumnsOfBlock<T>::CHANNELS };
    Columns<T> items[CHANNELS];

    __device__ void read(const T *__restrict__ tensor, const ColumnsOfBlock<T> &block, const RowPart &part, int64_t i,
                         int channels)
    {
        const T *from = tensor + block.place(part, i), zero = T(0);
        const Columns<T> zeros = {{zero, zero, zero, zero}};
        const int64_t bytes = block.step_bytes();
        if (channels == CHANNELS) {
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k, from = behind(from, bytes))
                items[k] = *reinterpret_cast<const Columns<T> *>(from);
            return;
        }
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k, from = behind(from, bytes)) {
            items[k] = zeros;
            if (k < channels)
                items[k] = *reinterpret_cast<const Columns<T> *>(from);
        }
    }

    __device__ A value(int k, int j) const { return load(items[k].of, j); }
};

// The scale of a thread's channels of a chunk.
template <typename T>
struct ChannelScales {
    typedef typename Accumulator<T>::type A;
    A of[ColumnChunk<T>::CHANNELS];

    // `scale`: of the chunk's first channel.
    __device__ ChannelScales(const T *__restrict__ scale, const ColumnsOfBlock<T> &block, int channels)
    {
        T items[ColumnChunk<T>::CHANNELS];
        enum { CHANNELS = ColumnChunk<T>::CHANNELS };
        if (channels == CHANNELS) {
            const T *from = scale + block.first;
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k, from = behind(from, block.step * sizeof(T)))
                items[k] = *from;
        } else {
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k)
                items[k] = scale[k < channels ? block.first + k * block.step : 0];
        }
#pragma unroll
        for (int k = 0; k < ColumnChunk<T>::CHANNELS; ++k)
            of[k] = load(items, k);
    }
};

// Stores formula(k, j) of the j-th column at this thread's k-th channel of the chunk at the i-th one of a part.
template <typename T, typename Formula>
__device__ void write_columns(T *tensor, const ColumnsOfBlock<T> &block, const RowPart &part, int64_t i, int channels,
                              const Formula &formula, int request)
{
    enum { CHANNELS = ColumnChunk<T>::CHANNELS };
    T *to = tensor + block.place(part, i);
    const int64_t bytes = block.step_bytes();
    if (request == WRITE && channels == CHANNELS) {
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k, to = behind(to, bytes)) {
            Columns<T> columns;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                columns.of[j] = T(formula(k, j));
            *reinterpret_cast<Columns<T> *>(to) = columns;
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < CHANNELS; ++k, to = behind(to, bytes))
        if (k < channels)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                store(to, j, formula(k, j), request);
}

template <typename T>
struct ScaledColumns {
    typedef typename Accumulator<T>::type A;
    const ColumnChunk<T> &x;
    const ChannelScales<T> &scales;
    const Columns<A> &by_root;
    __device__ A operator()(int k, int j) const { return x.value(k, j) * by_root.of[j] * scales.of[k]; }
};

template <typename T>
struct ColumnGradients {
    typedef typename Accumulator<T>::type A;
    const ColumnChunk<T> &x, &head;
    const ChannelScales<T> &scales;
    const Columns<A> &own, &minus_dot;

    __device__ A operator()(int k, int j) const
    {
        return fma(x.value(k, j), minus_dot.of[j], head.value(k, j) * scales.of[k] * own.of[j]);
    }
};

template <typename Args>
__device__ void scale_columns(const Args &args)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    enum { CHANNELS = ColumnChunk<T>::CHANNELS };
    const ColumnsOfBlock<T> block(args);
    for (int64_t r = int64_t(blockIdx.x) * blockDim.y; r < block.count; r += row_step()) {
        const RowPart part = block.part(r);
        ColumnChunk<T> x;
        Columns<A> squares = {{0, 0, 0, 0}}, by_root;
        for (int64_t i = 0; i < part.length; i += block.chunk()) {
            x.read(args.data, block, part, i, block.channels(part, i));
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) {
                    const A value = x.value(k, j);
                    squares.of[j] += value * value;
                }
        }
        squares = sum_over_channels(squares, block.groups);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            by_root.of[j] = reciprocal(square_root(squares.of[j] * args.share + A(args.eps)));
        if (part.length > 0 && block.first == 0)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                store(args.rstd, block.row(r) + j, by_root.of[j], args.rstd_request);
        for (int64_t i = 0; i < part.length; i += block.chunk()) {
            const int channels = block.channels(part, i);
            if (part.length > block.chunk())
                x.read(args.data, block, part, i, channels);
            const ChannelScales<T> scales(args.scale + i, block, channels);
            const ScaledColumns<T> scaled = {x, scales, by_root};
            write_columns(args.output, block, part, i, channels, scaled, args.output_request);
        }
    }
}

// This thread's dot products of the columns of a part with the head gradient times the scale, but for the chunk at its i-th
// channel.
template <typename T>
__device__ Columns<typename Accumulator<T>::type> dots_of_others(const T *__restrict__ output_grad,
                                                                 const T *__restrict__ data,
                                                                 const T *__restrict__ scale,
                                                                 const ColumnsOfBlock<T> &block, const RowPart &part,
                                                                 int64_t i)
{
    typedef typename Accumulator<T>::type A;
    Columns<A> dots = {{0, 0, 0, 0}};
    for (int64_t c = block.first; c < part.length; c += block.step) {
        if (c >= i && c < i + block.chunk())
            continue;
        const int64_t place = part.start + c * block.rows.inner;
        const A by = load(scale, part.position + c);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            dots.of[j] += load(output_grad, place + j) * by * load(data, place + j);
    }
    return dots;
}

// The steps are those of scale_rows_backward.
template <typename Args>
__device__ void scale_columns_backward(const Args &args, typename ScaleSums<typename Args::Data>::Groups &groups)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    enum { CHANNELS = ColumnChunk<T>::CHANNELS, TOGETHER = ScaleSums<T>::TOGETHER };
    const ColumnsOfBlock<T> block(args);
    const RowPart places = block.rows.part(0, blockIdx.y);
    ScaleSums<T> scale_sums(groups);
    for (int64_t i = 0; i < places.length; i += block.chunk()) {
        scale_sums.clear();
        const ChannelScales<T> scales(args.scale + places.position + i, block, block.channels(places, i));
        for (int64_t r = int64_t(blockIdx.x) * blockDim.y; r < block.count; r += row_step()) {
            const RowPart part = block.part(r);
            const int64_t row = part.length > 0 ? block.row(r) : 0;
            const Columns<A> by_root = *reinterpret_cast<const Columns<A> *>(args.rstd + row);
            Columns<A> dot = {{0, 0, 0, 0}};
            if (part.length > opaque(block.chunk()))   // opaque: no register holds a number for it
                dot = dots_of_others(args.output_grad, args.data, args.scale, block, part, opaque(i));
            const int channels = block.channels(part, i);
            ColumnChunk<T> x, head;
            x.read(args.data, block, part, i, channels);
            head.read(args.output_grad, block, part, i, channels);
#pragma unroll
            for (int n = 0; n < CHANNELS; n += TOGETHER) {
                typename ScaleSums<T>::Group of_scale = scale_sums.group(n);
#pragma unroll
                for (int m = 0; m < TOGETHER; ++m)
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j) {
                        const A product = head.value(n + m, j) * x.value(n + m, j);
                        of_scale.values[m] += product * by_root.of[j];
                        dot.of[j] += product * scales.of[n + m];
                    }
                scale_sums.group(n) = of_scale;
            }
            if (gridDim.y == 1 || args.step == args.DOTS)
                dot = sum_over_channels(dot, block.groups);
            if (args.step == args.DOTS) {
                if (part.length > 0 && block.first == 0)
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j)
                        args.dots[(row + j) * gridDim.y + blockIdx.y] = dot.of[j];
                continue;
            }
            Columns<A> own;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                const A whole = gridDim.y > 1 ? sum_of_parts(args.dots + (row + j) * gridDim.y) : dot.of[j];
                const A squared = by_root.of[j] * by_root.of[j];
                // 1 - u^2 * share, without a difference
                own.of[j] = args.channels == 1 ? A(args.eps) * squared * by_root.of[j] : by_root.of[j];
                dot.of[j] = args.channels == 1 ? A(0) : -whole * squared * by_root.of[j] * args.share;
            }
            const ColumnGradients<T> gradients = {x, head, scales, own, dot};
            write_columns(args.data_grad, block, part, i, channels, gradients, args.data_grad_request);
        }
        if (args.step == args.DOTS)
            return;
        // opaque: no register holds it meanwhile
        A *const own = args.sums + opaque(blockIdx.x) * args.channels;
        const int channels = block.channels(places, i);
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) {
            const A sum = sum_over_threads(scale_sums.of(k), 1, block.groups);
            if (k < channels && block.group == 0)
                own[places.position + i + block.first + k * block.step] = sum;
        }
    }
}

template <typename Args>
__device__ void normalize(const Args &args)
{
    if (args.inner > 1 && args.inner % COLUMNS == 0 && aligned(args.data) && aligned(args.output))
        scale_columns(args);
    else
        scale_rows(args);
}

template <typename Args>
__device__ void normalize_backward(const Args &args)
{
    const bool all_aligned = aligned(args.output_grad) && aligned(args.data) && aligned(args.data_grad)
        && aligned(args.rstd);
    __shared__ typename ScaleSums<typename Args::Data>::Groups groups;
    if (args.step != args.SCALE && args.inner > 1 && args.inner % COLUMNS == 0 && all_aligned)
        scale_columns_backward(args, groups);
    else
        scale_rows_backward(args, groups);
}
