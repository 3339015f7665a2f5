// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness.

template <typename A> __device__ A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

// The largest class logit, and the sum of exp(logit - max).
template <typename A> struct ClassMaxAndSum { A max, sum; };

template <typename T, typename A>
__device__ ClassMaxAndSum<A> class_max_and_sum(const T *logits, int64_t classes, int64_t stride)
{
    ClassMaxAndSum<A> total = {lowest<A>(), 0};
    for (int64_t k = 0; k < classes; ++k)
        total.max = load(logits, k * stride) > total.max ? load(logits, k * stride) : total.max;
    for (int64_t k = 0; k < classes; ++k)
        total.sum += exponential(load(logits, k * stride) - total.max);
    return total;
}
