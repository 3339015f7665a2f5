// An operator for MXNet's lib_api.h. What is an operator's own is generated from its contract.py: see Registered.
#ifndef GLUONOPS_NATIVE_OPERATOR_H_
#define GLUONOPS_NATIVE_OPERATOR_H_

#include <mxnet/lib_api.h>
#include <stdio.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "attributes.h"
#include "call.h"
#include "checks.h"
#include "dims.h"
#include "kernel.h"

namespace gluonops {

using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;

typedef MXTensor *Arrays;
typedef Attributes::Strings Strings;

// A tensor's name and type variable: T the data's, A what T accumulates in, L the label's.
struct Tensor {
    const char *name;
    char variable;
};
typedef std::vector<Tensor> Tensors;

// The types that a type variable may take.
struct TypeVariable {
    char name;
    std::vector<int> types;
};
typedef std::vector<TypeVariable> TypeVariables;

inline View view(const MXTensor &array)
{
    View result;
    result.data = array.data_ptr;
    result.type = array.dtype;
    result.sizes = &array.shape;
    return result;
}

// The same without its address: a tensor that this pass does not read.
inline View shape_of(const MXTensor &array)
{
    View result = view(array);
    result.data = nullptr;
    return result;
}

// Zeros, in place of the gradient of an input that has none.
inline void clear(MXTensor &array) { memset(array.data_ptr, 0, size_t(array.size() * size_of(array.dtype))); }

inline const char *type_name(int type)
{
    static const char *const names[] = {"float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
                                        "int16", "uint16", "uint32", "uint64", "bfloat16"};
    return type >= 0 && type < int(sizeof names / sizeof *names) ? names[type] : "unknown";
}

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

// Every tensor's type from those of the inputs, -1 where it does not follow; a label without one takes the data's. The
// work of Op.infer_type in gluonops/core/contract.py.
inline std::vector<int> inferred_types(const char *where, const TypeVariables &variables, const Tensors &tensors,
                                       const std::vector<int> &inputs)
{
    struct Bound {
        int type = -1;
        const char *source = nullptr;
    };
    std::vector<Bound> bounds(variables.size());
    const auto number_of = [&](char name) {
        size_t i = 0;
        while (i < variables.size() && variables[i].name != name)
            ++i;
        return i;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Tensor &tensor = tensors[i];
        const int type = inputs[i];
        const size_t variable = number_of(tensor.variable);
        if (type == -1 || variable == variables.size())
            continue;
        const std::vector<int> &allowed = variables[variable].types;
        const std::string has = std::string(tensor.name) + " has dtype " + type_name(type) + "; expected ";
        if (std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
            std::string expected = type_name(allowed[0]);
            for (size_t a = 1; a < allowed.size(); ++a)
                expected += std::string(", ") + type_name(allowed[a]);
            const char *other = type_name(allowed[std::min(size_t(1), allowed.size() - 1)]);
            refuse(where, has + expected, std::string("Cast it, for instance ") + tensor.name + ".astype('" + other +
                   "')");
        }
        Bound &bound = bounds[variable];
        if (bound.type == -1)
            bound = {type, tensor.name};
        else if (bound.type != type)
            refuse(where, has + type_name(bound.type) + ", the dtype of " + bound.source,
                   std::string("Cast it with ") + tensor.name + ".astype('" + type_name(bound.type) + "')");
    }
    const size_t data = number_of('T'), label = number_of('L');
    if (label < bounds.size() && bounds[label].type == -1)
        bounds[label].type = bounds[data].type;
    std::vector<int> types;
    for (const Tensor &tensor : tensors) {
        const bool accumulates = tensor.variable == 'A';
        const int type = bounds[accumulates ? data : number_of(tensor.variable)].type;
        types.push_back(accumulates && type == FLOAT16 ? int(FLOAT32) : type);
    }
    return types;
}

// MXNet's shapes in a library have sizes of 32 bits, of which the largest means unknown.
inline unsigned size_for_mxnet(const char *where, const char *name, const Shape &shape, int64_t size)
{
    if (size >= int64_t(~0u))
        refuse(where, std::string(name) + " would have shape " + shape_text(shape) +
               "; expected sizes below 4294967295", "Choose smaller ones");
    return unsigned(size);
}

template <typename Body>
MXReturnValue guarded(const char *where, const Body &body)
{
    try {
        body();
        return mxnet::ext::MX_SUCCESS;
    } catch (const Refusal &refusal) {
        return fail(refusal.text);
    } catch (const std::exception &error) {
        return fail("gluonops." + std::string(where) + ": " + error.what() +
                    ". If the input is sound, report it.");
    }
}

// The functions that MXNet calls, from what is generated of an operator: NAME, INPUTS, OUTPUTS, Attrs, attributes(),
// parse(), tensors(), types(), shapes(), forward() and backward().
template <typename Op>
struct Registered {
    static typename Op::Attrs parse(const Strings &strings)
    {
        return Op::parse(Attributes(Op::NAME, strings, Op::attributes()));
    }

    static MXReturnValue parse_attributes(const Strings &strings, int *inputs, int *outputs)
    {
        return guarded(Op::NAME, [&] {
            parse(strings);
            *inputs = Op::INPUTS;
            *outputs = Op::OUTPUTS;
        });
    }

    static MXReturnValue infer_type(const Strings &strings, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        return guarded(Op::NAME, [&] {
            const Tensors tensors = Op::tensors(parse(strings));
            const std::vector<int> types = inferred_types(Op::NAME, Op::types(), tensors, *inputs);
            for (size_t i = 0; i < tensors.size(); ++i)
                (i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS]) = types[i];
        });
    }

    // Every tensor's shape, as far as it follows from those known, outputs included; none where the number of
    // dimensions does not follow. The work of Op.infer_shape in gluonops/core/contract.py.
    static std::vector<Shape> infer(const Strings &strings, const std::vector<Known> &known)
    {
        const typename Op::Attrs attrs = parse(strings);
        std::vector<int> ndims;
        for (size_t i = 0; i < Op::INPUTS; ++i)
            ndims.push_back(known[i].given ? int(known[i].shape.size()) : -1);
        if (ndims[0] < 0)
            ndims[0] = only_ndim(attrs, known, ndims);
        return ndims[0] < 0 ? std::vector<Shape>() : solve(Op::NAME, Op::shapes(attrs, ndims), known);
    }

    // The first input's number of dimensions, where the others leave just one; else -1.
    static int only_ndim(const typename Op::Attrs &attrs, const std::vector<Known> &known, std::vector<int> ndims)
    {
        int only = -1;
        for (int ndim = 1; ndim <= MAX_NDIM; ++ndim) {
            ndims[0] = ndim;
            if (!fits(attrs, known, ndims))
                continue;
            if (only >= 0)
                return -1;
            only = ndim;
        }
        return only;
    }

    static bool fits(const typename Op::Attrs &attrs, const std::vector<Known> &known, const std::vector<int> &ndims)
    {
        bool any = false;
        try {
            const Shapes declared = Op::shapes(attrs, ndims);
            if (int(declared.patterns[0].size()) != ndims[0])
                return false;
            for (size_t i = 0; i < known.size(); ++i) {
                any |= known[i].given;
                if (known[i].given && known[i].shape.size() != declared.patterns[i].size())
                    return false;
            }
        } catch (const Refusal &) {
            return false;
        }
        return any;
    }

    // Every tensor's shape from the inputs': MXNet shows a library no output's. A shape that is unknown altogether
    // comes, and goes back, without dimensions; a size that is unknown comes as the largest number and goes back as 0.
    static MXReturnValue infer_shape(const Strings &strings, std::vector<std::vector<unsigned>> *inputs,
                                     std::vector<std::vector<unsigned>> *outputs)
    {
        return guarded(Op::NAME, [&] {
            const Tensors tensors = Op::tensors(parse(strings));
            std::vector<Known> known;
            for (size_t i = 0; i < tensors.size(); ++i) {
                known.push_back({tensors[i].name, false, {}});
                if (i >= Op::INPUTS)
                    continue;
                for (const unsigned size : (*inputs)[i])
                    known[i].shape.push_back(size == ~0u ? UNKNOWN : int64_t(size));
                known[i].given = !known[i].shape.empty();
            }
            if (!known[0].given)
                return;
            const std::vector<Shape> shapes = infer(strings, known);
            for (size_t i = 0; i < tensors.size(); ++i) {
                auto &to = i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS];
                to.clear();
                for (const int64_t size : shapes[i])
                    to.push_back(size == UNKNOWN ? 0 : size_for_mxnet(Op::NAME, tensors[i].name, shapes[i], size));
            }
        });
    }

    static MXReturnValue forward(const Strings &strings, std::vector<MXTensor> *inputs, std::vector<MXTensor> *outputs,
                                 const mxnet::ext::OpResource &)
    {
        return guarded(Op::NAME, [&] {
            const typename Op::Attrs attrs = parse(strings);
            verify(attrs, *inputs, 0, *outputs);
            Op::forward(attrs, inputs->data(), outputs->data());
        });
    }

    // MXNet hands over the head gradients, the inputs and the outputs, and wants the gradient of every input.
    static MXReturnValue backward(const Strings &strings, std::vector<MXTensor> *inputs, std::vector<MXTensor> *outputs,
                                  const mxnet::ext::OpResource &)
    {
        return guarded(Op::NAME, [&] {
            const typename Op::Attrs attrs = parse(strings);
            const Arrays all = inputs->data();
            verify(attrs, *inputs, Op::OUTPUTS, {});
            Op::backward(attrs, all, all + Op::OUTPUTS, all + Op::OUTPUTS + Op::INPUTS, outputs->data());
        });
    }

    // A tensor without dimensions passes shape inference as one of unknown shape: the kernels must not see it.
    static void verify(const typename Op::Attrs &attrs, const std::vector<MXTensor> &inputs, size_t first,
                       const std::vector<MXTensor> &outputs)
    {
        if (!inputs[first].shape.empty())
            return;
        const Tensors tensors = Op::tensors(attrs);
        std::vector<int> ndims;
        std::vector<Known> known;
        for (size_t i = 0; i < tensors.size(); ++i) {
            const bool input = i < Op::INPUTS;
            known.push_back({tensors[i].name, input || !outputs.empty(),
                             input ? inputs[first + i].shape : outputs.empty() ? Shape() : outputs[i - Op::INPUTS].shape});
            if (input)
                ndims.push_back(int(known[i].shape.size()));
        }
        solve(Op::NAME, Op::shapes(attrs, ndims), known);
    }
};

// The shape inference of every operator of the library, by its name in a graph, for whoever asks it without MXNet.
struct OperatorEntry {
    std::string name;
    size_t inputs;
    std::vector<Tensor> (*tensors)(const Strings &);
    std::vector<Shape> (*infer)(const Strings &, const std::vector<Known> &);
};

inline std::vector<OperatorEntry> &operators()
{
    static std::vector<OperatorEntry> entries;
    return entries;
}

template <typename Op>
bool enter(const char *name)
{
    const auto tensors = [](const Strings &strings) { return Op::tensors(Registered<Op>::parse(strings)); };
    operators().push_back({name, Op::INPUTS, tensors, Registered<Op>::infer});
    return true;
}

#define GLUONOPS_REGISTER_OP(graph_name, Op)                    \
    REGISTER_OP(graph_name)                                     \
        .setParseAttrs(Registered<Op>::parse_attributes)        \
        .setInferType(Registered<Op>::infer_type)               \
        .setInferShape(Registered<Op>::infer_shape)             \
        .setForward(Registered<Op>::forward, "cpu")             \
        .setBackward(Registered<Op>::backward, "cpu");          \
    const bool graph_name##_entered = enter<Op>(#graph_name);

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_OPERATOR_H_
