// Compiled once per instruction set; the first compilation chooses among them. See sgd.h.
#include "sgd.h"

#include "../parallel.h"
#include "../isa.h"

namespace gluonops {

GLUONOPS_OF_EVERY_ISA(void sgd_update(const SgdCall &call);)

namespace GLUONOPS_ISA {

// NaN stays NaN, as in MXNet.
GLUONOPS_INLINE float clipped(float value, float bound)
{
    return value > bound ? bound : value < -bound ? -bound : value;
}

// The operations of MXNet's MultiSGDKernel in its order. A fused multiply-add would round once less: build.py forbids
// it.
template <bool HAS_MOMENTUM, bool CLIPS>
void update_range(const SgdCall &call, const SgdTensor &tensor, int64_t begin, int64_t end)
{
    float *__restrict weight = tensor.weight;
    const float *__restrict grad = tensor.grad;
    float *__restrict momentum = tensor.momentum;
    const float decay = tensor.rate * tensor.decay;
    const float rate = CLIPS ? tensor.rate : tensor.rate * call.rescale;
    for (int64_t i = begin; i < end; ++i) {
        const float slope = CLIPS ? clipped(call.rescale * grad[i], call.clip) : grad[i];
        const float kept = HAS_MOMENTUM ? call.momentum * momentum[i] : 0.0f;
        const float change = kept - decay * weight[i] - rate * slope;
        if (HAS_MOMENTUM)
            momentum[i] = change;
        weight[i] += change;
    }
}

GLUONOPS_INLINE void update_block(const SgdCall &call, const SgdTensor &tensor, int64_t block)
{
    const int64_t begin = (block - tensor.first_block) * SGD_BLOCK;
    const int64_t end = begin + SGD_BLOCK < tensor.size ? begin + SGD_BLOCK : tensor.size;
    if (tensor.momentum && call.clip >= 0)
        update_range<true, true>(call, tensor, begin, end);
    else if (tensor.momentum)
        update_range<true, false>(call, tensor, begin, end);
    else if (call.clip >= 0)
        update_range<false, true>(call, tensor, begin, end);
    else
        update_range<false, false>(call, tensor, begin, end);
}

// The number of the tensor that has the block.
GLUONOPS_INLINE int64_t tensor_of(const SgdCall &call, int64_t block)
{
    int64_t low = 0, high = call.count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (call.tensors[middle].first_block <= block ? low : high) = middle;
    }
    return low;
}

void sgd_update(const SgdCall &call)
{
    const int64_t streams = call.count && call.tensors[0].momentum ? 3 : 2;
    parallel_for(call.blocks, SGD_BLOCK * streams * int64_t(sizeof(float)), [&](int64_t begin, int64_t end) {
        int64_t number = tensor_of(call, begin);
        for (int64_t block = begin; block < end; ++block) {
            while (number + 1 < call.count && call.tensors[number + 1].first_block <= block)
                ++number;
            update_block(call, call.tensors[number], block);
        }
    });
}

}  // namespace GLUONOPS_ISA

#ifdef GLUONOPS_ENTRY
void update_parameters(const SgdCall &call) { GLUONOPS_BEST(sgd_update(call)); }
#endif

}  // namespace gluonops
