// The numbers of a prediction that are logits. C++ and CUDA share this text.

// V is a number or, in C++, a vector.
template <typename V>
GLUONOPS_INLINE V sigmoid(V x) { return 1 / (1 + full_range_exponential(-x)); }

// Returns the negative log-likelihood of a sigmoid's logit, given its target of 0 or 1.
template <typename A>
GLUONOPS_INLINE A sigmoid_nll(A x, A target)
{
    const A positive = x > 0 ? x : A(0), minus_magnitude = x > 0 ? -x : x;
    return logarithm(1 + exponential(minus_magnitude)) + positive - x * target;
}

// The logits, which are `stride` apart. They belong to a softmax, or to a sigmoid each.
template <typename T>
struct ClassLogits {
    typedef typename Accumulator<T>::type A;
    const T *first;
    int64_t stride;
    bool softmax;
    A max, log_sum;   // the softmax's own

    GLUONOPS_INLINE ClassLogits(const T *first, int64_t classes, int64_t stride, bool softmax)
        : first(first), stride(stride), softmax(softmax), max(lowest<A>()), log_sum(0)
    {
        if (!softmax)
            return;
        const int64_t block = 256;   // The error would grow with the number of terms.
        A sum = 0;
        for (int64_t k = 0; k < classes; ++k)
            max = logit(k) > max ? logit(k) : max;
        for (int64_t first = 0; first < classes; first += block) {
            A of_block = 0;
            for (int64_t k = first; k < classes && k < first + block; ++k)
                of_block += exponential(logit(k) - max);
            sum += of_block;
        }
        log_sum = logarithm(sum);
    }

    GLUONOPS_INLINE A logit(int64_t k) const { return load(first, k * stride); }

    GLUONOPS_INLINE A probability(int64_t k) const
    {
        return softmax ? exponential(logit(k) - max - log_sum) : sigmoid(logit(k));
    }

    // Returns the negative log-likelihood of class k, given its target of 0 or 1.
    GLUONOPS_INLINE A nll(int64_t k, A target) const
    {
        const A x = logit(k);
        return softmax ? target * (log_sum - (x - max)) : sigmoid_nll(x, target);
    }
};
