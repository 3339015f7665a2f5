// The focal loss of a row is (1 - p)^gamma * nll, with the nll of its class and the probability p = exp(-nll). C++ and
// CUDA share this text. Both define power_of<T>(base, exponent) before it.

// Returns the derivative by the nll. Near 0 the error 1 - p is the nll. At infinity p * nll is 0.
template <typename T, typename A>
GLUONOPS_INLINE A focal_slope(A nll, A gamma)
{
    const A error = -exponential_minus_one(-nll), p = exponential(-nll);
    const A ratio = error == 0 ? A(1) : p == 0 ? A(0) : nll / error;
    return power_of<T>(error, gamma) * (1 + gamma * p * ratio);
}
