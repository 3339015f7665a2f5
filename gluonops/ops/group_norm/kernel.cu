// group_norm. Forward: a row of threads per group of a sample, which reads it for its mean and variance, and again, the
// last elements first, to normalise it. Backward has steps:
//     CHANNELS  the sums of each channel of a sample, which has a row of threads;
//     GROUPS    the sums of each group, and the gradients of gamma and beta;
//     DATA      the gradient of the data, the last channels first: the cache may still hold them.
// Bytes moved: forward 2 times the data's, backward 5 times; fewer where the cache holds what is read again.
#include "../_softmax/rows.cuh"

enum { BYTES = 64 };   // the bytes of a row that a thread holds

// The sums over elements: of the head gradient, and of its product with the normalised data.
struct Sums {
    double grad_out, x_hat;
};

// The number of elements, their mean relative to the row's first element, and the sum of their squared distances from
// the mean. Sums of numbers that are near 0 keep their digits where the mean is large.
template <typename A>
struct Moments {
    A count, mean, squares;
};

// Returns the moments of this thread's elements of a row, whose first one is at `origin`. `x` is the last chunk
// afterwards.
template <typename T>
__device__ Moments<typename Accumulator<T>::type> own_moments(const T *__restrict__ data, const Rows<T> &rows,
                                                              const RowSplit &row, RowChunk<T, BYTES> &x,
                                                              typename Accumulator<T>::type origin)
{
    typedef typename Accumulator<T>::type A;
    Moments<A> moments = {0, 0, 0};
    const bool has_elements = rows.first < row.length;
    const A first = has_elements ? load(data, row.start + rows.first) : origin;
    A sum = 0;
    for (int64_t i = 0; i < row.length; i += x.length()) {
        x.read(data, rows, row, i, 0);
        moments.count += x.count;
        if (x.count < x.SIZE)
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k)
                x.values[k] = k < x.count ? x.values[k] : first;
        A of_chunk = 0, squares = 0;   // added up first, as in RowChunk::dot
#pragma unroll
        for (int k = 0; k < x.SIZE; ++k) {
            const A difference = x.values[k] - first;
            of_chunk += difference;
            squares += difference * difference;
        }
        sum += of_chunk;
        moments.squares += squares;
    }
    if (has_elements) {
        moments.mean = (first - origin) + sum / moments.count;
        moments.squares -= sum * (sum / moments.count);
    }
    return moments;
}

// Returns the moments of a row, from those of its threads.
template <typename A>
__device__ Moments<A> row_moments(const Moments<A> &own, int64_t length)
{
    Moments<A> moments = {A(length), 0, 0};
    moments.mean = reduce_row(own.count * own.mean, Sum()) / A(length);
    const A distance = own.mean - moments.mean;
    moments.squares = reduce_row(own.squares + own.count * distance * distance, Sum());
    return moments;
}

// Normalises elements of a group, and scales and shifts them by what their channels have.
template <typename T>
struct Normalized {
    typedef typename Accumulator<T>::type A;
    const T *gamma, *beta;   // those of the group's first channel
    int64_t inner;
    A origin, mean, rstd;

    // The chunk at the i-th element of the group. With BORDERS, a pack may have elements of two channels.
    template <bool BORDERS>
    __device__ void apply(RowChunk<T, BYTES> &x, const Rows<T> &rows, int64_t i) const
    {
        A scale = 0, shift = 0, next_scale = 0, next_shift = 0;
        int border = x.SIZE;   // The second channel begins here.
#pragma unroll
        for (int k = 0; k < x.SIZE; ++k) {
            if (k < x.count && (!rows.packed || k % x.GROUP == 0)) {
                const int64_t position = i + rows.offset(k), channel = quotient(position, inner);
                scale = rstd * load(gamma, channel);
                shift = load(beta, channel);
                if (BORDERS) {
                    const int64_t left = (channel + 1) * inner - position, next = channel + (left < x.GROUP);
                    border = k + int(minimum(left, x.GROUP));
                    next_scale = rstd * load(gamma, next);
                    next_shift = load(beta, next);
                }
            }
            const A distance = x.values[k] - origin - mean;
            x.values[k] = distance * (k < border ? scale : next_scale) + (k < border ? shift : next_shift);
        }
    }
};

template <typename T>
__device__ void forward(const GroupNormArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t length = args.length, chunk = RowChunk<T, BYTES>::length();
    const Rows<T> rows(length, 1, args.inner >= Pack<T>::SIZE && aligned(args.data, args.output));
    const bool has_borders = rows.packed && args.inner % Pack<T>::SIZE != 0;
    for (int64_t group = first_row(); group < args.batch * args.num_groups; group += row_step()) {
        const RowSplit row = rows.split(group, 0);
        const A origin = load(args.data, row.start);
        RowChunk<T, BYTES> x;
        const Moments<A> moments = row_moments(own_moments(args.data, rows, row, x, origin), length);
        const A rstd = 1 / square_root(moments.squares / A(length) + A(args.eps));
        if (threadIdx.x == 0) {
            store(args.mean, group, origin + moments.mean, args.mean_request);
            store(args.rstd, group, rstd, args.rstd_request);
        }
        const int64_t sample = quotient(group, args.num_groups);
        const int64_t first_channel = (group - sample * args.num_groups) * args.group_channels;
        const Normalized<T> normalized = {args.gamma + first_channel, args.beta + first_channel, args.inner, origin,
                                          moments.mean, rstd};
        const int64_t last = quotient(length - 1, chunk) * chunk;   // the chunk that is held
        for (int64_t i = last; i >= 0; i -= chunk) {
            if (i < last)
                x.read(args.data, rows, row, i, 0);
            if (has_borders)
                normalized.template apply<true>(x, rows, i);
            else
                normalized.template apply<false>(x, rows, i);
            x.write(args.output, rows, row, i, args.output_request);
        }
    }
}

// Reads the same chunk of two tensors. As the compiler knows what is packed, all loads come before a conversion.
template <typename T>
__device__ void read_both(RowChunk<T, BYTES> &x, const T *data, RowChunk<T, BYTES> &grad_out, const T *output_grad,
                          Rows<T> rows, const RowSplit &row, int64_t i)
{
    const auto read = [&](bool packed) {
        rows.packed = packed;
        x.read(data, rows, row, i, 0);
        grad_out.read(output_grad, rows, row, i, 0);
    };
    rows.packed ? read(true) : read(false);
}

// CHANNELS: the sums of each channel of a sample.
template <typename T>
__device__ void sum_channels(const GroupNormArgs<T> &args, const Rows<T> &rows)
{
    typedef typename Accumulator<T>::type A;
    const int64_t group_channels = args.group_channels;
    for (int64_t r = first_row(); r < args.batch * args.channels; r += row_step()) {
        const RowSplit row = rows.split(r, 0);
        const int64_t group = quotient(r, group_channels);
        const A center = args.mean[group];
        RowChunk<T, BYTES> x, grad_out;
        A sum = 0, centered = 0;
        for (int64_t i = 0; i < row.length; i += x.length()) {
            read_both(x, args.data, grad_out, args.output_grad, rows, row, i);
            A of_chunk = 0, centered_of_chunk = 0;
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                of_chunk += grad_out.values[k];   // 0 behind the end
                centered_of_chunk += grad_out.values[k] * (x.values[k] - center);
            }
            sum += of_chunk;
            centered += centered_of_chunk;
        }
        sum = reduce_row(sum, Sum());
        centered = reduce_row(centered, Sum());
        if (threadIdx.x == 0) {
            args.channel_sums[r].grad_out = sum;
            args.channel_sums[r].x_hat = centered * args.rstd[group];
        }
    }
}

// Returns the sum of `count` channels' sums, `step` channels apart, each times its factor if there are any.
template <typename T>
__device__ Sums sum_of(const Sums *sums, int64_t count, int64_t step, const T *factors)
{
    double grad_out = 0, x_hat = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        const double factor = factors ? double(load(factors, i)) : 1;
        grad_out += factor * sums[i * step].grad_out;
        x_hat += factor * sums[i * step].x_hat;
    }
    return {reduce_row(grad_out, Sum()), reduce_row(x_hat, Sum())};
}

// GROUPS: the sums over a group of gamma times the sums of its channels, and the gradients of gamma and beta, which are
// sums over the samples. A row of threads takes a group or a channel.
template <typename T>
__device__ void sum_groups(const GroupNormArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t groups = args.batch * args.num_groups, group_channels = args.group_channels;
    for (int64_t r = first_row(); r < groups + args.channels; r += row_step()) {
        const int64_t c = r - groups;
        if (c < 0) {
            const T *const gamma = args.gamma + (r - quotient(r, args.num_groups) * args.num_groups) * group_channels;
            const Sums sum = sum_of(args.channel_sums + r * group_channels, group_channels, 1, gamma);
            if (threadIdx.x == 0)
                args.group_sums[r] = sum;
        } else {
            const Sums sum = sum_of<T>(args.channel_sums + c, args.batch, args.channels, 0);
            if (threadIdx.x == 0) {
                store(args.gamma_grad, c, A(sum.x_hat), args.gamma_grad_request);
                store(args.beta_grad, c, A(sum.grad_out), args.beta_grad_request);
            }
        }
    }
}

// DATA: the gradient of the data, channel by channel.
template <typename T>
__device__ void data_gradient(const GroupNormArgs<T> &args, const Rows<T> &rows)
{
    typedef typename Accumulator<T>::type A;
    const int64_t group_channels = args.group_channels, channels = args.channels;
    const A length = A(args.length);
    const bool is_pair = args.length <= 2;   // It may be a single element.
    for (int64_t left = args.batch * channels - first_row(); left > 0; left -= row_step()) {
        const int64_t r = left - 1;
        const RowSplit row = rows.split(r, 0);
        const int64_t group = quotient(r, group_channels), channel = r - quotient(r, channels) * channels;
        const A center = args.mean[group], rstd = args.rstd[group], factor = load(args.gamma, channel);
        const A grad_out_mean = A(args.group_sums[group].grad_out) / length;
        // What differs from the mean of a pair is a multiple of its normalised data. There the difference would cancel:
        // 1 - x_hat^2 is eps * rstd^2.
        const A x_hat_mean = is_pair ? 0 : A(args.group_sums[group].x_hat) / length;
        const A own = length == 1 ? 0 : is_pair ? A(args.eps) * rstd * rstd : 1;
        for (int64_t i = 0; i < row.length; i += RowChunk<T, BYTES>::length()) {
            RowChunk<T, BYTES> x, grad_out;
            read_both(x, args.data, grad_out, args.output_grad, rows, row, i);
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                const A x_hat = (x.values[k] - center) * rstd, scaled = grad_out.values[k] * factor;
                x.values[k] = ((scaled - grad_out_mean) * own - x_hat * x_hat_mean) * rstd;
            }
            x.write(args.data_grad, rows, row, i, args.data_grad_request);
        }
    }
}

template <typename T>
__device__ void backward(const GroupNormArgs<T> &args)
{
    const Rows<T> rows(args.inner, 1, aligned(args.output_grad, args.data, args.data_grad));
    if (args.step == args.CHANNELS)
        sum_channels(args, rows);
    else if (args.step == args.GROUPS)
        sum_groups(args);
    else if (args.data_grad_request != NOTHING)
        data_gradient(args, rows);
}
