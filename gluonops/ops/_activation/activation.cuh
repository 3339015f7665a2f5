// Tensors through an activation. Where they are aligned, a thread moves packs of 16 bytes; the rest, or everything,
// goes by elements.
#include "../_activation/normal.cuh"
#include "../_activation/formulas.inl"

template <typename V>
__device__ V every(double x) { return V(x); }

// How many of the elements lie in whole packs.
template <typename T>
__device__ int64_t elements_in_packs(int64_t elements, bool all_aligned)
{
    return all_aligned ? elements / Pack<T>::SIZE * Pack<T>::SIZE : 0;
}

template <typename Args, typename Formula>
__device__ void activate(const Args &args, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const int64_t packed = elements_in_packs<T>(args.size, aligned(args.data) && aligned(args.output));

    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> x = load_pack(args.data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = formula.value(load(x.items, j));
        store_pack(args.output, i, values, args.output_request);
    }

    for (int64_t i = packed + first_item(); i < args.size; i += item_step())
        store(args.output, i, formula.value(load(args.data, i)), args.output_request);
}

template <typename Args, typename Formula>
__device__ void activate_backward(const Args &args, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const bool all_aligned = aligned(args.output_grad) && aligned(args.data) && aligned(args.data_grad);
    const int64_t packed = elements_in_packs<T>(args.size, all_aligned);

    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(args.output_grad, i);
        const Pack<T> x = load_pack(args.data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = load(head.items, j) * formula.slope(load(x.items, j));
        store_pack(args.data_grad, i, values, args.data_grad_request);
    }

    for (int64_t i = packed + first_item(); i < args.size; i += item_step())
        store(args.data_grad, i, load(args.output_grad, i) * formula.slope(load(args.data, i)), args.data_grad_request);
}
