// swiglu. A gate of `length` elements and a value of as many lie behind each other, `outer` times. Where the tensors are
// aligned, a thread moves packs of 16 bytes; otherwise it goes by elements.
#include "../_activation/activation.cuh"

// Whether gates and values begin at multiples of a pack.
template <typename T>
__device__ bool in_packs(int64_t length, const T *a, const T *b, const T *c)
{
    return length % Pack<T>::SIZE == 0 && aligned(a) && aligned(b) && aligned(c);
}

template <typename T>
__global__ void swiglu_forward(const T *__restrict__ data, T *__restrict__ output, int output_request, int64_t outer,
                               int64_t length)
{
    typedef typename Accumulator<T>::type A;
    const Swish silu = {1};
    const int64_t size = outer * length;
    if (in_packs(length, data, output, output)) {
        for (int64_t i = first_item() * Pack<T>::SIZE; i < size; i += item_step() * Pack<T>::SIZE) {
            const int64_t gate_place = i + i / length * length;
            const Pack<T> gate = load_pack(data, gate_place);
            const Pack<T> value = load_pack(data, gate_place + length);
            A values[Pack<T>::SIZE];
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j)
                values[j] = silu.value(load(gate.items, j)) * load(value.items, j);
            store_pack(output, i, values, output_request);
        }
        return;
    }

    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t gate_place = i + i / length * length;
        const A gate = load(data, gate_place), value = load(data, gate_place + length);
        store(output, i, silu.value(gate) * value, output_request);
    }
}

template <typename T>
__global__ void swiglu_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                T *__restrict__ data_grad, int data_grad_request, int64_t outer, int64_t length)
{
    typedef typename Accumulator<T>::type A;
    const Swish silu = {1};
    const int64_t size = outer * length;
    if (in_packs(length, output_grad, data, data_grad)) {
        for (int64_t i = first_item() * Pack<T>::SIZE; i < size; i += item_step() * Pack<T>::SIZE) {
            const int64_t gate_place = i + i / length * length;
            const Pack<T> head = load_pack(output_grad, i);
            const Pack<T> gate = load_pack(data, gate_place);
            const Pack<T> value = load_pack(data, gate_place + length);
            A by_gate[Pack<T>::SIZE], by_value[Pack<T>::SIZE];
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j) {
                const A x = load(gate.items, j), h = load(head.items, j);
                by_gate[j] = h * load(value.items, j) * silu.slope(x);
                by_value[j] = h * silu.value(x);
            }
            store_pack(data_grad, gate_place, by_gate, data_grad_request);
            store_pack(data_grad, gate_place + length, by_value, data_grad_request);
        }
        return;
    }

    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t gate_place = i + i / length * length;
        const A gate = load(data, gate_place), head = load(output_grad, i);
        store(data_grad, gate_place, head * load(data, gate_place + length) * silu.slope(gate), data_grad_request);
        store(data_grad, gate_place + length, head * silu.value(gate), data_grad_request);
    }
}
