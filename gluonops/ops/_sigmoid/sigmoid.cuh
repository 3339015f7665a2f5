// Losses of a sigmoid, element by element. A formula has value(x, label, index) and slope(x, label, index). The
// formulas are those of formulas.h, with fewer instructions: divisions and logarithms take many.
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

// Returns the label that is ignored. Without one it is NaN, which no label is equal to.
template <typename Args>
__device__ typename Args::A ignored_label(const Args &args)
{
    return args.ignore_label.has_value ? typename Args::A(args.ignore_label.value) : not_a_number<typename Args::A>();
}

template <typename Args, typename Formula>
__device__ void sigmoid_loss(const Args &args, const Formula &formula)
{
    typedef typename Args::A A;
    const A ignored = ignored_label(args);
    map_elements(args.output, args.output_request, args.size, [&](int64_t index, A x, A y) {
        const A loss = formula.value(x, y, index);
        return y == ignored ? A(0) : loss;
    }, args.data, args.label);
}

template <typename Args, typename Formula>
__device__ void sigmoid_loss_backward(const Args &args, const Formula &formula)
{
    typedef typename Args::A A;
    const A ignored = ignored_label(args);
    map_elements(args.data_grad, args.data_grad_request, args.size, [&](int64_t index, A grad_out, A x, A y) {
        const A slope_of_loss = formula.slope(x, y, index), slope = y == ignored ? A(0) : slope_of_loss;
        return slope == 0 ? A(0) : grad_out * slope;
    }, args.output_grad, args.data, args.label);
}
