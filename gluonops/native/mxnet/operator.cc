// Answers what MXNet asks of every operator with the table that is generated from its contract: see operator.h. The
// generated operators.cc includes this file.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "operator.h"

namespace gluonops {
namespace {

// A copy of a node's attributes, to compare the next node's with. MXNet lists the same ones in the same order.
typedef std::vector<std::pair<std::string, std::string>> KeptTexts;

bool are_equal(const KeptTexts &kept, const Texts &texts)
{
    return std::equal(kept.begin(), kept.end(), texts.begin(), texts.end(), [](const auto &one, const auto &other) {
        return one.first == other.first && one.second == other.second;
    });
}

// What a thread has asked of an operator last, and the answers. It mostly asks the same again.
struct Memo {
    KeptTexts texts;
    AnyAttrs parsed;

    AnyAttrs attrs;
    PartialShapes known_inputs, known_outputs, inferred_inputs, inferred_outputs;
};

Memo &memo_of(const Operator &op)
{
    static thread_local std::unordered_map<const Operator *, Memo> memos;
    return memos[&op];
}

AnyAttrs parse(const Operator &op, const Strings &strings)
{
    if (strings.count(MX_STR_EXTRA_INPUTS))   // MXNet takes any number there
        refuse(op.name, "the node has the attribute " MX_STR_EXTRA_INPUTS, "Remove it from the graph");
    return op.parse(Attributes(op.name, strings, op.attributes()));
}

// A graph from elsewhere may give a node any number of inputs.
void check_count(const Operator &op, const char *what, size_t count, size_t expected, const char *of = "")
{
    if (count != expected)
        refuse(op.name, "the node has " + plural(count, what) + of + "; expected " + std::to_string(expected),
               "Correct the graph");
}

void assign(const Operator &op, int type, int *existing)
{
    if (*existing == -1)
        *existing = type;
    else if (type != -1 && type != *existing)
        refuse(op.name, std::string("an output has dtype ") + type_name(*existing) + "; expected " + type_name(type),
               "Pass another array as out");
}

// Completes every tensor's type from those of the inputs.
void complete_types(const Operator &op, const void *attrs, std::vector<int> *inputs, std::vector<int> *outputs)
{
    check_count(op, "input", inputs->size(), op.inputs);
    check_count(op, "output", outputs->size(), op.outputs);
    const std::vector<int> types = inferred_types(op.name, op.types(), op.tensors(attrs), *inputs);
    for (size_t i = 0; i < types.size(); ++i)
        assign(op, types[i], i < op.inputs ? &(*inputs)[i] : &(*outputs)[i - op.inputs]);
}

bool fits(const Operator &op, const void *attrs, const std::vector<int> &ndims, const std::vector<KnownShape> &shapes)
{
    std::vector<Pattern> patterns;
    try {
        patterns = op.shapes(attrs, ndims).patterns;
    } catch (const Refusal &) {
        return false;
    }
    bool any = false, all = patterns[0].size() == size_t(ndims[0]);
    for (size_t i = 0; i < shapes.size(); ++i) {
        any |= shapes[i].has_ndim;
        all &= !shapes[i].has_ndim || shapes[i].shape.size() == patterns[i].size();
    }
    return any && all;
}

// Returns the first input's number of dimensions if the other tensors leave just one, and otherwise -1.
int only_ndim(const Operator &op, const void *attrs, std::vector<int> ndims, const std::vector<KnownShape> &shapes)
{
    int only = -1;
    for (int ndim = 1; ndim <= MAX_NDIM; ++ndim) {
        ndims[0] = ndim;
        if (!fits(op, attrs, ndims, shapes))
            continue;
        if (only >= 0)
            return -1;
        only = ndim;
    }
    return only;
}

// Completes every tensor's shape from those that are known, forwards and backwards.
void complete_shapes(const Operator &op, const void *attrs, PartialShapes *inputs, PartialShapes *outputs)
{
    check_count(op, "input", inputs->size(), op.inputs);
    check_count(op, "output", outputs->size(), op.outputs);
    const Tensors tensors = op.tensors(attrs);
    std::vector<int> ndims;
    std::vector<KnownShape> known_shapes;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const PartialShape &shape = i < op.inputs ? (*inputs)[i] : (*outputs)[i - op.inputs];
        known_shapes.push_back({tensors[i].name, shape.has_ndim, shape.sizes});
        if (i < op.inputs)
            ndims.push_back(shape.has_ndim ? int(shape.sizes.size()) : -1);
    }
    if (!known_shapes[0].has_ndim)
        ndims[0] = only_ndim(op, attrs, ndims, known_shapes);
    if (ndims[0] < 0)
        return;
    const std::vector<Shape> shapes = solve(op.name, op.shapes(attrs, ndims), known_shapes);
    for (size_t i = 0; i < tensors.size(); ++i)
        (i < op.inputs ? (*inputs)[i] : (*outputs)[i - op.inputs]) = PartialShape{true, shapes[i]};
}

// A tensor without dimensions passes shape inference as one of unknown shape: the kernels must not see it.
void verify(const Operator &op, const void *attrs, const std::vector<View> &inputs, size_t first,
            const std::vector<View> &outputs)
{
    if (!inputs[first].shape().empty())
        return;
    PartialShapes of_inputs, of_outputs(op.outputs);
    for (size_t i = 0; i < op.inputs; ++i)
        of_inputs.push_back({true, inputs[first + i].shape()});
    for (size_t i = 0; i < outputs.size(); ++i)
        of_outputs[i] = {true, outputs[i].shape()};
    complete_shapes(op, attrs, &of_inputs, &of_outputs);
}

void refuse_no_elements(const Operator &op, const void *attrs, const View &input, const View &output)
{
    refuse(op.name, std::string(op.tensors(attrs)[0].name) + " has shape " + shape_text(input.shape()) +
           ", which has no elements; expected at least one, because the output has shape " + shape_text(output.shape()),
           "Do not call the operator with an empty input");
}

// Returns the tensors that lib_api.h hands over.
std::vector<View> views(const std::vector<MXTensor> &arrays)
{
    std::vector<View> result;
    for (const MXTensor &array : arrays)
        result.push_back({array.data_ptr, array.dtype, &array.shape});
    return result;
}

std::vector<std::vector<unsigned>> as_unsigned(const Operator &op, const PartialShapes &shapes)
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

}  // namespace

AnyAttrs parse(const Operator &op, const Texts &texts)
{
    Memo &memo = memo_of(op);
    if (!memo.parsed || !are_equal(memo.texts, texts)) {
        memo.parsed = nullptr;
        memo.texts.assign(texts.begin(), texts.end());
        reported(op.name, [&] { memo.parsed = parse(op, Strings(texts.begin(), texts.end())); });
    }
    return memo.parsed;
}

void infer_type(const Operator &op, const AnyAttrs &attrs, std::vector<int> *inputs, std::vector<int> *outputs)
{
    reported(op.name, [&] { complete_types(op, attrs.get(), inputs, outputs); });
}

void infer_shape(const Operator &op, const AnyAttrs &attrs, PartialShapes *inputs, PartialShapes *outputs)
{
    Memo &memo = memo_of(op);
    if (memo.attrs != attrs || memo.known_inputs != *inputs || memo.known_outputs != *outputs) {
        memo.attrs = nullptr;
        memo.known_inputs = *inputs;
        memo.known_outputs = *outputs;
        reported(op.name, [&] { complete_shapes(op, attrs.get(), inputs, outputs); });
        memo.attrs = attrs;
        memo.inferred_inputs = *inputs;
        memo.inferred_outputs = *outputs;
    }
    *inputs = memo.inferred_inputs;
    *outputs = memo.inferred_outputs;
}

void run_forward(const Operator &op, const AnyAttrs &attrs, const std::vector<View> &inputs,
                 const std::vector<View> &outputs)
{
    reported(op.name, [&] {
        check_count(op, "input", inputs.size(), op.inputs);
        verify(op, attrs.get(), inputs, 0, outputs);
        if (!inputs[0].size() && outputs[0].size())   // a kernel would leave the output unwritten
            refuse_no_elements(op, attrs.get(), inputs[0], outputs[0]);
        if (op.check && checking_values())
            op.check(attrs.get(), inputs.data());
        op.forward(attrs.get(), inputs.data(), outputs.data());
    });
}

// MXNet hands over the head gradients, the inputs and the outputs, and wants the gradient of every input.
void run_backward(const Operator &op, const AnyAttrs &attrs, const std::vector<View> &inputs,
                  const std::vector<View> &outputs)
{
    reported(op.name, [&] {
        check_count(op, "input", inputs.size(), op.inputs + 2 * op.outputs, " of the gradient");
        verify(op, attrs.get(), inputs, op.outputs, {});
        const Arrays grads = inputs.data(), of_forward = grads + op.outputs;
        op.backward(attrs.get(), grads, of_forward, of_forward + op.inputs, outputs.data());
        if (op.clear)
            op.clear(attrs.get(), outputs.data());
    });
}

MXReturnValue parse_strings(const Operator &op, const Strings &strings, int *inputs, int *outputs)
{
    return guarded(op.name, [&] {
        install_operators();
        parse(op, strings);
        *inputs = int(op.inputs);
        *outputs = int(op.outputs);
    });
}

MXReturnValue infer_type_of_strings(const Operator &op, const Strings &strings, std::vector<int> *inputs,
                                    std::vector<int> *outputs)
{
    return guarded(op.name, [&] {
        outputs->assign(outputs->size(), -1);
        complete_types(op, parse(op, strings).get(), inputs, outputs);
    });
}

// lib_api.h shows no output. A shape that is unknown altogether comes, and goes back, without dimensions; a size that
// is unknown comes as the largest number and goes back as 0.
MXReturnValue infer_shape_of_strings(const Operator &op, const Strings &strings,
                                     std::vector<std::vector<unsigned>> *inputs,
                                     std::vector<std::vector<unsigned>> *outputs)
{
    return guarded(op.name, [&] {
        PartialShapes known_inputs, known_outputs(outputs->size());
        for (const std::vector<unsigned> &shape : *inputs) {
            known_inputs.push_back({!shape.empty(), {}});
            for (const unsigned size : shape)
                known_inputs.back().sizes.push_back(size == ~0u ? UNKNOWN : int64_t(size));
        }
        complete_shapes(op, parse(op, strings).get(), &known_inputs, &known_outputs);
        *inputs = as_unsigned(op, known_inputs);
        *outputs = as_unsigned(op, known_outputs);
    });
}

MXReturnValue forward_of_strings(const Operator &op, const Strings &strings, std::vector<MXTensor> *inputs,
                                 std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &)
{
    return guarded(op.name, [&] { run_forward(op, parse(op, strings), views(*inputs), views(*outputs)); });
}

MXReturnValue backward_of_strings(const Operator &op, const Strings &strings, std::vector<MXTensor> *inputs,
                                  std::vector<MXTensor> *outputs, const mxnet::ext::OpResource &)
{
    return guarded(op.name, [&] { run_backward(op, parse(op, strings), views(*inputs), views(*outputs)); });
}

}  // namespace gluonops
