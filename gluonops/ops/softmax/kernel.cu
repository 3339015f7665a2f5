// softmax: a row's exponentials over their sum; see softmax.cuh. Backward: see class_loss.cuh.
#include "../_softmax/class_loss.cuh"

// Returns the factor of (x - max). It is finite, so that 0 stays 0 whatever the temperature, and above 0, so that
// -infinity stays what it is.
template <typename A>
__device__ A inverse_temperature(double temperature)
{
    const A scale = 1 / A(temperature), largest = -lowest<A>();
    return Max()(scale < largest ? scale : largest, 1 / largest);
}

template <typename T>
__device__ void forward(const SoftmaxArgs<T> &args)
{
    softmax_rows(args, inverse_temperature<typename Accumulator<T>::type>(args.temperature));
}

// The inputs are the head gradient and the output.
template <typename T>
struct SoftmaxGradient : ClassPass<SoftmaxArgs<T>> {
    using ClassPass<SoftmaxArgs<T>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    enum { BYTES = HELD_BYTES, LABELLED = false, SUMS = true, HELD = true };
    struct Row { A sum, factor; };

    __device__ int64_t class_of_row(int64_t) const { return 0; }
    __device__ bool sums() const { return true; }

    __device__ Row row(int64_t, int64_t, int64_t) const { return {0, inverse_temperature<A>(this->args.temperature)}; }

    template <typename Element>
    __device__ A term(const Element &at) const { return at.inputs[0] * at.inputs[1]; }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return at.inputs[1] * ((at.inputs[0] - at.row.sum) * at.row.factor);
    }
};

template <typename T>
__device__ void backward(const SoftmaxArgs<T> &args)
{
    const ClassRows<T, 2> tensors = {class_rows(args), {args.output_grad, args.output}, {args.data_grad},
                                     {args.data_grad_request}};
    class_gradient(tensors, SoftmaxGradient<T>(args));
}
