// swiglu. A gate of `length` elements and a value of as many lie behind each other, `batch` times. Where the tensors
// are aligned, a thread moves packs of 16 bytes; otherwise it goes by elements.
#include "../_activation/activation.cuh"

// Whether gates and values begin at multiples of a pack.
template <typename T>
__device__ bool in_packs(int64_t length, const T *a, const T *b, const T *c)
{
    return length % Pack<T>::SIZE == 0 && aligned(a) && aligned(b) && aligned(c);
}

template <typename T>
__device__ void forward(const SwigluArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Swish silu = {1};
    const int64_t size = args.batch * args.length;
    if (in_packs(args.length, args.data, args.output, args.output)) {
        for (int64_t i = first_item() * Pack<T>::SIZE; i < size; i += item_step() * Pack<T>::SIZE) {
            const int64_t gate_place = i + i / args.length * args.length;
            const Pack<T> gate = load_pack(args.data, gate_place);
            const Pack<T> value = load_pack(args.data, gate_place + args.length);
            A values[Pack<T>::SIZE];
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j)
                values[j] = silu.value(load(gate.items, j)) * load(value.items, j);
            store_pack(args.output, i, values, args.output_request);
        }
        return;
    }

    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t gate_place = i + i / args.length * args.length;
        const A gate = load(args.data, gate_place), value = load(args.data, gate_place + args.length);
        store(args.output, i, silu.value(gate) * value, args.output_request);
    }
}

template <typename T>
__device__ void backward(const SwigluArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Swish silu = {1};
    const int64_t size = args.batch * args.length;
    if (in_packs(args.length, args.output_grad, args.data, args.data_grad)) {
        for (int64_t i = first_item() * Pack<T>::SIZE; i < size; i += item_step() * Pack<T>::SIZE) {
            const int64_t gate_place = i + i / args.length * args.length;
            const Pack<T> head = load_pack(args.output_grad, i);
            const Pack<T> gate = load_pack(args.data, gate_place);
            const Pack<T> value = load_pack(args.data, gate_place + args.length);
            A by_gate[Pack<T>::SIZE], by_value[Pack<T>::SIZE];
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j) {
                const A x = load(gate.items, j), h = load(head.items, j);
                by_gate[j] = h * load(value.items, j) * silu.slope(x);
                by_value[j] = h * silu.value(x);
            }
            store_pack(args.data_grad, gate_place, by_gate, args.data_grad_request);
            store_pack(args.data_grad, gate_place + args.length, by_value, args.data_grad_request);
        }
        return;
    }

    for (int64_t i = first_item(); i < size; i += item_step()) {
        const int64_t gate_place = i + i / args.length * args.length;
        const A gate = load(args.data, gate_place), value = load(args.data, gate_place + args.length);
        const A head = load(args.output_grad, i);
        store(args.data_grad, gate_place, head * value * silu.slope(gate), args.data_grad_request);
        store(args.data_grad, gate_place + args.length, head * silu.value(gate), args.data_grad_request);
    }
}
