// Answers what MXNet, and gluonops/backends/native.py before it, ask of the library as a whole.
#include <mxnet/lib_api.h>

#include "../isa.h"
#include "registration.h"

#define GLUONOPS_TEXT_(x) #x
#define GLUONOPS_TEXT(x) GLUONOPS_TEXT_(x)

#ifdef GLUONOPS_COVERAGE
extern "C" void __gcov_dump(void);

// Writes what gcov has counted. A process does that at its end, unless it ends by _exit, as workers of tests do.
GLUONOPS_PUBLIC void gluonops_write_counts() { __gcov_dump(); }
#endif

// "gluonops=1.0.0 mxnet=1.9.1 lib_api=11": what this was built from.
GLUONOPS_PUBLIC const char *gluonops_build_info()
{
    return "gluonops=" GLUONOPS_VERSION " mxnet=" GLUONOPS_MXNET_VERSION " lib_api=" GLUONOPS_TEXT(MX_LIBRARY_VERSION);
}

GLUONOPS_PUBLIC mxnet::ext::MXReturnValue initialize(int version)
{
    if (version == GLUONOPS_MXNET_NUMBER) {
        if (version == 10901)   // the one whose classes registration.cc knows
            gluonops::find_mxnet(__builtin_return_address(0));
        return mxnet::ext::MX_SUCCESS;
    }
    MX_ERROR_MSG << "gluonops.native: the library was built for MXNet " GLUONOPS_MXNET_VERSION
                    " and is loaded by another. Build it again: python -m gluonops.native.build.";
    return mxnet::ext::MX_FAIL;
}
