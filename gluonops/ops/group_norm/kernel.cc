// group_norm on the CPU. Bytes moved: forward twice the tensor's, backward three times; what is read again is in the
// cache. The sums of each channel of a sample are kept, so the gradients of gamma and beta do not depend on the number of
// threads.
#include <math.h>

#include "generated/group_norm.h"
#include "../../native/simd/rows.h"

namespace gluonops {

struct GroupNormCall {
    int type;
    int64_t batch, channels, groups, inner;
    double eps;
    const void *data, *gamma, *beta;
    void *output, *mean, *inverse;                   // forward; backward reads mean and inverse
    const void *output_grad;                         // backward
    void *data_grad, *gamma_grad, *beta_grad;
    double *head_sums, *unit_sums;                   // of each channel of a sample
};

namespace GLUONOPS_TARGET {
namespace {

GLUONOPS_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
GLUONOPS_INLINE double square_root(double x) { return __builtin_sqrt(x); }

// The call with typed pointers. A is what T computes in, and the type of mean and inverse.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    int64_t batch, channels, groups, inner, group_channels, length;
    A eps;
    const T *data, *gamma, *beta, *output_grad;
    T *output, *data_grad, *gamma_grad, *beta_grad;
    A *mean, *inverse;
    double *head_sums, *unit_sums;

    explicit TypedCall(const GroupNormCall &call)
        : batch(call.batch), channels(call.channels), groups(call.groups), inner(call.inner),
          group_channels(call.channels / call.groups), length(group_channels * call.inner), eps(A(call.eps)),
          data(static_cast<const T *>(call.data)), gamma(static_cast<const T *>(call.gamma)),
          beta(static_cast<const T *>(call.beta)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          gamma_grad(static_cast<T *>(call.gamma_grad)), beta_grad(static_cast<T *>(call.beta_grad)),
          mean(static_cast<A *>(call.mean)), inverse(static_cast<A *>(call.inverse)), head_sums(call.head_sums),
          unit_sums(call.unit_sums) {}

    // Calls body(group) for the groups of all samples, on several threads.
    template <typename Body>
    void for_each_group(int64_t bytes_per_element, const Body &body) const
    {
        parallel_for(batch * groups, length * bytes_per_element, [=](int64_t begin, int64_t end) {
            for (int64_t group = begin; group < end; ++group)
                body(group);
            store_fence();
        });
    }

    bool streaming() const
    {
        return streams<T>(batch * channels * inner) && inner * int64_t(sizeof(T)) >= 512;
    }
};

// The mean of a group's elements, and of their squared distances from it.
template <typename A>
struct Moments {
    A mean, variance;
};

// A first mean, and then the sums of the differences from it: the sum of many numbers that are nearly equal is off by more
// than their mean's last digit, and the differences say by how much.
template <typename T>
GLUONOPS_INLINE Moments<typename Simd<T>::Scalar> moments_of(const T *x, int64_t length)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const int64_t N = Simd<T>::LANES;
    const A first = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        return load(x + i, mask, A(0));
    }) / A(length);
    V sum0 = broadcast(A(0)), sum1 = sum0, squares0 = sum0, squares1 = sum0;
    int64_t i = 0;
    for (; i + 2 * N <= length; i += 2 * N) {
        const V a = load(x + i, FullMask()) - first, b = load(x + i + N, FullMask()) - first;
        sum0 += a;
        sum1 += b;
        squares0 += a * a;
        squares1 += b * b;
    }
    for (; i < length; i += N) {
        const int64_t left = length - i;
        const V a = load(x + i, PartialMask{left < N ? left : N}, first) - first;
        sum0 += a;
        squares0 += a * a;
    }
    const A shift = reduce_sum(sum0 + sum1) / A(length);
    const A variance = reduce_sum(squares0 + squares1) / A(length) - shift * shift;
    return {first + shift, variance > 0 || variance != variance ? variance : 0};
}

template <bool STREAMING, typename T>
void normalize(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    call.for_each_group(2 * sizeof(T), [=](int64_t group) {
        const T *x = call.data + group * call.length;
        const Moments<A> moments = moments_of(x, call.length);
        const A mean = moments.mean, inverse = 1 / square_root(moments.variance + call.eps);
        call.mean[group] = mean;
        call.inverse[group] = inverse;

        const int64_t first_channel = group % call.groups * call.group_channels;
        const T *gamma = call.gamma + first_channel, *beta = call.beta + first_channel;
        T *to = call.output + group * call.length;
        if (call.inner == 1) {   // vectors run along the channels
            write_row<STREAMING>(to, call.length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto unit = (load(x + i, mask, A(0)) - mean) * inverse;
                return unit * load(gamma + i, mask, A(0)) + load(beta + i, mask, A(0));
            });
            return;
        }
        for (int64_t c = 0; c < call.group_channels; ++c) {
            const T *from = x + c * call.inner;
            const A factor = inverse * load_scalar(gamma + c), shift = load_scalar(beta + c);
            write_row<STREAMING>(to + c * call.inner, call.inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return (load(from + i, mask, A(0)) - mean) * factor + shift;
            });
        }
    });
}

// Of a group whose channels are single elements: their sums are the elements themselves.
template <bool STREAMING, typename T>
GLUONOPS_INLINE void group_of_elements(const TypedCall<T> &call, int64_t group)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t length = call.length, first_channel = group % call.groups * call.group_channels;
    const T *x = call.data + group * length, *head = call.output_grad + group * length;
    const T *gamma = call.gamma + first_channel;
    const A mean = call.mean[group], inverse = call.inverse[group];
    const A share = 1 / A(length);
    const A head_mean = share * row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        return load(head + i, mask, A(0)) * load(gamma + i, mask, A(0));
    });
    const A unit_mean = share * row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto unit = (load(x + i, mask, A(0)) - mean) * inverse;
        return load(head + i, mask, A(0)) * load(gamma + i, mask, A(0)) * unit;
    });
    for (int64_t i = 0; i < length; ++i) {
        const A unit = (load_scalar(x + i) - mean) * inverse;
        call.head_sums[group * length + i] = load_scalar(head + i);
        call.unit_sums[group * length + i] = load_scalar(head + i) * unit;
    }
    write_row<STREAMING>(call.data_grad + group * length, length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto unit = (load(x + i, mask, A(0)) - mean) * inverse;
        const auto by_unit = load(head + i, mask, A(0)) * load(gamma + i, mask, A(0));
        return (by_unit - head_mean - unit * unit_mean) * inverse;
    });
}

template <bool STREAMING, typename T>
GLUONOPS_INLINE void group_of_channels(const TypedCall<T> &call, int64_t group)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t inner = call.inner, sample = group / call.groups;
    const int64_t first_channel = group % call.groups * call.group_channels;
    const T *x = call.data + group * call.length, *head = call.output_grad + group * call.length;
    const T *gamma = call.gamma + first_channel;
    const A mean = call.mean[group], inverse = call.inverse[group];
    double *head_sums = call.head_sums + sample * call.channels + first_channel;
    double *unit_sums = call.unit_sums + sample * call.channels + first_channel;
    A head_mean = 0, unit_mean = 0;
    for (int64_t c = 0; c < call.group_channels; ++c) {
        const T *channel = x + c * inner, *channel_head = head + c * inner;
        const A head_sum = row_sum<T>(inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(channel_head + i, mask, A(0));
        });
        const A centered_sum = row_sum<T>(inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(channel_head + i, mask, A(0)) * (load(channel + i, mask, A(0)) - mean);
        });
        const A unit_sum = centered_sum * inverse;
        head_sums[c] = head_sum;
        unit_sums[c] = unit_sum;
        head_mean += load_scalar(gamma + c) * head_sum;
        unit_mean += load_scalar(gamma + c) * unit_sum;
    }
    head_mean /= A(call.length);
    unit_mean /= A(call.length);
    for (int64_t c = 0; c < call.group_channels; ++c) {
        const T *channel = x + c * inner, *channel_head = head + c * inner;
        T *to = call.data_grad + group * call.length + c * inner;
        const A factor = load_scalar(gamma + c);
        write_row<STREAMING>(to, inner, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto unit = (load(channel + i, mask, A(0)) - mean) * inverse;
            return (load(channel_head + i, mask, A(0)) * factor - head_mean - unit * unit_mean) * inverse;
        });
    }
}

// Of a group of one or two elements: half the difference of their gradients is a multiple of the normalised data, and 1
// minus the square of these is eps * inverse^2. The difference of the other groups' formula would cancel.
template <typename T>
GLUONOPS_INLINE void gradient_of_pair(const TypedCall<T> &call, int64_t group)
{
    typedef typename Simd<T>::Scalar A;
    const T *head = call.output_grad + group * call.length;
    const T *gamma = call.gamma + group % call.groups * call.group_channels;
    const int64_t last = call.length - 1;
    const A inverse = call.inverse[group];
    const double first_gradient = double(load_scalar(head)) * load_scalar(gamma);
    const double last_gradient = double(load_scalar(head + last)) * load_scalar(gamma + last / call.inner);
    const double half = last ? (first_gradient - last_gradient) / 2 : 0;
    const A gradient = A(half) * (call.eps * inverse * inverse * inverse);
    store_scalar(call.data_grad + group * call.length, gradient);
    if (last)
        store_scalar(call.data_grad + group * call.length + last, -gradient);
}

template <bool STREAMING, typename T>
void data_gradient(const TypedCall<T> &given)
{
    const TypedCall<T> call = given;
    call.for_each_group(3 * sizeof(T), [=](int64_t group) {
        if (call.inner == 1)
            group_of_elements<STREAMING>(call, group);
        else
            group_of_channels<STREAMING>(call, group);
        if (call.length <= 2)
            gradient_of_pair(call, group);
    });
}

// The sum over the samples of each channel's sums.
template <typename T>
void sum_of_samples(const TypedCall<T> &call, const double *sums, T *gradient)
{
    typedef typename Simd<T>::Scalar A;
    for (int64_t c = 0; c < call.channels; ++c) {
        double sum = 0;
        for (int64_t sample = 0; sample < call.batch; ++sample)
            sum += sums[sample * call.channels + c];
        store_scalar(gradient + c, A(sum));
    }
}

template <typename T>
void forward(const GroupNormCall &call)
{
    const TypedCall<T> typed(call);
    if (!typed.length)
        return;
    if (typed.streaming())
        normalize<true>(typed);
    else
        normalize<false>(typed);
}

template <typename T>
void backward(const GroupNormCall &call)
{
    const TypedCall<T> typed(call);
    if (typed.length && typed.streaming())
        data_gradient<true>(typed);
    else if (typed.length)
        data_gradient<false>(typed);
    sum_of_samples(typed, typed.unit_sums, typed.gamma_grad);
    sum_of_samples(typed, typed.head_sums, typed.beta_grad);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline GroupNormCall adapt(const GroupNormAttrs &attrs, const GroupNormTensors &tensors, Workspace &memory)
{
    const std::vector<int64_t> &shape = tensors.data.shape();
    GroupNormCall call = {};
    call.type = tensors.data.type;
    call.batch = shape[0];
    call.channels = shape[1];
    call.groups = attrs.num_groups;
    call.inner = 1;
    for (size_t i = 2; i < shape.size(); ++i)
        call.inner *= shape[i];
    call.eps = attrs.eps;
    call.data = tensors.data.data;
    call.gamma = tensors.gamma.data;
    call.beta = tensors.beta.data;
    call.output = tensors.output.data;
    call.mean = tensors.mean.data;
    call.inverse = tensors.inverse.data;
    if (!tensors.backward)
        return call;

    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    call.gamma_grad = tensors.gamma_grad.data;
    call.beta_grad = tensors.beta_grad.data;
    call.head_sums = memory.zeros<double>(call.batch * call.channels);
    call.unit_sums = memory.zeros<double>(call.batch * call.channels);
    return call;
}

}  // namespace gluonops
