// An operator for MXNet's lib_api.h. What is an operator's own is generated from its contract.py: see Operator.
#pragma once

#include <mxnet/lib_api.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attributes.h"
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

// The tensors that lib_api.h hands over.
inline std::vector<View> views(const std::vector<MXTensor> &arrays)
{
    std::vector<View> result;
    for (const MXTensor &array : arrays)
        result.push_back({array.data_ptr, array.dtype, &array.shape});
    return result;
}

// Zeros, in place of the gradient of an input that has none.
inline void clear(const View &array) { memset(array.data, 0, size_t(array.size() * size_of(array.type))); }

// A copy of a node's attributes, to compare the next node's with. MXNet lists the same ones in the same order.
typedef std::vector<std::pair<std::string, std::string>> KeptTexts;

inline bool are_equal(const KeptTexts &kept, const Texts &texts)
{
    return std::equal(kept.begin(), kept.end(), texts.begin(), texts.end(), [](const auto &one, const auto &other) {
        return one.first == other.first && one.second == other.second;
    });
}

// An operator's attributes, whose type its own functions know.
typedef std::shared_ptr<const void> AnyAttrs;

// What is generated of an operator.
struct Operator {
    const char *name;
    size_t inputs, outputs;
    std::vector<const char *> (*attributes)();
    AnyAttrs (*parse)(const Attributes &given);
    Tensors (*tensors)(const void *attrs);
    const TypeVariables &(*types)();
    Shapes (*shapes)(const void *attrs, const std::vector<int> &ndims);
    void (*forward)(const void *attrs, Arrays inputs, Arrays outputs);
    void (*backward)(const void *attrs, Arrays grads, Arrays inputs, Arrays outputs, Arrays results);
};

// The same of the generated struct Op.
template <typename Op>
Operator operator_of()
{
    typedef typename Op::Attrs Attrs;
    return {
        Op::NAME, Op::INPUTS, Op::OUTPUTS, Op::attributes,
        [](const Attributes &given) -> AnyAttrs { return std::make_shared<Attrs>(Op::parse(given)); },
        [](const void *attrs) { return Op::tensors(*static_cast<const Attrs *>(attrs)); },
        Op::types,
        [](const void *attrs, const std::vector<int> &ndims) {
            return Op::shapes(*static_cast<const Attrs *>(attrs), ndims);
        },
        [](const void *attrs, Arrays inputs, Arrays outputs) {
            Op::forward(*static_cast<const Attrs *>(attrs), inputs, outputs);
        },
        [](const void *attrs, Arrays grads, Arrays inputs, Arrays outputs, Arrays results) {
            Op::backward(*static_cast<const Attrs *>(attrs), grads, inputs, outputs, results);
        }};
}

// The functions that MXNet calls, for one thread. What it asks of an operator is mostly what it asked the last time.
class Registered {
 public:
    explicit Registered(const Operator &op) : op(op) {}

    AnyAttrs parse(const Strings &strings) const { return op.parse(Attributes(op.name, strings, op.attributes())); }

    // The same for the functions of registration.h.
    const void *parse(const Texts &texts)
    {
        if (!parsed || !are_equal(parsed_texts, texts)) {
            parsed.reset();
            parsed_texts.assign(texts.begin(), texts.end());
            parsed = parse(Strings(texts.begin(), texts.end()));
        }
        return parsed.get();
    }

    MXReturnValue parse_attributes(const Strings &strings, int *inputs, int *outputs)
    {
        return guarded(op.name, [&] {
            install_operators();
            if (strings.count(MX_STR_EXTRA_INPUTS))   // MXNet takes any number there
                refuse(op.name, "the node has the attribute " MX_STR_EXTRA_INPUTS, "Remove it from the graph");
            parse(strings);
            *inputs = int(op.inputs);
            *outputs = int(op.outputs);
        });
    }

    MXReturnValue infer_type_of_strings(const Strings &strings, std::vector<int> *inputs,
                                        std::vector<int> *outputs)
    {
        return guarded(op.name, [&] {
            outputs->assign(outputs->size(), -1);
            complete_types(parse(strings).get(), inputs, outputs);
        });
    }

    void infer_type(const Texts &texts, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        reported(op.name, [&] { complete_types(parse(texts), inputs, outputs); });
    }

    // Every tensor's type from those of the inputs.
    void complete_types(const void *attrs, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        check_count("inputs", inputs->size(), op.inputs);
        check_count("outputs", outputs->size(), op.outputs);
        const std::vector<int> types = inferred_types(op.name, op.types(), op.tensors(attrs), *inputs);
        for (size_t i = 0; i < types.size(); ++i)
            assign(types[i], i < op.inputs ? &(*inputs)[i] : &(*outputs)[i - op.inputs]);
    }

    void assign(int type, int *known)
    {
        if (*known == -1)
            *known = type;
        else if (type != -1 && type != *known)
            refuse(op.name, std::string("an output has dtype ") + type_name(*known) + "; expected " + type_name(type),
                   "Pass another array as out");
    }

    // Every tensor's shape from those that are known, forwards and backwards.
    void infer_shape(const Texts &texts, PartialShapes *inputs, PartialShapes *outputs)
    {
        const bool asked = found_inputs.size() && are_equal(inferred_texts, texts) && known_inputs == *inputs &&
                           known_outputs == *outputs;
        if (!asked) {
            found_inputs.clear();
            inferred_texts.assign(texts.begin(), texts.end());
            known_inputs = *inputs;
            known_outputs = *outputs;
            reported(op.name, [&] { complete(parse(texts), inputs, outputs); });
            found_inputs = *inputs;
            found_outputs = *outputs;
        }
        *inputs = found_inputs;
        *outputs = found_outputs;
    }

    void complete(const void *attrs, PartialShapes *inputs, PartialShapes *outputs)
    {
        check_count("inputs", inputs->size(), op.inputs);
        check_count("outputs", outputs->size(), op.outputs);
        const Tensors tensors = op.tensors(attrs);
        std::vector<int> ndims;
        std::vector<Known> known;
        for (size_t i = 0; i < tensors.size(); ++i) {
            const PartialShape &shape = i < op.inputs ? (*inputs)[i] : (*outputs)[i - op.inputs];
            known.push_back({tensors[i].name, shape.has_ndim, shape.sizes});
            if (i < op.inputs)
                ndims.push_back(shape.has_ndim ? int(shape.sizes.size()) : -1);
        }
        if (!known[0].given)
            ndims[0] = only_ndim(attrs, ndims, known);
        if (ndims[0] < 0)
            return;
        const std::vector<Shape> shapes = solve(op.name, op.shapes(attrs, ndims), known);
        for (size_t i = 0; i < tensors.size(); ++i)
            (i < op.inputs ? (*inputs)[i] : (*outputs)[i - op.inputs]) = PartialShape{true, shapes[i]};
    }

    // The first input's number of dimensions, where the other tensors leave just one; else -1.
    int only_ndim(const void *attrs, std::vector<int> ndims, const std::vector<Known> &known)
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

    bool fits(const void *attrs, const std::vector<int> &ndims, const std::vector<Known> &known)
    {
        std::vector<Pattern> patterns;
        try {
            patterns = op.shapes(attrs, ndims).patterns;
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

    // lib_api.h's inference, which MXNet uses where install_operators() could not do better. It shows no output. A
    // shape that is unknown altogether comes, and goes back, without dimensions; a size that is unknown comes as the
    // largest number and goes back as 0.
    MXReturnValue infer_shape_of_strings(const Strings &strings, std::vector<std::vector<unsigned>> *inputs,
                                         std::vector<std::vector<unsigned>> *outputs)
    {
        return guarded(op.name, [&] {
            PartialShapes known_inputs, known_outputs(outputs->size());
            for (const std::vector<unsigned> &shape : *inputs) {
                known_inputs.push_back({!shape.empty(), {}});
                for (const unsigned size : shape)
                    known_inputs.back().sizes.push_back(size == ~0u ? UNKNOWN : int64_t(size));
            }
            complete(parse(strings).get(), &known_inputs, &known_outputs);
            *inputs = as_unsigned(known_inputs);
            *outputs = as_unsigned(known_outputs);
        });
    }

    std::vector<std::vector<unsigned>> as_unsigned(const PartialShapes &shapes)
    {
        std::vector<std::vector<unsigned>> result;
        for (const PartialShape &shape : shapes) {
            result.emplace_back();
            for (const int64_t size : shape.sizes) {
                if (size >= int64_t(~0u))
                    refuse(op.name, "a shape is " + shape_text(shape.sizes) + "; expected sizes below 2**32 - 1",
                           "Choose smaller shapes or attributes");
                result.back().push_back(size == UNKNOWN ? 0 : unsigned(size));
            }
        }
        return result;
    }

    // A graph from elsewhere may give a node any number of inputs.
    void check_count(const char *what, size_t count, size_t expected)
    {
        if (count != expected)
            refuse(op.name, "the node has " + std::to_string(count) + " " + what + "; expected " +
                   std::to_string(expected), "Correct the graph");
    }

    // `pass` is forward or backward.
    template <auto pass>
    MXReturnValue compute_of_strings(const Strings &strings, std::vector<MXTensor> *inputs,
                                     std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &)
    {
        return guarded(op.name, [&] { (this->*pass)(parse(strings).get(), views(*inputs), views(*outputs)); });
    }

    template <auto pass>
    void compute(const Texts &texts, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        reported(op.name, [&] { (this->*pass)(parse(texts), inputs, outputs); });
    }

    void forward(const void *attrs, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        check_count("inputs", inputs.size(), op.inputs);
        verify(attrs, inputs, 0, outputs);
        if (!inputs[0].size() && outputs[0].size())   // a kernel would leave the output unwritten
            refuse(op.name, std::string(op.tensors(attrs)[0].name) + " has shape " + shape_text(inputs[0].shape()) +
                   ", which has no elements; expected some, because the output has shape " +
                   shape_text(outputs[0].shape()), "Leave such a call out");
        op.forward(attrs, inputs.data(), outputs.data());
    }

    // MXNet hands over the head gradients, the inputs and the outputs, and wants the gradient of every input.
    void backward(const void *attrs, const std::vector<View> &inputs, const std::vector<View> &outputs)
    {
        check_count("inputs of the gradient", inputs.size(), op.inputs + 2 * op.outputs);
        verify(attrs, inputs, op.outputs, {});
        const Arrays all = inputs.data();
        op.backward(attrs, all, all + op.outputs, all + op.outputs + op.inputs, outputs.data());
    }

    // A tensor without dimensions passes shape inference as one of unknown shape: the kernels must not see it.
    void verify(const void *attrs, const std::vector<View> &inputs, size_t first, const std::vector<View> &outputs)
    {
        if (!inputs[first].shape().empty())
            return;
        PartialShapes of_inputs, of_outputs(op.outputs);
        for (size_t i = 0; i < op.inputs; ++i)
            of_inputs.push_back({true, inputs[first + i].shape()});
        for (size_t i = 0; i < outputs.size(); ++i)
            of_outputs[i] = {true, outputs[i].shape()};
        complete(attrs, &of_inputs, &of_outputs);
    }

 private:
    const Operator op;
    KeptTexts parsed_texts, inferred_texts;
    AnyAttrs parsed;
    PartialShapes known_inputs, known_outputs, found_inputs, found_outputs;
};

// The one of an operator and a thread.
template <typename Op>
Registered &registered()
{
    static thread_local Registered made(operator_of<Op>());
    return made;
}

// A function of it, for MXNet.
template <typename Op, auto function> struct Of;
template <typename Op, typename Result, typename... Args, Result (Registered::*function)(Args...)>
struct Of<Op, function> {
    static Result call(Args... args) { return (registered<Op>().*function)(args...); }
};

#define GLUONOPS_REGISTER_OP(graph_name, Op)                                                       \
    REGISTER_OP(graph_name)                                                                        \
        .setParseAttrs(Of<Op, &Registered::parse_attributes>::call)                                \
        .setInferType(Of<Op, &Registered::infer_type_of_strings>::call)                            \
        .setInferShape(Of<Op, &Registered::infer_shape_of_strings>::call)                          \
        .setForward(Of<Op, &Registered::compute_of_strings<&Registered::forward>>::call, "cpu")    \
        .setBackward(Of<Op, &Registered::compute_of_strings<&Registered::backward>>::call, "cpu"); \
    const Registration registration_of_##graph_name(                                               \
        #graph_name, Op::INPUTS, Op::OUTPUTS, Of<Op, &Registered::infer_shape>::call,              \
        Of<Op, &Registered::infer_type>::call,                                                     \
        Of<Op, &Registered::compute<&Registered::forward>>::call,                                  \
        Of<Op, &Registered::compute<&Registered::backward>>::call);

}  // namespace gluonops
