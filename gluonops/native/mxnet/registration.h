// The operators as MXNet's own are registered. What MXLoadLib makes of lib_api.h is not enough: it does not pass the
// request on, it parses the attributes five times in a call, and its shape inference writes past a buffer where a
// number of dimensions is unknown.
//
// registration.cc is compiled for the ABI of MXNet's wheels, where std::string is another class. So nothing here, and
// nothing that registration.cc includes, has a string of ours.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <utility>
#include <vector>

#include "call.h"

namespace gluonops {

// What is set here has it, above what MXNet set: MXLoadLib registers with 10, or with 11 the second time.
const int PRIORITY = 100;

// What MXNet takes as a size: 2**63 - 1 where it is built for large tensors, else 2**31 - 1.
extern int64_t largest_size;

// What is known of a tensor's shape; a size that is unknown is -1.
struct PartialShape {
    bool has_ndim;
    std::vector<int64_t> sizes;

    bool operator==(const PartialShape &other) const { return has_ndim == other.has_ndim && sizes == other.sizes; }
};
typedef std::vector<PartialShape> PartialShapes;

// A node's attributes: names and values.
typedef std::vector<std::pair<const char *, const char *>> Texts;

// What MXNet asks of an operator. The functions throw a std::runtime_error where something does not fit.
struct Registration {
    // Fills in what follows from what is known.
    typedef void (*InferShape)(const Texts &attributes, PartialShapes *inputs, PartialShapes *outputs);
    // The same for types; -1 is unknown.
    typedef void (*InferType)(const Texts &attributes, std::vector<int> *inputs, std::vector<int> *outputs);
    // Overwrites the outputs.
    typedef void (*Compute)(const Texts &attributes, const std::vector<View> &inputs, const std::vector<View> &outputs);

    const char *graph_name;
    unsigned inputs, outputs;
    InferShape infer_shape;
    InferType infer_type;
    Compute forward, backward;
    const Registration *next;

    static const Registration *first;   // the first operator of this library

    Registration(const char *graph_name, unsigned inputs, unsigned outputs, InferShape infer_shape,
                 InferType infer_type, Compute forward, Compute backward)
        : graph_name(graph_name), inputs(inputs), outputs(outputs), infer_shape(infer_shape), infer_type(infer_type),
          forward(forward), backward(backward), next(first)
    {
        first = this;
    }
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
};

// Whether the MXNet that holds the code at this address can be given these functions. If so, our CustomOps have their
// shape inference from now on.
bool find_mxnet(const void *inside);

// Finds what gluonops_call() needs of MXNet's library, which dlopen has returned: see direct.cc.
void find_engine(void *library);

// Gives MXNet every operator's functions, once; it has to know the operators by then. Without find_mxnet it does
// nothing.
void install_operators();

}  // namespace gluonops
