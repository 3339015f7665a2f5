// YOLOv2's map: (batch, anchors, 5 + classes, height, width). The 5 channels are x, y, w, h and objectness.
#include "../_softmax/sums.cuh"

template <typename A> __device__ A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

// The softmax of a prediction's class logits, a plane apart.
template <typename T>
__device__ SoftmaxSums<T> class_sums(const T *logits, int64_t classes, int64_t stride)
{
    SoftmaxSums<T> sums;
    for (int64_t k = 0; k < classes; ++k)
        sums.add_element(load(logits, k * stride));
    return sums;
}
