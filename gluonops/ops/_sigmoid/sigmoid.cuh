// Losses of a sigmoid, element by element. Where tensors are aligned, a thread moves packs of 16 bytes; the rest, or
// everything, goes by elements. A formula has value(x, label, place) and slope(x, label, place).
#include "../_sigmoid/logarithm.cuh"
#include "../_sigmoid/formulas.cuh"

template <typename T, typename Formula>
__device__ void sigmoid_loss(const T *data, const T *label, T *output, int request, int64_t size,
                             const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const bool all_aligned = aligned(data) && aligned(label) && aligned(output);
    const int64_t packed = all_aligned ? size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> x = load_pack(data, i), y = load_pack(label, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = formula.value(load(x.items, j), load(y.items, j), i + j);
        store_pack(output, i, values, request);
    }
    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(output, i, formula.value(load(data, i), load(label, i), i), request);
}

template <typename T, typename Formula>
__device__ void sigmoid_loss_backward(const T *output_grad, const T *data, const T *label, T *data_grad, int request,
                                      int64_t size, const Formula &formula)
{
    typedef typename Accumulator<T>::type A;
    const bool all_aligned = aligned(output_grad) && aligned(data) && aligned(label) && aligned(data_grad);
    const int64_t packed = all_aligned ? size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(output_grad, i), x = load_pack(data, i), y = load_pack(label, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j) {
            const A slope = formula.slope(load(x.items, j), load(y.items, j), i + j);
            values[j] = slope == 0 ? 0 : load(head.items, j) * slope;
        }
        store_pack(data_grad, i, values, request);
    }
    for (int64_t i = packed + first_item(); i < size; i += item_step()) {
        const A slope = formula.slope(load(data, i), load(label, i), i);
        store(data_grad, i, slope == 0 ? 0 : load(output_grad, i) * slope, request);
    }
}
