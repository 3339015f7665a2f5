// An operator for MXNet. What is an operator's own is generated from its contract.py: see Operator. What all operators
// have in common is operator.cc.
#pragma once

#include <mxnet/lib_api.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "parsing.h"
#include "call.h"
#include "checks.h"
#include "dims.h"
#include "guarded.h"
#include "../kernel.h"
#include "registration.h"
#include "types.h"

namespace gluonops {

using mxnet::ext::MXTensor;

typedef Attributes::Strings Strings;

// Writes zeros in place of the gradient of an input that has none. An array without elements may have no memory, and
// memset takes no null pointer.
inline void fill_with_zeros(const View &array)
{
    std::fill_n(static_cast<char *>(array.data), array.size() * size_of(array.type), char(0));
}

// The error conditions of values, if an operator has some, which are checked where GLUONOPS_CHECK_LABELS asks for it;
// and what sets the gradients of inputs that have none.
typedef void (*CheckValues)(const void *attrs, Arrays inputs);
typedef void (*ClearGradients)(const void *attrs, Arrays results);

// What is generated of an operator: a table of plain functions. `attrs` is the operator's own struct.
struct Operator {
    const char *name;
    size_t inputs, outputs;
    std::vector<const char *> (*attributes)();
    AnyAttrs (*parse)(const Attributes &node_attributes);
    Tensors (*tensors)(const void *attrs);
    const TypeVariables &(*types)();
    Shapes (*shapes)(const void *attrs, const std::vector<int> &ndims);
    CheckValues check;      // null where there is nothing to check
    ClearGradients clear;   // null where all inputs have gradients
    void (*forward)(const void *attrs, Arrays inputs, Arrays outputs);
    void (*backward)(const void *attrs, Arrays grads, Arrays inputs, Arrays outputs, Arrays results);
};

// The functions of lib_api.h, which MXNet uses where install_operators() could not do better: see operator.cc.
MXReturnValue parse_strings(const Operator &op, const Strings &strings, int *inputs, int *outputs);
MXReturnValue infer_type_of_strings(const Operator &op, const Strings &strings, std::vector<int> *inputs,
                                    std::vector<int> *outputs);
MXReturnValue infer_shape_of_strings(const Operator &op, const Strings &strings,
                                     std::vector<std::vector<unsigned>> *inputs,
                                     std::vector<std::vector<unsigned>> *outputs);
MXReturnValue forward_of_strings(const Operator &op, const Strings &strings, std::vector<MXTensor> *inputs,
                                 std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &);
MXReturnValue backward_of_strings(const Operator &op, const Strings &strings, std::vector<MXTensor> *inputs,
                                  std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &);

// One of these functions for one operator, because lib_api.h passes nothing that says which operator it asks.
template <const Operator &op, auto function> struct Of;
template <const Operator &op, typename... Args, MXReturnValue (*function)(const Operator &, Args...)>
struct Of<op, function> {
    static MXReturnValue call(Args... args) { return function(op, args...); }
};

#define GLUONOPS_REGISTER_OP(graph_name, op)                    \
    REGISTER_OP(graph_name)                                     \
        .setParseAttrs(Of<op, parse_strings>::call)             \
        .setInferType(Of<op, infer_type_of_strings>::call)      \
        .setInferShape(Of<op, infer_shape_of_strings>::call)    \
        .setForward(Of<op, forward_of_strings>::call, "cpu")    \
        .setBackward(Of<op, backward_of_strings>::call, "cpu"); \
    const Registration registration_of_##graph_name(            \
        #graph_name, op, unsigned(op.inputs), unsigned(op.outputs));

}  // namespace gluonops
