// What includes MXNet's C++, compiled for the ABI of its wheels (see build.py), in one unit: to read MXNet's headers
// takes longer than to compile all of this.
#include "registration.cc"
#include "direct.cc"
