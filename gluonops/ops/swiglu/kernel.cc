// swiglu on the CPU. A gate of `length` elements and a value of as many lie behind each other, `outer` times. Bytes moved,
// of the data: forward 1.5 times, backward 2.5 times; what is read twice is in the first-level cache.
#include "generated/swiglu.h"
#include "../../native/simd/rows.h"
#include "../_activation/activation.h"

namespace gluonops {

struct SwigluCall {
    int type;
    int64_t outer, length;
    const void *data;
    const void *output_grad;   // backward
    void *result;
};

namespace GLUONOPS_TARGET {
namespace {

const int64_t SWIGLU_RUN = 2048;   // elements

// Calls body(gate, place, items) for the runs of every gate: the run's first element in the data and in the output.
template <typename T, typename Body>
void for_each_run(const SwigluCall &call, int64_t bytes_per_element, const Body &body)
{
    const int64_t length = call.length;
    const int64_t runs = (length + SWIGLU_RUN - 1) / SWIGLU_RUN;
    const int64_t longest = length < SWIGLU_RUN ? length : SWIGLU_RUN;
    parallel_for(call.outer * runs, longest * bytes_per_element, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t outer = i / runs, first = i % runs * SWIGLU_RUN;
            const int64_t items = length - first < SWIGLU_RUN ? length - first : SWIGLU_RUN;
            body(2 * outer * length + first, outer * length + first, items);
        }
        store_fence();
    });
}

template <bool STREAMING, typename T>
void forward_runs(const SwigluCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const T *data = static_cast<const T *>(call.data);
    T *output = static_cast<T *>(call.result);
    const int64_t length = call.length;
    for_each_run<T>(call, 3 * sizeof(T), [=](int64_t gate_place, int64_t place, int64_t items) {
        const T *gate = data + gate_place, *value = gate + length;
        write_row<STREAMING>(output + place, items, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return Swish{1}.value(load(gate + i, mask, A(0))) * load(value + i, mask, A(0));
        });
    });
}

template <bool STREAMING, typename T>
void backward_runs(const SwigluCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const T *data = static_cast<const T *>(call.data);
    const T *output_grad = static_cast<const T *>(call.output_grad);
    T *data_grad = static_cast<T *>(call.result);
    const int64_t length = call.length;
    for_each_run<T>(call, 5 * sizeof(T), [=](int64_t gate_place, int64_t place, int64_t items) {
        const T *gate = data + gate_place, *value = gate + length, *head = output_grad + place;
        T *gate_grad = data_grad + gate_place, *value_grad = gate_grad + length;
        write_row<STREAMING>(gate_grad, items, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto by_product = load(head + i, mask, A(0)) * load(value + i, mask, A(0));
            return by_product * Swish{1}.slope(load(gate + i, mask, A(0)));
        });
        write_row<STREAMING>(value_grad, items, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(head + i, mask, A(0)) * Swish{1}.value(load(gate + i, mask, A(0)));
        });
    });
}

// Whether streaming stores pay: the result is large, and written in long runs.
template <typename T>
bool streaming(const SwigluCall &call, int64_t halves)
{
    const int64_t item = int64_t(sizeof(T));
    return halves * call.outer * call.length * item >= STREAMING_MIN_BYTES && call.length * item >= 512;
}

template <typename T>
void forward(const SwigluCall &call)
{
    if (streaming<T>(call, 1))
        forward_runs<true, T>(call);
    else
        forward_runs<false, T>(call);
}

template <typename T>
void backward(const SwigluCall &call)
{
    if (streaming<T>(call, 2))
        backward_runs<true, T>(call);
    else
        backward_runs<false, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SwigluCall adapt(const SwigluAttrs &attrs, const SwigluTensors &tensors, Workspace &)
{
    const RowSizes sizes = row_sizes(tensors.data.shape(), attrs.axis);
    SwigluCall call = {};
    call.type = tensors.data.type;
    call.outer = sizes.outer;
    call.length = sizes.length / 2 * sizes.inner;
    call.data = tensors.data.data;
    call.output_grad = tensors.output_grad.data;
    call.result = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
