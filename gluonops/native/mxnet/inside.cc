// What includes MXNet's C++, compiled for the ABI of its wheels (see build.py), in one unit: to read MXNet's headers
// takes longer than to compile all of this. mxnet_batch_norm.cc comes last, as it adds functions of the same names.
#include "registration.cc"
#include "direct.cc"
#include "../patches/mxnet_batch_norm.cc"
