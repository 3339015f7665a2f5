// swiglu. A gate of `length` elements and a value of as many lie behind each other, `batch` times.
#include "../_activation/activation.cuh"

// Calls visit(pack, i, gate) for groups of the output's elements, as for_packs. Their gates begin at element `gate` of
// the data, and their values `length` elements behind.
template <typename T, typename Visit>
__device__ void for_gates(const SwigluArgs<T> &args, bool all_aligned, const Visit &visit)
{
    const bool in_packs = args.length % Pack<T>::SIZE == 0 && all_aligned;
    for_packs<T>(args.batch * args.length, in_packs, [&](auto pack, int64_t i) {
        visit(pack, i, i + i / args.length * args.length);
    });
}

template <typename T>
__device__ void forward(const SwigluArgs<T> &args)
{
    const Swish silu = {1};
    for_gates(args, aligned(args.data, args.output), [&](auto gate, int64_t i, int64_t offset) {
        enum { SIZE = decltype(gate)::SIZE };
        gate.read(args.data + offset);
        const auto value = load_pack<T, SIZE>(args.data, offset + args.length);
        typename Accumulator<T>::type values[SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            values[j] = silu.value(load(gate.items, j)) * load(value.items, j);
        store_pack<T, SIZE>(args.output, i, values, args.output_request);
    });
}

template <typename T>
__device__ void backward(const SwigluArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Swish silu = {1};
    for_gates(args, aligned(args.output_grad, args.data, args.data_grad), [&](auto gate, int64_t i, int64_t offset) {
        enum { SIZE = decltype(gate)::SIZE };
        const auto grad_out = load_pack<T, SIZE>(args.output_grad, i);
        gate.read(args.data + offset);
        const auto value = load_pack<T, SIZE>(args.data, offset + args.length);
        A by_gate[SIZE], by_value[SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const A x = load(gate.items, j), h = load(grad_out.items, j);
            by_gate[j] = h * load(value.items, j) * silu.slope(x);
            by_value[j] = h * silu.value(x);
        }
        store_pack<T, SIZE>(args.data_grad, offset, by_gate, args.data_grad_request);
        store_pack<T, SIZE>(args.data_grad, offset + args.length, by_value, args.data_grad_request);
    });
}
