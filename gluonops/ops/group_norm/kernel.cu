// group_norm. Forward: a row of threads per group of a sample, which reads it for its mean and variance, and again, the
// last elements first, to normalise it. Backward has steps:
//     CHANNELS  the sums of each channel of a sample, which has a row of threads;
//     GROUPS    the sums of each group, and the gradients of gamma and beta;
//     DATA      the gradient of the data, the last channels first: the cache may still hold them.
// Bytes moved: forward 2 times the data's, backward 5 times; fewer where the cache holds what is read again.
#include "../_softmax/softmax.cuh"

enum { BYTES = 64 };   // of a row, that a thread holds
enum Step { CHANNELS, GROUPS, DATA };

// The sizes of the data: (batch, groups, group_channels, inner).
struct Sizes {
    int64_t batch, groups, group_channels, inner;

    __device__ int64_t channels() const { return groups * group_channels; }
    __device__ int64_t group_length() const { return group_channels * inner; }
};

// The number of elements, their mean relative to the row's first element, and the sum of their squared distances from
// the mean. Sums of numbers that are near 0 keep their digits where the mean is large.
template <typename A>
struct Moments {
    A count, mean, squares;
};

// Of this thread's elements of a row; `origin` is the row's first element. `x` is the last chunk afterwards.
template <typename T>
__device__ Moments<typename Accumulator<T>::type> own_moments(const T *__restrict__ data, const Rows<T> &rows,
                                                              const RowPart &row, RowChunk<T, BYTES> &x,
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
#pragma unroll
        for (int k = 0; k < x.SIZE; ++k) {
            const A difference = x.values[k] - first;
            sum += difference;
            moments.squares += difference * difference;
        }
    }
    if (has_elements) {
        moments.mean = (first - origin) + sum / moments.count;
        moments.squares -= sum * (sum / moments.count);
    }
    return moments;
}

// Of a row, from those of its threads.
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
    const T *gamma, *beta;   // of the group's first channel
    int64_t inner;
    A origin, mean, rstd;

    // The chunk at the i-th element of the group. A pack has elements of one channel.
    __device__ void apply(RowChunk<T, BYTES> &x, const Rows<T> &rows, int64_t i) const
    {
        A scale = 0, shift = 0;
#pragma unroll
        for (int k = 0; k < x.SIZE; ++k) {
            if (k < x.count && (!rows.packed || k % x.GROUP == 0)) {
                const int64_t channel = quotient(i + rows.offset(k), inner);
                scale = rstd * load(gamma, channel);
                shift = load(beta, channel);
            }
            x.values[k] = (x.values[k] - origin - mean) * scale + shift;
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 3 : 2)
group_norm_forward(const T *__restrict__ data, const T *__restrict__ gamma, const T *__restrict__ beta,
                   T *__restrict__ output, typename Accumulator<T>::type *__restrict__ mean,
                   typename Accumulator<T>::type *__restrict__ inverse, double *__restrict__ partial,
                   int output_request, int mean_request, int inverse_request, int64_t step, int64_t batch,
                   int64_t groups, int64_t group_channels, int64_t inner, double eps)
{
    typedef typename Accumulator<T>::type A;
    const Sizes sizes = {batch, groups, group_channels, inner};
    const int64_t length = sizes.group_length(), chunk = RowChunk<T, BYTES>::length();
    const bool has_whole_packs = inner % Pack<T>::SIZE == 0;   // of a channel
    const Rows<T> rows(length, 1, has_whole_packs && aligned(data) && aligned(output));
    for (int64_t group = first_row(); group < batch * groups; group += row_step()) {
        const RowPart row = rows.part(group, 0);
        const A origin = load(data, row.start);
        RowChunk<T, BYTES> x;
        const Moments<A> moments = row_moments(own_moments(data, rows, row, x, origin), length);
        const A rstd = 1 / square_root(moments.squares / A(length) + A(eps));
        if (threadIdx.x == 0) {
            store(mean, group, origin + moments.mean, mean_request);
            store(inverse, group, rstd, inverse_request);
        }
        const int64_t first_channel = (group - quotient(group, groups) * groups) * group_channels;
        const Normalized<T> normalized = {gamma + first_channel, beta + first_channel, inner, origin, moments.mean,
                                          rstd};
        const int64_t last = quotient(length - 1, chunk) * chunk;   // the chunk that is held
        for (int64_t i = last; i >= 0; i -= chunk) {
            if (i < last)
                x.read(data, rows, row, i, 0);
            normalized.apply(x, rows, i);
            x.write(output, rows, row, i, output_request);
        }
    }
}

// The sums over elements: of the head gradient, and of its product with the normalised data.
struct Sums {
    double head, x_hat;
};

// CHANNELS: the sums of each channel of a sample.
template <typename T, typename A>
__device__ void sum_channels(const T *__restrict__ output_grad, const T *__restrict__ data,
                             const A *__restrict__ mean, const A *__restrict__ inverse,
                             Sums *__restrict__ channel_sums, const Sizes &sizes)
{
    const int64_t group_channels = sizes.group_channels;
    const Rows<T> rows(sizes.inner, 1, aligned(output_grad) && aligned(data));
    for (int64_t r = first_row(); r < sizes.batch * sizes.channels(); r += row_step()) {
        const RowPart row = rows.part(r, 0);
        const int64_t group = quotient(r, group_channels);
        const A center = mean[group];
        RowChunk<T, BYTES> x, head;
        A sum = 0, centered = 0;
        for (int64_t i = 0; i < row.length; i += x.length()) {
            x.read(data, rows, row, i, 0);
            head.read(output_grad, rows, row, i, 0);
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                sum += head.values[k];   // 0 behind the end
                centered += head.values[k] * (x.values[k] - center);
            }
        }
        sum = reduce_row(sum, Sum());
        centered = reduce_row(centered, Sum());
        if (threadIdx.x == 0) {
            channel_sums[r].head = sum;
            channel_sums[r].x_hat = centered * inverse[group];
        }
    }
}

// GROUPS: the sums over a group of gamma times the sums of its channels.
template <typename T>
__device__ void sum_groups(const T *__restrict__ gamma, const Sums *__restrict__ channel_sums,
                           Sums *__restrict__ group_sums, const Sizes &sizes)
{
    const int64_t group_channels = sizes.group_channels;
    for (int64_t group = first_row(); group < sizes.batch * sizes.groups; group += row_step()) {
        const int64_t first_channel = (group - quotient(group, sizes.groups) * sizes.groups) * group_channels;
        double head = 0, x_hat = 0;
        for (int64_t c = threadIdx.x; c < group_channels; c += blockDim.x) {
            const double factor = load(gamma, first_channel + c);
            head += factor * channel_sums[group * group_channels + c].head;
            x_hat += factor * channel_sums[group * group_channels + c].x_hat;
        }
        head = reduce_row(head, Sum());
        x_hat = reduce_row(x_hat, Sum());
        if (threadIdx.x == 0) {
            group_sums[group].head = head;
            group_sums[group].x_hat = x_hat;
        }
    }
}

// GROUPS: the gradients of gamma and beta, the sums over the samples. A row of threads takes a channel.
template <typename T>
__device__ void sum_samples(const Sums *__restrict__ channel_sums, T *__restrict__ gamma_grad,
                            T *__restrict__ beta_grad, int gamma_request, int beta_request, const Sizes &sizes)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t c = first_row(); c < sizes.channels(); c += row_step()) {
        double head = 0, x_hat = 0;
        for (int64_t sample = threadIdx.x; sample < sizes.batch; sample += blockDim.x) {
            head += channel_sums[sample * sizes.channels() + c].head;
            x_hat += channel_sums[sample * sizes.channels() + c].x_hat;
        }
        head = reduce_row(head, Sum());
        x_hat = reduce_row(x_hat, Sum());
        if (threadIdx.x == 0) {
            store(gamma_grad, c, A(x_hat), gamma_request);
            store(beta_grad, c, A(head), beta_request);
        }
    }
}

// DATA: the gradient of the data, channel by channel.
template <typename T, typename A>
__device__ void data_gradient(const T *__restrict__ output_grad, const T *__restrict__ data,
                              const T *__restrict__ gamma, const A *__restrict__ mean, const A *__restrict__ inverse,
                              T *__restrict__ data_grad, int request, const Sums *__restrict__ group_sums,
                              const Sizes &sizes, double eps)
{
    const int64_t group_channels = sizes.group_channels, channels = sizes.channels();
    const A length = A(sizes.group_length());
    const bool is_pair = sizes.group_length() <= 2;   // or a single element
    const Rows<T> rows(sizes.inner, 1, aligned(output_grad) && aligned(data) && aligned(data_grad));
    for (int64_t left = sizes.batch * channels - first_row(); left > 0; left -= row_step()) {
        const int64_t r = left - 1;
        const RowPart row = rows.part(r, 0);
        const int64_t group = quotient(r, group_channels), channel = r - quotient(r, channels) * channels;
        const A center = mean[group], rstd = inverse[group], factor = load(gamma, channel);
        const A head_mean = A(group_sums[group].head) / length;
        // What differs from the mean of a pair is a multiple of its normalised data. There the difference would cancel:
        // 1 - x_hat^2 is eps * inverse^2.
        const A x_hat_mean = is_pair ? 0 : A(group_sums[group].x_hat) / length;
        const A own = length == 1 ? 0 : is_pair ? A(eps) * rstd * rstd : 1;
        for (int64_t i = 0; i < row.length; i += RowChunk<T, BYTES>::length()) {
            RowChunk<T, BYTES> x, head;
            x.read(data, rows, row, i, 0);
            head.read(output_grad, rows, row, i, 0);
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                const A x_hat = (x.values[k] - center) * rstd, scaled_head = head.values[k] * factor;
                x.values[k] = ((scaled_head - head_mean) * own - x_hat * x_hat_mean) * rstd;
            }
            x.write(data_grad, rows, row, i, request);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 3 : 2)
group_norm_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const T *__restrict__ gamma,
                    const typename Accumulator<T>::type *__restrict__ mean,
                    const typename Accumulator<T>::type *__restrict__ inverse, T *__restrict__ data_grad,
                    T *__restrict__ gamma_grad, T *__restrict__ beta_grad, double *__restrict__ partial,
                    int data_grad_request, int gamma_grad_request, int beta_grad_request, int64_t step, int64_t batch,
                    int64_t groups, int64_t group_channels, int64_t inner, double eps)
{
    const Sizes sizes = {batch, groups, group_channels, inner};
    Sums *const channel_sums = reinterpret_cast<Sums *>(partial);
    Sums *const group_sums = channel_sums + batch * sizes.channels();
    if (step == CHANNELS) {
        sum_channels(output_grad, data, mean, inverse, channel_sums, sizes);
    } else if (step == GROUPS) {
        sum_groups(gamma, channel_sums, group_sums, sizes);
        sum_samples(channel_sums, gamma_grad, beta_grad, gamma_grad_request, beta_grad_request, sizes);
    } else if (data_grad_request != NOTHING) {
        data_gradient(output_grad, data, gamma, mean, inverse, data_grad, data_grad_request, group_sums, sizes,
                      eps);
    }
}
