// An operator for MXNet's lib_api.h. What is an operator's own is generated from its contract.py: see Registered.
#ifndef GLUONOPS_NATIVE_OPERATOR_H_
#define GLUONOPS_NATIVE_OPERATOR_H_

#include <mxnet/lib_api.h>
#include <stdio.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attributes.h"
#include "call.h"
#include "checks.h"
#include "dims.h"
#include "../kernel.h"
#include "registration.h"

namespace gluonops {

using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;

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

// The tensors that lib_api.h hands over.
inline std::vector<View> views(const std::vector<MXTensor> &arrays)
{
    std::vector<View> result;
    for (const MXTensor &array : arrays) {
        View view;
        view.data = array.data_ptr;
        view.type = array.dtype;
        view.sizes = &array.shape;
        result.push_back(view);
    }
    return result;
}

// A tensor without its address: this pass does not read it.
inline View shape_of(const View &array)
{
    View result = array;
    result.data = nullptr;
    return result;
}

// Zeros, in place of the gradient of an input that has none.
inline void clear(const View &array) { memset(array.data, 0, size_t(array.size() * size_of(array.type))); }

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
        const auto has = [&] { return std::string(tensor.name) + " has dtype " + type_name(type) + "; expected "; };
        if (std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
            std::string expected = type_name(allowed[0]);
            for (size_t a = 1; a < allowed.size(); ++a)
                expected += std::string(", ") + type_name(allowed[a]);
            const char *other = type_name(allowed[std::min(size_t(1), allowed.size() - 1)]);
            refuse(where, has() + expected, std::string("Cast it, for instance ") + tensor.name + ".astype('" + other +
                   "')");
        }
        Bound &bound = bounds[variable];
        if (bound.type == -1)
            bound = {type, tensor.name};
        else if (bound.type != type)
            refuse(where, has() + type_name(bound.type) + ", the dtype of " + bound.source,
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

// Runs a body. Every exception becomes one that MXNet can pass on: what it throws itself has a string of ours.
template <typename Body>
void reported(const char *where, const Body &body)
{
    try {
        body();
    } catch (const Refusal &refusal) {
        throw std::runtime_error(refusal.text);
    } catch (const std::exception &error) {
        throw std::runtime_error("gluonops." + std::string(where) + ": " + error.what() +
                                 ". If the input is sound, report it.");
    }
}

// The same for lib_api.h, which takes no exceptions.
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

// A copy of a node's attributes, to compare the next node's with. MXNet lists the same ones in the same order.
class KeptTexts {
 public:
    void set(const Texts &texts) { kept_.assign(texts.begin(), texts.end()); }

    bool operator==(const Texts &texts) const
    {
        if (kept_.size() != texts.size())
            return false;
        for (size_t i = 0; i < texts.size(); ++i)
            if (kept_[i].first != texts[i].first || kept_[i].second != texts[i].second)
                return false;
        return true;
    }

 private:
    std::vector<std::pair<std::string, std::string>> kept_;
};

// The functions that MXNet calls, from what is generated of an operator: NAME, INPUTS, OUTPUTS, Attrs, attributes(),
// parse(), tensors(), types(), shapes(), forward() and backward().
template <typename Op>
struct Registered {
    typedef typename Op::Attrs Attrs;

    static Attrs parse(const Strings &strings)
    {
        return Op::parse(Attributes(Op::NAME, strings, Op::attributes()));
    }

    // The same for the functions of registration.h. Most calls in a thread have the attributes of the one before.
    static const Attrs &parse(const Texts &texts)
    {
        static thread_local KeptTexts kept;
        static thread_local std::optional<Attrs> attrs;
        if (!attrs || !(kept == texts)) {
            attrs.reset();
            kept.set(texts);
            attrs = parse(Strings(texts.begin(), texts.end()));
        }
        return *attrs;
    }

    static MXReturnValue parse_attributes(const Strings &strings, int *inputs, int *outputs)
    {
        return guarded(Op::NAME, [&] {
            install_operators();
            if (strings.count(MX_STR_EXTRA_INPUTS))   // MXNet takes any number there
                refuse(Op::NAME, "the node has the attribute " MX_STR_EXTRA_INPUTS, "Remove it from the graph");
            parse(strings);
            *inputs = Op::INPUTS;
            *outputs = Op::OUTPUTS;
        });
    }

    static MXReturnValue infer_type_of_strings(const Strings &strings, std::vector<int> *inputs,
                                               std::vector<int> *outputs)
    {
        return guarded(Op::NAME, [&] {
            outputs->assign(outputs->size(), -1);
            complete_types(parse(strings), inputs, outputs);
        });
    }

    static void infer_type(const Texts &texts, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        reported(Op::NAME, [&] { complete_types(parse(texts), inputs, outputs); });
    }

    // Every tensor's type from those of the inputs.
    static void complete_types(const Attrs &attrs, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        check_count("inputs", inputs->size(), Op::INPUTS);
        check_count("outputs", outputs->size(), Op::OUTPUTS);
        const std::vector<int> types = inferred_types(Op::NAME, Op::types(), Op::tensors(attrs), *inputs);
        for (size_t i = 0; i < types.size(); ++i)
            assign(types[i], i < Op::INPUTS ? &(*inputs)[i] : &(*outputs)[i - Op::INPUTS]);
    }

    static void assign(int type, int *known)
    {
        if (*known == -1)
            *known = type;
        else if (type != -1 && type != *known)
            refuse(Op::NAME, std::string("an output has dtype ") + type_name(*known) + "; expected " + type_name(type),
                   "Pass another array as out");
    }

    // Every tensor's shape from those that are known, forwards and backwards. Most calls in a thread ask what the one
    // before has asked.
    static void infer_shape(const Texts &texts, PartialShapes *inputs, PartialShapes *outputs)
    {
        static thread_local KeptTexts kept;
        static thread_local PartialShapes known_inputs, known_outputs, found_inputs, found_outputs;
        const bool asked = found_inputs.size() && kept == texts && known_inputs == *inputs &&
                           known_outputs == *outputs;
        if (!asked) {
            found_inputs.clear();
            kept.set(texts);
            known_inputs = *inputs;
            known_outputs = *outputs;
            reported(Op::NAME, [&] { complete(parse(texts), inputs, outputs); });
            found_inputs = *inputs;
            found_outputs = *outputs;
        }
        *inputs = found_inputs;
        *outputs = found_outputs;
    }

    static void complete(const Attrs &attrs, PartialShapes *inputs, PartialShapes *outputs)
    {
        check_count("inputs", inputs->size(), Op::INPUTS);
        check_count("outputs", outputs->size(), Op::OUTPUTS);
        const Tensors tensors = Op::tensors(attrs);
        std::vector<int> ndims;
        std::vector<Known> known;
        for (size_t i = 0; i < tensors.size(); ++i) {
            const PartialShape &shape = i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS];
            known.push_back({tensors[i].name, shape.has_ndim, shape.sizes});
            if (i < Op::INPUTS)
                ndims.push_back(shape.has_ndim ? int(shape.sizes.size()) : -1);
        }
        if (!known[0].given)
            ndims[0] = only_ndim(attrs, ndims, known);
        if (ndims[0] < 0)
            return;
        const std::vector<Shape> shapes = solve(Op::NAME, Op::shapes(attrs, ndims), known);
        for (size_t i = 0; i < tensors.size(); ++i)
            (i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS]) = PartialShape{true, shapes[i]};
    }

    // The first input's number of dimensions, where the other tensors leave just one; else -1.
    static int only_ndim(const Attrs &attrs, std::vector<int> ndims, const std::vector<Known> &known)
    {
        int found = -1;
        for (int ndim = 1; ndim <= MAX_NDIM; ++ndim) {
            ndims[0] = ndim;
            if (!fits(attrs, ndims, known))
                continue;
            if (found >= 0)
                return -1;
            found = ndim;
        }
        return found;
    }

    static bool fits(const Attrs &attrs, const std::vector<int> &ndims, const std::vector<Known> &known)
    {
        std::vector<Pattern> patterns;
        try {
            patterns = Op::shapes(attrs, ndims).patterns;
        } catch (const Refusal &) {
            return false;
        }
        bool any = false, all = patterns[0].size() == size_t(ndims[0]);
        for (size_t i = 0; i < known.size(); ++i) {
            any |= known[i].given;
            all &= !known[i].given || known[i].shape.size() == patterns[i].size();
        }
        return any && all;
    }

    // lib_api.h's inference, which MXNet uses where install_operators() could not do better. It shows no output. A shape
    // that is unknown altogether comes, and goes back, without dimensions; a size that is unknown comes as the largest
    // number and goes back as 0.
    static MXReturnValue infer_shape_of_strings(const Strings &strings, std::vector<std::vector<unsigned>> *inputs,
                                                std::vector<std::vector<unsigned>> *outputs)
    {
        return guarded(Op::NAME, [&] {
            PartialShapes known_inputs, known_outputs(outputs->size());
            for (const std::vector<unsigned> &shape : *inputs) {
                known_inputs.push_back({!shape.empty(), {}});
                for (const unsigned size : shape)
                    known_inputs.back().sizes.push_back(size == ~0u ? UNKNOWN : int64_t(size));
            }
            complete(parse(strings), &known_inputs, &known_outputs);
            *inputs = as_unsigned(known_inputs);
            *outputs = as_unsigned(known_outputs);
        });
    }

    static std::vector<std::vector<unsigned>> as_unsigned(const PartialShapes &shapes)
    {
        std::vector<std::vector<unsigned>> result;
        for (const PartialShape &shape : shapes) {
            result.emplace_back();
            for (const int64_t size : shape.sizes) {
                if (size >= int64_t(~0u))
                    refuse(Op::NAME, "a shape is " + shape_text(shape.sizes) + "; expected sizes below 2**32 - 1",
                           "Choose smaller shapes or attributes");
                result.back().push_back(size == UNKNOWN ? 0 : unsigned(size));
            }
        }
        return result;
    }

    // A graph from elsewhere may give a node any number of inputs.
    static void check_count(const char *what, size_t count, size_t expected)
    {
        if (count != expected)
            refuse(Op::NAME, "the node has " + std::to_string(count) + " " + what + "; expected " +
                   std::to_string(expected), "Correct the graph");
    }

    static MXReturnValue forward_of_strings(const Strings &strings, std::vector<MXTensor> *inputs,
                                            std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &)
    {
        return guarded(Op::NAME, [&] { run_forward(parse(strings), views(*inputs), views(*outputs)); });
    }

    static MXReturnValue backward_of_strings(const Strings &strings, std::vector<MXTensor> *inputs,
                                             std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &)
    {
        return guarded(Op::NAME, [&] { run_backward(parse(strings), views(*inputs), views(*outputs)); });
    }

    static void forward(const Texts &texts, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        reported(Op::NAME, [&] { run_forward(parse(texts), inputs, outputs); });
    }

    static void backward(const Texts &texts, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        reported(Op::NAME, [&] { run_backward(parse(texts), inputs, outputs); });
    }

    static void run_forward(const Attrs &attrs, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        check_count("inputs", inputs.size(), Op::INPUTS);
        verify(attrs, inputs, 0, outputs);
        if (!inputs[0].size() && outputs[0].size())   // a kernel would leave the output unwritten
            refuse(Op::NAME, std::string(Op::tensors(attrs)[0].name) + " has shape " + shape_text(inputs[0].shape()) +
                   ", which has no elements; expected some, because the output has shape " +
                   shape_text(outputs[0].shape()), "Leave such a call out");
        Op::forward(attrs, inputs.data(), outputs.data());
    }

    // MXNet hands over the head gradients, the inputs and the outputs, and wants the gradient of every input.
    static void run_backward(const Attrs &attrs, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        check_count("inputs of the gradient", inputs.size(), Op::INPUTS + 2 * Op::OUTPUTS);
        verify(attrs, inputs, Op::OUTPUTS, {});
        const Arrays all = inputs.data();
        Op::backward(attrs, all, all + Op::OUTPUTS, all + Op::OUTPUTS + Op::INPUTS, outputs.data());
    }

    // A tensor without dimensions passes shape inference as one of unknown shape: the kernels must not see it.
    static void verify(const Attrs &attrs, const std::vector<View> &inputs, size_t first,
                       const std::vector<View> &outputs)
    {
        if (!inputs[first].shape().empty())
            return;
        const Tensors tensors = Op::tensors(attrs);
        std::vector<int> ndims;
        std::vector<Known> known;
        for (size_t i = 0; i < tensors.size(); ++i) {
            const bool input = i < Op::INPUTS;
            known.push_back({tensors[i].name, input || !outputs.empty(),
                             input              ? inputs[first + i].shape()
                             : outputs.empty() ? Shape()
                                                : outputs[i - Op::INPUTS].shape()});
            if (input)
                ndims.push_back(int(known[i].shape.size()));
        }
        solve(Op::NAME, Op::shapes(attrs, ndims), known);
    }
};

#define GLUONOPS_REGISTER_OP(graph_name, Op)                                                     \
    REGISTER_OP(graph_name)                                                                      \
        .setParseAttrs(Registered<Op>::parse_attributes)                                         \
        .setInferType(Registered<Op>::infer_type_of_strings)                                     \
        .setInferShape(Registered<Op>::infer_shape_of_strings)                                   \
        .setForward(Registered<Op>::forward_of_strings, "cpu")                                   \
        .setBackward(Registered<Op>::backward_of_strings, "cpu");                                \
    const Registration registration(#graph_name, Op::INPUTS, Op::OUTPUTS, Registered<Op>::infer_shape, \
                                    Registered<Op>::infer_type, Registered<Op>::forward,         \
                                    Registered<Op>::backward);

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_OPERATOR_H_
