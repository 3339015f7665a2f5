// MXNet's BatchNorm in training, computed by batch_norm.h instead of oneDNN.
//
// Inside oneDNN's function the threads wait for each other by spinning, for every block of planes. Beside one busy
// process per core that was more than half of a training step. The threads of pool.h wait for nobody.
#pragma once

namespace gluonops {

// Replaces MXNet's functions for float32 images on the CPU in training; other calls still go to them. It is for MXNet
// 1.9.1 alone, and find_mxnet has to have succeeded. `library` is MXNet's, which dlopen has returned. Where that lacks
// something, or GLUONOPS_BATCH_NORM is 0, nothing changes.
void replace_batch_norm(void *library);

}  // namespace gluonops
