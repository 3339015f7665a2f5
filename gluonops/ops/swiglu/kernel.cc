// swiglu on the CPU. A gate of `length` elements and a value of as many lie behind each other, `batch` times. Bytes
// moved, of the data: forward 1.5 times, backward 2.5 times; what is read twice is in the first-level cache.
#include "generated/swiglu.h"
#include "../../native/simd/rows.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

const int64_t SWIGLU_SPAN = 2048;   // elements

// Calls body(gate, offset, items) for the spans of every gate: the span's first element in the data and in the output.
template <typename T, typename Body>
void for_each_span(const SwigluArgs<T> &args, int64_t bytes_per_element, const Body &body)
{
    const int64_t length = args.length;
    const int64_t spans = (length + SWIGLU_SPAN - 1) / SWIGLU_SPAN;
    const int64_t longest = length < SWIGLU_SPAN ? length : SWIGLU_SPAN;
    parallel_for(args.batch * spans, longest * bytes_per_element, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t outer = i / spans, first = i % spans * SWIGLU_SPAN;
            const int64_t items = length - first < SWIGLU_SPAN ? length - first : SWIGLU_SPAN;
            body(2 * outer * length + first, outer * length + first, items);
        }
        store_fence();
    });
}

// Returns whether streaming stores pay: the result is large, and written in long spans.
template <typename T>
bool streams_halves(const SwigluArgs<T> &args, int64_t halves)
{
    return streams<T>(halves * args.batch * args.length) && args.length * int64_t(sizeof(T)) >= 512;
}

template <typename T>
void forward(const SwigluArgs<T> &args)
{
    const T *data = args.data;
    T *output = args.output;
    const int64_t length = args.length;
    const bool streaming = streams_halves(args, 1);
    for_each_span(args, 3 * sizeof(T), [=](int64_t gate_offset, int64_t offset, int64_t items) {
        const T *gate = data + gate_offset, *value = gate + length;
        write_row(output + offset, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return Swish{1}.value(load(gate + i, mask)) * load(value + i, mask);
        });
    });
}

template <typename T>
void backward(const SwigluArgs<T> &args)
{
    const T *data = args.data, *output_grad = args.output_grad;
    T *data_grad = args.data_grad;
    const int64_t length = args.length;
    const bool streaming = streams_halves(args, 2);
    for_each_span(args, 5 * sizeof(T), [=](int64_t gate_offset, int64_t offset, int64_t items) {
        const T *gate = data + gate_offset, *value = gate + length, *grad_out = output_grad + offset;
        T *gate_grad = data_grad + gate_offset, *value_grad = gate_grad + length;
        write_row(gate_grad, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto by_product = load(grad_out + i, mask) * load(value + i, mask);
            return by_product * Swish{1}.slope(load(gate + i, mask));
        });
        write_row(value_grad, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(grad_out + i, mask) * Swish{1}.value(load(gate + i, mask));
        });
    });
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
