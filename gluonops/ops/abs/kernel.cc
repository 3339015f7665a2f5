// abs on the CPU. Bytes moved: forward twice the tensor's, backward three times.
#include <type_traits>

#include "generated/abs.h"
#include "../../native/kernel.h"

namespace gluonops {

struct AbsCall {
    int type;
    int64_t size;
    const void *data;
    const void *output_grad;   // backward
    void *result;
};

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
void elementwise_forward(const AbsCall &call)
{
    const T *data = static_cast<const T *>(call.data);
    T *output = static_cast<T *>(call.result);

    parallel_for(call.size, 2 * sizeof(T), [=](int64_t begin, int64_t end) {
        const T *__restrict__ from = data;
        T *__restrict__ to = output;
        for (int64_t i = begin; i < end; ++i)
            to[i] = magnitude(from[i]);
    });
}

template <typename T>
void integer_backward(const AbsCall &call)
{
    const T *data = static_cast<const T *>(call.data);
    const T *output_grad = static_cast<const T *>(call.output_grad);
    T *data_grad = static_cast<T *>(call.result);

    parallel_for(call.size, 3 * sizeof(T), [=](int64_t begin, int64_t end) {
        const T *__restrict__ from = data;
        const T *__restrict__ head = output_grad;
        T *__restrict__ to = data_grad;
        for (int64_t i = begin; i < end; ++i)
            to[i] = signed_grad(head[i], from[i]);
    });
}

// Floating-point numbers: vectors, with streaming stores for large tensors.

GLUONOPS_INLINE Floats magnitudes(Floats x) { return Floats(Words(x) & 0x7fffffffu); }
GLUONOPS_INLINE Doubles magnitudes(Doubles x) { return Doubles(LongWords(x) & 0x7fffffffffffffffu); }

// 1, -1, or 0 for zeros and NaN.
template <typename V>
GLUONOPS_INLINE V signs(V x)
{
    const V zero = {}, one = zero + 1;
    return (x > 0 ? one : zero) - (x < 0 ? one : zero);
}

// Threads take runs of this many elements. That is a whole number of cache lines, counted from the tensor's start.
const int64_t RUN = 4096;

template <bool STREAMING, bool BACKWARD, typename T>
void by_vectors(const AbsCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const T *data = static_cast<const T *>(call.data);
    const T *output_grad = static_cast<const T *>(call.output_grad);
    T *result = static_cast<T *>(call.result);

    const int64_t size = call.size;
    const int64_t runs = (size + RUN - 1) / RUN;
    const int64_t tensors = BACKWARD ? 3 : 2;
    parallel_for(runs, tensors * RUN * int64_t(sizeof(T)), [=](int64_t first_run, int64_t end_run) {
        const int64_t begin = first_run * RUN;
        const int64_t end = end_run * RUN < size ? end_run * RUN : size;

        write_row<STREAMING>(result + begin, end - begin, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto x = load(data + begin + i, mask, A(0));
            if (!BACKWARD)
                return magnitudes(x);
            return load(output_grad + begin + i, mask, A(0)) * signs(x);
        });
        store_fence();
    });
}

template <bool BACKWARD, typename T>
void dispatch_streaming(const AbsCall &call)
{
    const int64_t bytes = call.size * int64_t(sizeof(T));
    if (bytes >= STREAMING_MIN_BYTES)
        by_vectors<true, BACKWARD, T>(call);
    else
        by_vectors<false, BACKWARD, T>(call);
}

template <typename T>
void forward(const AbsCall &call)
{
    if constexpr (std::is_floating_point<T>::value)
        dispatch_streaming<false, T>(call);
    else
        elementwise_forward<T>(call);   // of float16 too: it only clears a bit
}

template <typename T>
void backward(const AbsCall &call)
{
    if constexpr (std::is_integral<T>::value)
        integer_backward<T>(call);
    else
        dispatch_streaming<true, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline AbsCall adapt(const AbsAttrs &, const AbsTensors &tensors, Workspace &)
{
    AbsCall call = {};
    call.type = tensors.data.type;
    call.size = tensors.data.size();
    call.data = tensors.data.data;
    call.output_grad = tensors.output_grad.data;
    call.result = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
