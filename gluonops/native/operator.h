// An operator for MXNet's lib_api.h, from a struct that declares it: see Contract.
#ifndef GLUONOPS_NATIVE_OPERATOR_H_
#define GLUONOPS_NATIVE_OPERATOR_H_

#include <mxnet/lib_api.h>
#include <stdio.h>

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "../ops/_labels/labels.h"
#include "attributes.h"
#include "dims.h"
#include "kernel.h"
#include "rows.h"

namespace gluonops {

using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;

typedef MXTensor *Arrays;
typedef Attributes::Strings Strings;

// A tensor's name and type variable: T the data's, A what T accumulates in, L the label's.
struct Tensor {
    const char *name;
    char kind;
};
typedef std::vector<Tensor> Tensors;

// What an operator inherits. It adds NAME, INPUTS, OUTPUTS, Attrs, attributes(), parse(), tensors(), types() (those
// that T may be), shapes(), forward() and backward(): the counterpart of its contract.py.
struct Contract {
    static const std::vector<int> &floats()
    {
        static const std::vector<int> types = {FLOAT16, FLOAT32, FLOAT64};
        return types;
    }
    static const std::vector<int> &floats_and_integers()
    {
        static const std::vector<int> types = {FLOAT16, FLOAT32, FLOAT64, UINT8, INT8, INT32, INT64};
        return types;
    }
    static Bounds above(int bound)
    {
        Bounds bounds;
        bounds.above = bound;
        bounds.expected = "a finite number above 0";
        return bounds;
    }
    static Bounds not_negative()
    {
        Bounds bounds;
        bounds.low = 0;
        bounds.expected = "a finite number of at least 0";
        return bounds;
    }
    static Bounds from_below(int low, int below)
    {
        Bounds bounds;
        bounds.low = low;
        bounds.below = below;
        bounds.expected = "a finite number of at least 0 and below 1";
        return bounds;
    }
    static RowSizes row_sizes(const Shape &shape, int64_t axis)
    {
        axis = axis < 0 ? axis + int64_t(shape.size()) : axis;
        RowSizes sizes = {1, shape[size_t(axis)], 1};
        for (size_t i = 0; i < shape.size(); ++i)
            (int64_t(i) < axis ? sizes.outer : sizes.inner) *= int64_t(i) == axis ? 1 : shape[i];
        return sizes;
    }
    static Labels labels_of(const MXTensor &label, const OptionalInteger &ignore)
    {
        return {{label.data_ptr, label.dtype}, ignore.given, ignore.value};
    }
    static void clear(MXTensor &array) { memset(array.data_ptr, 0, size_t(array.size() * size_of(array.dtype))); }

    // Whether the values of labels are looked at before each forward pass, as gluonops/core/labels.py decides it.
    static bool checking()
    {
        const char *wanted = getenv("GLUONOPS_CHECK_LABELS");
        return wanted && *wanted && strcmp(wanted, "0");
    }
    // A number as Python's format code g writes it.
    static std::string number_text(double value)
    {
        char text[32];
        snprintf(text, sizeof text, "%g", value);
        return value != value ? "nan" : text;
    }

    // Refuses labels that are no class.
    static void check_labels(const char *where, const char *name, const Shape &shape, const Labels &labels,
                             int64_t classes, bool can_ignore = true)
    {
        if (!checking())
            return;
        int64_t rows = 1, wrong = 0, first = 0;
        for (const int64_t size : shape)
            rows *= size;
        for (int64_t row = rows; row-- > 0;)
            if (base::class_of(labels, row, classes) == NO_CLASS) {
                ++wrong;
                first = row;
            }
        if (!wrong)
            return;
        std::string position;
        int64_t rest = first;
        for (size_t i = shape.size(); i-- > 0; rest /= shape[i])
            position = std::to_string(rest % shape[i]) + (position.empty() ? "" : ", ") + position;
        refuse(where, std::string(name) + "[" + position + "] is " + number_text(base::value_at(labels.array, first)) +
               (wrong > 1 ? " (and " + std::to_string(wrong - 1) + " more)" : "") +
               "; expected a whole number from 0 to " + std::to_string(classes - 1),
               can_ignore ? "Correct the labels, or name the value to skip with ignore_label" : "Correct the labels");
    }
};

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

// The functions that MXNet calls, from an operator's declaration.
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

    // Every tensor's type from those known, -1 where it does not follow; a label without one takes the data's.
    static MXReturnValue infer_type(const Strings &strings, std::vector<int> *inputs, std::vector<int> *outputs)
    {
        return guarded(Op::NAME, [&] {
            const Tensors tensors = Op::tensors(parse(strings));
            struct { int type; const char *source; } data = {-1, nullptr}, label = {-1, nullptr};
            bool has_label = false;
            for (int i = 0; i < Op::INPUTS; ++i) {
                const Tensor &tensor = tensors[size_t(i)];
                const int type = (*inputs)[size_t(i)];
                const std::vector<int> &allowed = tensor.kind == 'L' ? Contract::floats_and_integers() : Op::types();
                auto &bound = tensor.kind == 'L' ? label : data;
                has_label |= tensor.kind == 'L';
                if (type == -1)
                    continue;
                if (std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
                    std::string expected;
                    for (size_t a = 0; a < allowed.size(); ++a)
                        expected += (a ? ", " : "") + std::string(type_name(allowed[a]));
                    refuse(Op::NAME, std::string(tensor.name) + " has dtype " + type_name(type) + "; expected " + expected,
                           std::string("Cast it, for instance ") + tensor.name + ".astype('" + type_name(allowed[1]) +
                           "')");
                }
                if (bound.type == -1) {
                    bound.type = type;
                    bound.source = tensor.name;
                } else if (bound.type != type) {
                    refuse(Op::NAME, std::string(tensor.name) + " has dtype " + type_name(type) + "; expected " +
                           type_name(bound.type) + ", the dtype of " + bound.source,
                           std::string("Cast it with ") + tensor.name + ".astype('" + type_name(bound.type) + "')");
                }
            }
            if (has_label && label.type == -1)
                label.type = data.type;
            for (size_t i = 0; i < tensors.size(); ++i) {
                int type = tensors[i].kind == 'L' ? label.type : data.type;
                if (tensors[i].kind == 'A' && type == FLOAT16)
                    type = FLOAT32;
                (i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS]) = type;
            }
        });
    }

    // Every tensor's shape from the inputs': MXNet shows a library no output's. A shape that is unknown altogether
    // comes, and goes back, without dimensions; a size that is unknown comes as the largest number and goes back as 0.
    static MXReturnValue infer_shape(const Strings &strings, std::vector<std::vector<unsigned>> *inputs,
                                     std::vector<std::vector<unsigned>> *outputs)
    {
        return guarded(Op::NAME, [&] {
            const typename Op::Attrs attrs = parse(strings);
            const Tensors tensors = Op::tensors(attrs);
            std::vector<int> ndims;
            std::vector<Known> known;
            for (size_t i = 0; i < tensors.size(); ++i) {
                known.push_back({tensors[i].name, false, {}});
                if (i >= Op::INPUTS)
                    continue;
                for (const unsigned size : (*inputs)[i])
                    known[i].shape.push_back(size == ~0u ? UNKNOWN : int64_t(size));
                known[i].given = !known[i].shape.empty();
                ndims.push_back(known[i].given ? int(known[i].shape.size()) : -1);
            }
            if (!known[0].given)
                return;
            const std::vector<Shape> shapes = solve(Op::NAME, Op::shapes(attrs, ndims), known);
            for (size_t i = 0; i < tensors.size(); ++i) {
                auto &to = i < Op::INPUTS ? (*inputs)[i] : (*outputs)[i - Op::INPUTS];
                to.clear();
                for (const int64_t size : shapes[i])
                    to.push_back(size == UNKNOWN ? 0 : unsigned(size));
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

#define GLUONOPS_REGISTER_OP(graph_name, Op)                    \
    REGISTER_OP(graph_name)                                     \
        .setParseAttrs(Registered<Op>::parse_attributes)        \
        .setInferType(Registered<Op>::infer_type)               \
        .setInferShape(Registered<Op>::infer_shape)             \
        .setForward(Registered<Op>::forward, "cpu")             \
        .setBackward(Registered<Op>::backward, "cpu");

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_OPERATOR_H_
