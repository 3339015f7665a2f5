// Functions of a library by name: MXNet's symbols are local to it in Python, so nothing of it is linked with.
#pragma once

#include <dlfcn.h>

namespace gluonops {

// Finds a symbol of a library that dlopen has returned. Returns whether the library has the symbol.
template <typename Function>
bool resolve(void *library, const char *symbol, Function *function)
{
    *function = reinterpret_cast<Function>(dlsym(library, symbol));
    return *function != nullptr;
}

}  // namespace gluonops
