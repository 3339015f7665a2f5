// group_norm on the CPU. Bytes moved: forward twice the tensor's, backward three times; what is read again is in the
// cache. The sums of each channel of a sample are kept, so the gradients of gamma and beta do not depend on the number
// of threads.
#include "generated/group_norm.h"
#include "../../native/simd/rows.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T>
RowSizes groups_of(const GroupNormArgs<T> &args) { return {args.batch * args.num_groups, args.length, 1}; }

template <typename T>
bool uses_streaming_stores(const GroupNormArgs<T> &args)
{
    return use_streaming_stores<T>({args.batch * args.channels, args.inner, 1});
}

// The mean of a group's elements, and of their squared distances from it.
template <typename A>
struct Moments {
    A mean, variance;
};

// Returns the moments of a group. It first computes a mean, and then the sums of the differences from it. The sum of
// many numbers that are nearly equal is off by more than the last digit of their mean, and the differences say by how
// much.
template <typename T>
GLUONOPS_INLINE Moments<typename Simd<T>::Scalar> moments_of(const T *x, int64_t length)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const int64_t N = Simd<T>::LANES;
    const A first = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        return load(x + i, mask);
    }) / A(length);
    V sums[4];   // two of the differences, and two of their squares
    sum_in_blocks<ROW_SUM_BLOCK>(length, sums, [=](int64_t begin, int64_t end, V (&sums)[4]) GLUONOPS_LAMBDA {
        int64_t i = begin;
        for (; i + 2 * N <= end; i += 2 * N) {
            const V a = load(x + i) - first, b = load(x + i + N) - first;
            sums[0] += a;
            sums[1] += b;
            sums[2] += a * a;
            sums[3] += b * b;
        }
        for (; i < end; i += N) {
            const int64_t left = end - i;
            const V a = load(x + i, PartialMask{left < N ? left : N}, first) - first;
            sums[0] += a;
            sums[2] += a * a;
        }
    });
    const A shift = reduce_sum(sums[0] + sums[1]) / A(length);
    const A variance = reduce_sum(sums[2] + sums[3]) / A(length) - shift * shift;
    return {first + shift, variance > 0 || variance != variance ? variance : 0};
}

template <typename T>
void forward(const GroupNormArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const bool streaming = uses_streaming_stores(args);
    parallel_rows(groups_of(args), 2 * sizeof(T), [=](int64_t group) {
        const T *x = args.data + group * args.length;
        const Moments<A> moments = moments_of(x, args.length);
        const A mean = moments.mean, rstd = 1 / square_root(moments.variance + A(args.eps));
        args.mean[group] = mean;
        args.rstd[group] = rstd;

        const int64_t first_channel = group % args.num_groups * args.group_channels;
        const T *gamma = args.gamma + first_channel, *beta = args.beta + first_channel;
        T *to = args.output + group * args.length;
        if (args.inner == 1) {   // vectors run along the channels
            write_row(to, args.length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto x_hat = (load(x + i, mask) - mean) * rstd;
                return x_hat * load(gamma + i, mask) + load(beta + i, mask);
            });
            return;
        }
        for (int64_t c = 0; c < args.group_channels; ++c) {
            const T *from = x + c * args.inner;
            const A factor = rstd * load_scalar(gamma + c), shift = load_scalar(beta + c);
            write_row(to + c * args.inner, args.inner, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return (load(from + i, mask) - mean) * factor + shift;
            });
        }
    });
}

// A group's channels are single elements: their sums are the elements themselves.
template <typename T>
GLUONOPS_INLINE void group_of_elements(const GroupNormArgs<T> &args, int64_t group, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t length = args.length, first_channel = group % args.num_groups * args.group_channels;
    const T *x = args.data + group * length, *grad_out = args.output_grad + group * length;
    const T *gamma = args.gamma + first_channel;
    const A mean = args.mean[group], rstd = args.rstd[group];
    const A share = 1 / A(length);
    const A grad_out_mean = share * row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        return load(grad_out + i, mask) * load(gamma + i, mask);
    });
    const A x_hat_mean = share * row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto x_hat = (load(x + i, mask) - mean) * rstd;
        return load(grad_out + i, mask) * load(gamma + i, mask) * x_hat;
    });
    for (int64_t i = 0; i < length; ++i) {
        const A x_hat = (load_scalar(x + i) - mean) * rstd;
        args.grad_out_sums[group * length + i] = load_scalar(grad_out + i);
        args.x_hat_sums[group * length + i] = load_scalar(grad_out + i) * x_hat;
    }
    write_row(args.data_grad + group * length, length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto x_hat = (load(x + i, mask) - mean) * rstd;
        const auto by_x_hat = load(grad_out + i, mask) * load(gamma + i, mask);
        return (by_x_hat - grad_out_mean - x_hat * x_hat_mean) * rstd;
    });
}

template <typename T>
GLUONOPS_INLINE void group_of_channels(const GroupNormArgs<T> &args, int64_t group, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t inner = args.inner, first_channel = group % args.num_groups * args.group_channels;
    const T *x = args.data + group * args.length, *grad_out = args.output_grad + group * args.length;
    const T *gamma = args.gamma + first_channel;
    const A mean = args.mean[group], rstd = args.rstd[group];
    double *grad_out_sums = args.grad_out_sums + group * args.group_channels;
    double *x_hat_sums = args.x_hat_sums + group * args.group_channels;
    GrowingSum<A> of_grad_out, of_x_hat;
    for (int64_t c = 0; c < args.group_channels; ++c) {
        const T *channel = x + c * inner, *channel_grad = grad_out + c * inner;
        const A grad_out_sum = row_sum<T>(inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(channel_grad + i, mask);
        });
        const A centered_sum = row_sum<T>(inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(channel_grad + i, mask) * (load(channel + i, mask) - mean);
        });
        const A x_hat_sum = centered_sum * rstd;
        grad_out_sums[c] = grad_out_sum;
        x_hat_sums[c] = x_hat_sum;
        of_grad_out.add(load_scalar(gamma + c) * grad_out_sum);
        of_x_hat.add(load_scalar(gamma + c) * x_hat_sum);
    }
    const A grad_out_mean = of_grad_out.result() / A(args.length), x_hat_mean = of_x_hat.result() / A(args.length);
    for (int64_t c = 0; c < args.group_channels; ++c) {
        const T *channel = x + c * inner, *channel_grad = grad_out + c * inner;
        T *to = args.data_grad + group * args.length + c * inner;
        const A factor = load_scalar(gamma + c);
        write_row(to, inner, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto x_hat = (load(channel + i, mask) - mean) * rstd;
            return (load(channel_grad + i, mask) * factor - grad_out_mean - x_hat * x_hat_mean) * rstd;
        });
    }
}

// A group has one or two elements: half the difference of their gradients is a multiple of the normalised data, and 1
// minus the square of these is eps * rstd^2. The difference of the other groups' formula would cancel.
template <typename T>
GLUONOPS_INLINE void gradient_of_pair(const GroupNormArgs<T> &args, int64_t group)
{
    typedef typename Simd<T>::Scalar A;
    const T *grad_out = args.output_grad + group * args.length;
    const T *gamma = args.gamma + group % args.num_groups * args.group_channels;
    const int64_t last = args.length - 1;
    const A rstd = args.rstd[group];
    const double first_gradient = double(load_scalar(grad_out)) * load_scalar(gamma);
    const double last_gradient = double(load_scalar(grad_out + last)) * load_scalar(gamma + last / args.inner);
    const double half = last ? (first_gradient - last_gradient) / 2 : 0;
    const A gradient = A(half) * (A(args.eps) * rstd * rstd * rstd);
    store_scalar(args.data_grad + group * args.length, gradient);
    if (last)
        store_scalar(args.data_grad + group * args.length + last, -gradient);
}

// The sum over the samples of each channel's sums.
template <typename T>
void sum_of_samples(const GroupNormArgs<T> &args, const double *sums, T *gradient)
{
    typedef typename Simd<T>::Scalar A;
    for (int64_t c = 0; c < args.channels; ++c) {
        double sum = 0;
        for (int64_t sample = 0; sample < args.batch; ++sample)
            sum += sums[sample * args.channels + c];
        store_scalar(gradient + c, A(sum));
    }
}

template <typename T>
void backward(const GroupNormArgs<T> &args)
{
    const bool streaming = uses_streaming_stores(args);
    parallel_rows(groups_of(args), 3 * sizeof(T), [=](int64_t group) {
        if (args.inner == 1)
            group_of_elements(args, group, streaming);
        else
            group_of_channels(args, group, streaming);
        if (args.length <= 2)
            gradient_of_pair(args, group);
    });
    sum_of_samples(args, args.x_hat_sums, args.gamma_grad);
    sum_of_samples(args, args.grad_out_sums, args.beta_grad);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
