// Losses of a sigmoid, element by element. Where tensors are aligned, a thread moves packs of 16 bytes; the rest, or
// everything, goes by elements. A formula has value(x, label, place) and slope(x, label, place). The formulas are those
// of formulas.h, with fewer instructions: divisions and logarithms take many.
#include "../_sigmoid/functions.cuh"

// sigmoid(x) and sigmoid(-x), and what the losses take of x, without a difference and without an overflow.
template <typename T>
struct SigmoidOf {
    typedef typename Accumulator<T>::type A;
    A plus, minus;
    A above, below;   // max(x, 0) and max(-x, 0); a NaN stays
    A e;              // exp(-|x|)

    __device__ explicit SigmoidOf(A x)
    {
        const bool is_negative = x < 0;
        e = Functions<T>::exp_minus(fabs(x));
        const A larger = Functions<T>::inverse(1 + e), smaller = e * larger;
        plus = is_negative ? smaller : larger;
        minus = is_negative ? larger : smaller;
        above = is_negative ? A(0) : x;
        below = is_negative ? -x : A(0);
    }

    // -(y log(p) + (1 - y) log(1 - p)): log(1 + e) is in both logarithms.
    __device__ A cross_entropy(A y) const { return Functions<T>::add_log1p(e, fma(y, below, (1 - y) * above)); }
};

// The label that is ignored. Without one it is NaN, which no label is equal to.
template <typename A>
struct IgnoredLabel {
    A label;

    __device__ IgnoredLabel(bool ignores, int64_t label) : label(ignores ? A(label) : not_a_number<A>()) {}
    __device__ A unless_ignored(A value, A y) const { return y == label ? A(0) : value; }
};

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
            values[j] = slope == 0 ? A(0) : load(head.items, j) * slope;
        }
        store_pack(data_grad, i, values, request);
    }
    for (int64_t i = packed + first_item(); i < size; i += item_step()) {
        const A slope = formula.slope(load(data, i), load(label, i), i);
        store(data_grad, i, slope == 0 ? A(0) : load(output_grad, i) * slope, request);
    }
}
