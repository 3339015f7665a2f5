// Tensors through an activation, element by element.
#include "../_activation/normal.cuh"
#include "../_activation/formulas.inl"

template <typename V>
__device__ V every(double x) { return V(x); }

template <typename Args, typename Formula>
__device__ void activate_forward(const Args &args, const Formula &formula)
{
    map_elements(args.output, args.output_request, args.size, [&](int64_t, auto x) { return formula.value(x); },
                 args.data);
}

template <typename Args, typename Formula>
__device__ void activate_backward(const Args &args, const Formula &formula)
{
    map_elements(args.data_grad, args.data_grad_request, args.size,
                 [&](int64_t, auto grad_out, auto x) { return grad_out * formula.slope(x); },
                 args.output_grad, args.data);
}
