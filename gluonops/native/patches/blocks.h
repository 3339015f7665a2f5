// Memory of large tensors that MXNet frees is kept here for its next tensors: see blocks.cc.
#pragma once

#include <stdint.h>

namespace gluonops {

// Keeps at most `bytes` of freed blocks from now on, and gives what is above it back to the system.
// 0 keeps nothing. `inside` is an address of any function of MXNet's library.
// Returns whether MXNet takes its blocks from here.
bool keep_blocks(const void *inside, int64_t bytes);

// Bytes in the blocks that are kept now.
int64_t kept_bytes();

}  // namespace gluonops
