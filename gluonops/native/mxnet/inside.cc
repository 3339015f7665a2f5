// Includes the files that include MXNet's C++. They are compiled for the ABI of its wheels (see build.py) in one unit,
// because reading MXNet's headers takes longer than compiling all of them.
#include "registration.cc"
#include "direct.cc"
