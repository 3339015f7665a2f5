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

    __device__ explicit IgnoredLabel(const Optional<int64_t> &ignored)
        : label(ignored.given ? A(ignored.value) : not_a_number<A>()) {}
    __device__ A unless_ignored(A value, A y) const { return y == label ? A(0) : value; }
};

template <typename Args, typename Formula>
__device__ void sigmoid_loss(const Args &args, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const bool all_aligned = aligned(args.data) && aligned(args.label) && aligned(args.output);
    const int64_t packed = all_aligned ? args.size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> x = load_pack(args.data, i), y = load_pack(args.label, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = formula.value(load(x.items, j), load(y.items, j), i + j);
        store_pack(args.output, i, values, args.output_request);
    }
    for (int64_t i = packed + first_item(); i < args.size; i += item_step())
        store(args.output, i, formula.value(load(args.data, i), load(args.label, i), i), args.output_request);
}

template <typename Args, typename Formula>
__device__ void sigmoid_loss_backward(const Args &args, const Formula &formula)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const bool all_aligned = aligned(args.output_grad) && aligned(args.data) && aligned(args.label)
        && aligned(args.data_grad);
    const int64_t packed = all_aligned ? args.size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(args.output_grad, i), x = load_pack(args.data, i), y = load_pack(args.label, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j) {
            const A slope = formula.slope(load(x.items, j), load(y.items, j), i + j);
            values[j] = slope == 0 ? A(0) : load(head.items, j) * slope;
        }
        store_pack(args.data_grad, i, values, args.data_grad_request);
    }
    for (int64_t i = packed + first_item(); i < args.size; i += item_step()) {
        const A slope = formula.slope(load(args.data, i), load(args.label, i), i);
        store(args.data_grad, i, slope == 0 ? A(0) : load(args.output_grad, i) * slope, args.data_grad_request);
    }
}
