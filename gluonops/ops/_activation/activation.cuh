// Tensors through an activation. Where they are aligned, a thread moves packs of 16 bytes; the rest, or everything, goes
// by elements.
#include "../_activation/normal.cuh"
#include "../_activation/formulas.cuh"

template <typename V>
__device__ V every(double x) { return V(x); }

// How many of the elements lie in whole packs.
template <typename T>
__device__ int64_t elements_in_packs(int64_t elements, bool all_aligned)
{
    return all_aligned ? elements / Pack<T>::SIZE * Pack<T>::SIZE : 0;
}

template <typename T, typename Formula>
__device__ void activate(const T *__restrict__ data, T *__restrict__ output, int request, int64_t size,
                         const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const int64_t packed = elements_in_packs<T>(size, aligned(data) && aligned(output));

    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> x = load_pack(data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = formula.value(load(x.items, j));
        store_pack(output, i, values, request);
    }

    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(output, i, formula.value(load(data, i)), request);
}

template <typename T, typename Formula>
__device__ void activate_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                  T *__restrict__ data_grad, int request, int64_t size, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const bool all_aligned = aligned(output_grad) && aligned(data) && aligned(data_grad);
    const int64_t packed = elements_in_packs<T>(size, all_aligned);

    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(output_grad, i);
        const Pack<T> x = load_pack(data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = load(head.items, j) * formula.slope(load(x.items, j));
        store_pack(data_grad, i, values, request);
    }

    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(data_grad, i, load(output_grad, i) * formula.slope(load(data, i)), request);
}
