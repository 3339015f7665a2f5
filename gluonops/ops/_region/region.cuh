// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness.
#include "../_softmax/sums.cuh"

template <typename A> __device__ A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

// The class logits of a prediction, a plane apart: of a softmax, or of a sigmoid each.
template <typename T>
struct ClassLogits {
    typedef typename Accumulator<T>::type A;
    const T *first;
    int64_t cells;
    bool softmax;
    A max, log_sum;   // of the softmax

    __device__ ClassLogits(const T *first, int64_t classes, int64_t cells, bool softmax)
        : first(first), cells(cells), softmax(softmax), max(0), log_sum(0)
    {
        if (!softmax)
            return;
        SoftmaxSums<T> sums;
        for (int64_t k = 0; k < classes; ++k)
            sums.add_element(load(first, k * cells));
        max = sums.max;
        log_sum = sums.log_sum();
    }

    __device__ A probability(int64_t k) const
    {
        const A logit = load(first, k * cells);
        return softmax ? exponential(logit - max - log_sum) : sigmoid(logit);
    }

    // The negative log-likelihood of class k, given its target of 0 or 1.
    __device__ A nll(int64_t k, A target) const
    {
        const A logit = load(first, k * cells), positive = logit > 0 ? logit : A(0);
        if (softmax)
            return target * (log_sum - (logit - max));
        const A sum = exponential(-positive) + exponential(logit - positive);
        return logarithm(sum) + positive - logit * target;
    }
};
