// What MXNet, and gluonops/core/native.py before it, ask of the library as a whole.
#include <mxnet/lib_api.h>
#include <string.h>

#define GLUONOPS_TEXT_(x) #x
#define GLUONOPS_TEXT(x) GLUONOPS_TEXT_(x)
#define GLUONOPS_PUBLIC __attribute__((visibility("default")))

#include "../patches/blocks.h"
#include "direct.h"
#include "../patches/mxnet_batch_norm.h"
#include "../pool.h"
#include "registration.h"
#include "../target.h"

extern "C" {

#ifdef GLUONOPS_COVERAGE
void __gcov_dump(void);

// Writes what gcov has counted. A process does that at its end, unless it ends by _exit, as workers of tests do.
GLUONOPS_PUBLIC void gluonops_write_counts()
{
    __gcov_dump();
}
#endif

// "gluonops=1.0.0 mxnet=1.9.1 lib_api=11": what this was built from.
GLUONOPS_PUBLIC const char *gluonops_build_info()
{
    return "gluonops=" GLUONOPS_VERSION " mxnet=" GLUONOPS_MXNET_VERSION " lib_api=" GLUONOPS_TEXT(MX_LIBRARY_VERSION);
}

// The instruction set that the kernels use here.
GLUONOPS_PUBLIC const char *gluonops_target()
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    return names[gluonops::target()];
}

// How many threads a loop of a kernel may have.
GLUONOPS_PUBLIC int gluonops_threads()
{
    return gluonops::most_threads();
}

GLUONOPS_PUBLIC void gluonops_set_threads(int threads)
{
    gluonops::set_most_threads(threads);
}

// Keeps that many bytes of freed tensors: see patches/blocks.h. Returns whether MXNet can be made to.
GLUONOPS_PUBLIC int gluonops_keep_blocks(const void *inside_mxnet, int64_t bytes)
{
    return gluonops::keep_blocks(inside_mxnet, bytes);
}

GLUONOPS_PUBLIC int64_t gluonops_kept_bytes()
{
    return gluonops::kept_bytes();
}

// How many calls of MXNet's BatchNorm and of its gradient were computed here.
GLUONOPS_PUBLIC int64_t gluonops_batch_norm_calls()
{
    return gluonops::batch_norm_calls();
}

// Whether the operators honour MXNet's request to add to a gradient.
GLUONOPS_PUBLIC bool gluonops_honours_requests()
{
    return gluonops::honours_requests();
}

// An operator of this library with its attributes, for gluonops_call; nullptr if there is no such operator.
GLUONOPS_PUBLIC gluonops::PreparedCall *gluonops_prepare_call(const char *graph_name, int attributes,
                                                              const char *const *names, const char *const *texts)
{
    return gluonops::prepare_call(graph_name, attributes, names, texts);
}

GLUONOPS_PUBLIC void gluonops_forget_call(gluonops::PreparedCall *call)
{
    gluonops::forget_call(call);
}

// Computes a small call in the calling thread: see direct.h. Returns an Answer.
GLUONOPS_PUBLIC int gluonops_call(gluonops::PreparedCall *call, void **tensors)
{
    return gluonops::call_directly(call, tensors);
}

// Why the thread's last gluonops_call was refused.
GLUONOPS_PUBLIC const char *gluonops_call_error()
{
    return gluonops::error_of_direct_call();
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

}  // extern "C"
