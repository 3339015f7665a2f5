// abs on the CPU. Bytes moved: forward twice the tensor's, backward three times.
#include <type_traits>

#include "generated/abs.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// Integers, and forward of float16: one element at a time. The compiler vectorises the loops.

GLUONOPS_INLINE Half magnitude(Half x) { return Half{uint16_t(x.bits & 0x7fffu)}; }

// Negated in unsigned arithmetic, which defines the result for the smallest number: it stays itself.
template <typename T>
GLUONOPS_INLINE T magnitude(T x) { return x < 0 ? T(0u - std::make_unsigned_t<T>(x)) : x; }

// Multiplied in unsigned arithmetic too.
template <typename T>
GLUONOPS_INLINE T signed_grad(T grad, T x)
{
    typedef std::make_unsigned_t<T> Unsigned;
    return T(Unsigned(grad) * Unsigned((x > 0) - (x < 0)));
}

template <typename T>
void elementwise_forward(const AbsArgs<T> &args)
{
    const T *data = args.data;
    T *output = args.output;
    parallel_for(args.size, 2 * sizeof(T), [=](int64_t begin, int64_t end) {
        const T *__restrict__ from = data;
        T *__restrict__ to = output;
        for (int64_t i = begin; i < end; ++i)
            to[i] = magnitude(from[i]);
    });
}

template <typename T>
void integer_backward(const AbsArgs<T> &args)
{
    const T *data = args.data, *output_grad = args.output_grad;
    T *data_grad = args.data_grad;
    parallel_for(args.size, 3 * sizeof(T), [=](int64_t begin, int64_t end) {
        const T *__restrict__ from = data;
        const T *__restrict__ grad_out = output_grad;
        T *__restrict__ to = data_grad;
        for (int64_t i = begin; i < end; ++i)
            to[i] = signed_grad(grad_out[i], from[i]);
    });
}

// Floating-point numbers: vectors.

GLUONOPS_INLINE Floats magnitudes(Floats x) { return Floats(Words(x) & 0x7fffffffu); }
GLUONOPS_INLINE Doubles magnitudes(Doubles x) { return Doubles(LongWords(x) & 0x7fffffffffffffffu); }

struct Abs {
    template <typename V>
    GLUONOPS_INLINE V value(V x) const { return magnitudes(x); }

    // 1, -1, or 0 for zeros and NaN.
    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const V zero = {}, one = zero + 1;
        return (x > 0 ? one : zero) - (x < 0 ? one : zero);
    }
};

template <typename T>
void forward(const AbsArgs<T> &args)
{
    if constexpr (std::is_floating_point<T>::value)
        activate_forward(args, Abs());
    else
        elementwise_forward(args);   // float16 goes this way too: it only clears a bit.
}

template <typename T>
void backward(const AbsArgs<T> &args)
{
    if constexpr (std::is_integral<T>::value)
        integer_backward(args);
    else
        activate_backward(args, Abs());
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
