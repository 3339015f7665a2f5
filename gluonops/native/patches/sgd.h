// SGD over many tensors at once: what MXNet's multi_sgd_update and multi_sgd_mom_update compute, to the bit, in vectors
// and on several threads. gluonops/optimizer.py uses it.
#pragma once

#include <stdint.h>

namespace gluonops {

// Elements that one thread updates at a time.
const int64_t SGD_BLOCK = 4096;

// A parameter, with the numbers of its own.
struct SgdTensor {
    float *weight;
    const float *grad;
    float *momentum;   // null without momentum
    int64_t size;
    int64_t first_block;   // blocks of the tensors before this one
    float rate, decay;
};

struct SgdCall {
    const SgdTensor *tensors;
    int64_t count;
    int64_t blocks;
    float rescale;
    float momentum;
    float clip;   // negative: gradients are not clipped
};

// Runs the kernel for the best instruction set that the processor has.
void update_parameters(const SgdCall &call);

}  // namespace gluonops
