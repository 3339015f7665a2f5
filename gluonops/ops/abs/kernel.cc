// abs on the CPU. Bytes moved: forward twice the tensor's, backward three times.
#include <type_traits>

#include "generated/abs.h"
#include "../_activation/activation.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

// Integers, and forward of float16: one element at a time. The compiler vectorises the loops.

GLUONOPS_INLINE uint8_t magnitude(uint8_t x) { return x; }
GLUONOPS_INLINE Half magnitude(Half x) { return Half{uint16_t(x.bits & 0x7fffu)}; }

// Negated in unsigned arithmetic, which defines the result for the smallest number: it stays itself.
GLUONOPS_INLINE int8_t magnitude(int8_t x) { return x < 0 ? int8_t(0u - unsigned(x)) : x; }
GLUONOPS_INLINE int32_t magnitude(int32_t x) { return x < 0 ? int32_t(0u - uint32_t(x)) : x; }
GLUONOPS_INLINE int64_t magnitude(int64_t x) { return x < 0 ? int64_t(uint64_t(0) - uint64_t(x)) : x; }

GLUONOPS_INLINE uint8_t signed_grad(uint8_t grad, uint8_t x) { return x ? grad : 0; }
GLUONOPS_INLINE int8_t signed_grad(int8_t grad, int8_t x) { return int8_t(grad * ((x > 0) - (x < 0))); }

// Multiplied in unsigned arithmetic too.
GLUONOPS_INLINE int32_t signed_grad(int32_t grad, int32_t x)
{
    const uint32_t sign = uint32_t((x > 0) - (x < 0));
    return int32_t(uint32_t(grad) * sign);
}

GLUONOPS_INLINE int64_t signed_grad(int64_t grad, int64_t x)
{
    const uint64_t sign = uint64_t(int64_t((x > 0) - (x < 0)));
    return int64_t(uint64_t(grad) * sign);
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
        const T *__restrict__ head = output_grad;
        T *__restrict__ to = data_grad;
        for (int64_t i = begin; i < end; ++i)
            to[i] = signed_grad(head[i], from[i]);
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
        elementwise_forward(args);   // of float16 too: it only clears a bit
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
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
