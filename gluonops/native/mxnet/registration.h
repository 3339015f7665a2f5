// The operators as MXNet's own are registered. What MXLoadLib makes of lib_api.h is not enough: it does not pass the
// request on, it parses the attributes five times in a call, and its shape inference writes past a buffer where a
// number of dimensions is unknown.
//
// registration.cc is compiled for the ABI of MXNet's wheels, where std::string is another class. So nothing here, and
// nothing that registration.cc includes, has a string of ours.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <utility>
#include <vector>

#include "call.h"

namespace gluonops {

// What is set here has it, above what MXNet set: MXLoadLib registers with 10, or with 11 the second time.
const int PRIORITY = 100;

// The largest size that MXNet takes: 2**63 - 1 if it is built for large tensors, and otherwise 2**31 - 1.
extern int64_t largest_size;

// What is known of a tensor's shape; a size that is unknown is -1.
struct PartialShape {
    bool has_ndim;
    std::vector<int64_t> sizes;

    bool operator==(const PartialShape &other) const { return has_ndim == other.has_ndim && sizes == other.sizes; }
};
typedef std::vector<PartialShape> PartialShapes;

// A node's attributes as MXNet has them: names and values.
typedef std::vector<std::pair<const char *, const char *>> Texts;

// The same, parsed: the generated struct of an operator's attributes, which its own functions know. They are parsed
// when MXNet makes a node, and the node keeps them: no text is read when it runs.
typedef std::shared_ptr<const void> AnyAttrs;

// The table that is generated for an operator: see operator.h.
struct Operator;

// What MXNet asks of an operator: see operator.cc. The functions throw a std::runtime_error where something does not
// fit.
AnyAttrs parse(const Operator &op, const Texts &texts);
// These two functions fill in what follows from what is known. A type of -1 is unknown.
void infer_shape(const Operator &op, const AnyAttrs &attrs, PartialShapes *inputs, PartialShapes *outputs);
void infer_type(const Operator &op, const AnyAttrs &attrs, std::vector<int> *inputs, std::vector<int> *outputs);
// These two functions overwrite the outputs.
void run_forward(const Operator &op, const AnyAttrs &attrs, const std::vector<View> &inputs,
                 const std::vector<View> &outputs);
void run_backward(const Operator &op, const AnyAttrs &attrs, const std::vector<View> &inputs,
                  const std::vector<View> &outputs);

// An operator of this library under the name that graphs have for it.
struct Registration {
    const char *graph_name;
    const Operator &op;
    unsigned inputs, outputs;
    const Registration *next;

    static const Registration *first;   // the first operator of this library

    Registration(const char *graph_name, const Operator &op, unsigned inputs, unsigned outputs)
        : graph_name(graph_name), op(op), inputs(inputs), outputs(outputs), next(first)
    {
        first = this;
    }
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
};

// Returns whether the MXNet that holds the code at this address can be given these functions. If so, our CustomOps have
// their shape inference from now on.
bool find_mxnet(const void *inside);

// Finds what gluonops_call() needs of MXNet's library, which dlopen has returned: see direct.cc.
void find_engine(void *library);

// Gives MXNet every operator's functions, once; it has to know the operators by then. Without find_mxnet it does
// nothing.
void install_operators();

}  // namespace gluonops
