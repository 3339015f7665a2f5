// Exceptions as MXNet takes them: its own, or for lib_api.h a message.
#pragma once

#include <dmlc/logging.h>
#include <mxnet/lib_api.h>

#include <exception>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>

#include "refusal.h"

namespace gluonops {

using mxnet::ext::MXReturnValue;

// MXNet keeps every message that a library ever had and puts all of them into every exception. So this library has
// one message, and writes it anew.
inline MXReturnValue fail(const std::string &text)
{
    static std::mutex lock;
    const std::lock_guard<std::mutex> hold(lock);
    static std::stringstream &message = MX_ERROR_MSG;
    message.str(text);
    return mxnet::ext::MX_FAIL;
}

// Runs a body. Every exception becomes MXNet's own, with a string of ours, unless it is one already: a CustomOp whose
// body calls an operator that throws another one never ends.
template <typename Body>
void reported(const char *where, const Body &body)
{
    try {
        body();
    } catch (const dmlc::Error &) {
        throw;
    } catch (const Refusal &refusal) {
        throw dmlc::Error(refusal.text);
    } catch (const std::exception &error) {
        throw dmlc::Error("gluonops." + std::string(where) + ": " + error.what() +
                                 ". If the input is sound, report it.");
    }
}

// Does the same for lib_api.h, which takes no exceptions but messages.
template <typename Body>
MXReturnValue guarded(const char *where, const Body &body)
{
    try {
        reported(where, body);
        return mxnet::ext::MX_SUCCESS;
    } catch (const std::runtime_error &error) {
        return fail(error.what());
    }
}

}  // namespace gluonops
