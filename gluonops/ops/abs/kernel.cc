// abs on the CPU. Bytes moved: forward twice the tensor's, backward three times.
#include "../../native/kernel.h"

namespace gluonops {

struct AbsCall {
    int type;
    int64_t size;
    const void *data, *output_grad;   // forward reads no gradient
    void *result;
};

GLUONOPS_KERNEL(abs_forward, AbsCall)
GLUONOPS_KERNEL(abs_backward, AbsCall)

namespace GLUONOPS_TARGET {
namespace {

GLUONOPS_INLINE float magnitude(float x) { return __builtin_fabsf(x); }
GLUONOPS_INLINE double magnitude(double x) { return __builtin_fabs(x); }
GLUONOPS_INLINE uint8_t magnitude(uint8_t x) { return x; }
GLUONOPS_INLINE Half magnitude(Half x) { return Half{uint16_t(x.bits & 0x7fffu)}; }
// In unsigned arithmetic: the smallest number stays itself.
GLUONOPS_INLINE int8_t magnitude(int8_t x) { return x < 0 ? int8_t(0u - unsigned(x)) : x; }
GLUONOPS_INLINE int32_t magnitude(int32_t x) { return x < 0 ? int32_t(0u - uint32_t(x)) : x; }
GLUONOPS_INLINE int64_t magnitude(int64_t x) { return x < 0 ? int64_t(uint64_t(0) - uint64_t(x)) : x; }

template <typename T>
GLUONOPS_INLINE T signed_grad(T grad, T x) { return grad * T((x > 0) - (x < 0)); }
GLUONOPS_INLINE uint8_t signed_grad(uint8_t grad, uint8_t x) { return x ? grad : 0; }
GLUONOPS_INLINE int8_t signed_grad(int8_t grad, int8_t x) { return int8_t(grad * ((x > 0) - (x < 0))); }
GLUONOPS_INLINE int32_t signed_grad(int32_t grad, int32_t x)
{
    return int32_t(uint32_t(grad) * uint32_t((x > 0) - (x < 0)));
}
GLUONOPS_INLINE int64_t signed_grad(int64_t grad, int64_t x)
{
    return int64_t(uint64_t(grad) * uint64_t(int64_t((x > 0) - (x < 0))));
}

template <typename T>
void forward(const AbsCall &call)
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
void backward(const AbsCall &call)
{
    const T *data = static_cast<const T *>(call.data), *output_grad = static_cast<const T *>(call.output_grad);
    T *data_grad = static_cast<T *>(call.result);
    parallel_for(call.size, 3 * sizeof(T), [=](int64_t begin, int64_t end) {
        const T *__restrict__ from = data;
        const T *__restrict__ head = output_grad;
        T *__restrict__ to = data_grad;
        for (int64_t i = begin; i < end; ++i)
            to[i] = signed_grad(head[i], from[i]);
    });
}

template <>
void backward<Half>(const AbsCall &call)
{
    const Half *data = static_cast<const Half *>(call.data);
    const Half *output_grad = static_cast<const Half *>(call.output_grad);
    Half *data_grad = static_cast<Half *>(call.result);
    parallel_for(call.size, 6, [=](int64_t begin, int64_t end) {
        write_row<false>(data_grad + begin, end - begin, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            const Floats x = load(data + begin + i, lanes, 0), zero = all(0.0f);
            const Floats sign = (x > 0 ? all(1.0f) : zero) - (x < 0 ? all(1.0f) : zero);
            return load(output_grad + begin + i, lanes, 0) * sign;
        });
    });
}

}  // namespace

void abs_forward(const AbsCall &call)
{
    switch (call.type) {
    case FLOAT16: return forward<Half>(call);
    case FLOAT32: return forward<float>(call);
    case FLOAT64: return forward<double>(call);
    case UINT8: return forward<uint8_t>(call);
    case INT8: return forward<int8_t>(call);
    case INT32: return forward<int32_t>(call);
    default: return forward<int64_t>(call);
    }
}

void abs_backward(const AbsCall &call)
{
    switch (call.type) {
    case FLOAT16: return backward<Half>(call);
    case FLOAT32: return backward<float>(call);
    case FLOAT64: return backward<double>(call);
    case UINT8: return backward<uint8_t>(call);
    case INT8: return backward<int8_t>(call);
    case INT32: return backward<int32_t>(call);
    default: return backward<int64_t>(call);
    }
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#ifdef GLUONOPS_REGISTER
#include "../../native/operator.h"

namespace gluonops {
namespace {

struct Abs : Contract {
    static constexpr const char *NAME = "abs";
    struct Attrs {};
    static Attrs parse(const Attributes &) { return {}; }
    static std::vector<const char *> attributes() { return {}; }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"output", 'T'}};
    }
    enum { INPUTS = 1, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats_and_integers(); }
    static Shapes shapes(const Attrs &, const std::vector<int> &ndims)
    {
        const Pattern every = numbered(ndims[0]);
        return {{every, every}, {}};
    }
    static void forward(const Attrs &, Arrays inputs, Arrays outputs)
    {
        abs_forward({inputs[0].dtype, inputs[0].size(), inputs[0].data_ptr, nullptr, outputs[0].data_ptr});
    }
    static void backward(const Attrs &, Arrays grads, Arrays inputs, Arrays, Arrays results)
    {
        abs_backward({inputs[0].dtype, inputs[0].size(), inputs[0].data_ptr, grads[0].data_ptr, results[0].data_ptr});
    }
};

GLUONOPS_REGISTER_OP(gluonops_abs, Abs)

}  // namespace
}  // namespace gluonops
#endif
