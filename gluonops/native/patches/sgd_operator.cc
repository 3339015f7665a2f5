// The node _gluonops_sgd_update. Its inputs are weight and gradient of every parameter, or weight, gradient and
// momentum if it has the attribute `momentum`; weights and momenta change. Its output is the number of parameters:
// MXNet wants one.
//
// It needs what a contract does not have, any number of inputs that change, so it is no operator of ops/. Its caller,
// gluonops/optimizer.py, makes sure that no weight is in a layout of oneDNN: MXNet would pass a copy of it. The
// generated operators.cc includes this file.
#include <dmlc/strtonum.h>

#include <locale>
#include <sstream>

#include "../mxnet/operator.h"
#include "sgd.h"

namespace gluonops {
namespace {

const char SGD[] = "sgd_update";

struct SgdAttrs {
    std::vector<float> rates, decays;   // Every parameter has its own.
    float rescale = 1, momentum = 0, clip = -1;
    bool has_momentum = false;

    size_t per_parameter() const { return has_momentum ? 3 : 2; }
    size_t inputs() const { return rates.size() * per_parameter(); }
};

// MXNet parses a parameter of its operators in this way. It is not always the nearest number.
Parsed parse_number(const std::string &text, float *value)
{
    char *end = nullptr;
    *value = dmlc::ParseFloat<float, true>(text.c_str(), &end);
    return end == text.c_str() || *end ? WRONG : RIGHT;
}

// MXNet parses a tuple of them in this way. Each is the nearest number.
Parsed parse_numbers(const std::string &text, std::vector<float> *values)
{
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());
    char separator;
    float value;
    stream >> separator;
    while (stream >> value) {
        values->push_back(value);
        stream >> separator;
    }
    return values->empty() ? WRONG : RIGHT;
}

SgdAttrs parse(const Strings &strings)
{
    const Attributes given(SGD, strings, {"lrs", "wds", "rescale_grad", "momentum", "clip_gradient"});
    const char *const expected = "numbers: (0.1, 0.1)";
    SgdAttrs attrs;
    attrs.rates = given.get("lrs", attrs.rates, expected, parse_numbers);
    attrs.decays = given.get("wds", attrs.decays, expected, parse_numbers);
    attrs.rescale = given.get("rescale_grad", attrs.rescale, "a number", parse_number);
    attrs.momentum = given.get("momentum", attrs.momentum, "a number", parse_number);
    attrs.clip = given.get("clip_gradient", attrs.clip, "a number", parse_number);
    attrs.has_momentum = strings.count("momentum");
    if (attrs.rates.size() != attrs.decays.size())
        refuse(SGD, "there are " + std::to_string(attrs.decays.size()) + " numbers in wds; expected " +
               std::to_string(attrs.rates.size()) + ", as many as in lrs", "Pass one of each for every parameter");
    return attrs;
}

void check_count(size_t inputs, const SgdAttrs &attrs)
{
    if (inputs != attrs.inputs())
        refuse(SGD, "the node has " + std::to_string(inputs) + " inputs; expected " + std::to_string(attrs.inputs()),
               "Pass weight, gradient and, with momentum, momentum of every parameter");
}

MXReturnValue parse_attributes(const Strings &strings, int *inputs, int *outputs)
{
    return guarded(SGD, [&] {
        install_operators();
        if (strings.count(MX_STR_EXTRA_INPUTS))
            refuse(SGD, "the node has the attribute " MX_STR_EXTRA_INPUTS, "Remove it from the graph");
        *inputs = int(parse(strings).inputs());
        *outputs = 1;
    });
}

MXReturnValue mutated_inputs(const Strings &strings, std::vector<int> *indices)
{
    return guarded(SGD, [&] {
        const SgdAttrs attrs = parse(strings);
        for (size_t i = 0; i < attrs.inputs(); ++i)
            if (i % attrs.per_parameter() != 1)   // all but the gradients
                indices->push_back(int(i));
    });
}

MXReturnValue infer_type(const Strings &strings, std::vector<int> *inputs, std::vector<int> *outputs)
{
    return guarded(SGD, [&] {
        check_count(inputs->size(), parse(strings));
        for (int &type : *inputs) {
            if (type != -1 && type != FLOAT32)
                refuse(SGD, std::string("an input has dtype ") + type_name(type) + "; expected float32",
                       "Use mx.optimizer.SGD");
            type = FLOAT32;
        }
        outputs->assign(1, FLOAT32);
    });
}

// A parameter's tensors have one shape.
void complete(const SgdAttrs &attrs, PartialShapes *inputs, PartialShapes *outputs)
{
    outputs->assign(1, {true, {1}});
    check_count(inputs->size(), attrs);
    for (size_t i = 0; i < inputs->size(); ++i) {
        const size_t weight = i - i % attrs.per_parameter();
        const PartialShape &expected = (*inputs)[weight];
        PartialShape &shape = (*inputs)[i];
        if (!shape.has_ndim)
            shape = expected;
        else if (expected.has_ndim && shape.sizes != expected.sizes)
            refuse(SGD, "input " + std::to_string(i) + " has shape " + shape_text(shape.sizes) + "; expected " +
                   shape_text(expected.sizes) + ", the shape of input " + std::to_string(weight),
                   "Pass tensors that belong together");
    }
}

void infer(const Texts &texts, PartialShapes *inputs, PartialShapes *outputs)
{
    reported(SGD, [&] { complete(parse(Strings(texts.begin(), texts.end())), inputs, outputs); });
}

// It is used where install_operators() could not do better.
MXReturnValue infer_shape(const Strings &strings, std::vector<std::vector<unsigned>> *inputs,
                          std::vector<std::vector<unsigned>> *outputs)
{
    return guarded(SGD, [&] {
        PartialShapes known, known_outputs;
        for (const std::vector<unsigned> &shape : *inputs)
            known.push_back({!shape.empty(), {shape.begin(), shape.end()}});
        complete(parse(strings), &known, &known_outputs);
        outputs->assign(1, {1});
    });
}

float *numbers(const MXTensor &tensor) { return static_cast<float *>(tensor.data_ptr); }

MXReturnValue forward(const Strings &strings, std::vector<MXTensor> *inputs, std::vector<MXTensor> *outputs,
                      const mxnet::ext::OpResource &)
{
    return guarded(SGD, [&] {
        const SgdAttrs attrs = parse(strings);
        check_count(inputs->size(), attrs);
        std::vector<SgdTensor> tensors;
        int64_t blocks = 0;
        for (size_t i = 0; i < attrs.rates.size(); ++i) {
            const MXTensor *of_parameter = inputs->data() + i * attrs.per_parameter();
            SgdTensor tensor;
            tensor.weight = numbers(of_parameter[0]);
            tensor.grad = numbers(of_parameter[1]);
            tensor.momentum = attrs.has_momentum ? numbers(of_parameter[2]) : nullptr;
            tensor.size = of_parameter[0].size();
            tensor.first_block = blocks;
            tensor.rate = attrs.rates[i];
            tensor.decay = attrs.decays[i];
            tensors.push_back(tensor);
            blocks += (tensor.size + SGD_BLOCK - 1) / SGD_BLOCK;
        }
        update_parameters({tensors.data(), int64_t(tensors.size()), blocks, attrs.rescale, attrs.momentum, attrs.clip});
        *numbers((*outputs)[0]) = float(tensors.size());
    });
}

REGISTER_OP(_gluonops_sgd_update)
    .setParseAttrs(parse_attributes)
    .setInferType(infer_type)
    .setInferShape(infer_shape)
    .setMutateInputs(mutated_inputs)
    .setForward(forward, "cpu");
const Registration registration("_gluonops_sgd_update", infer);

}  // namespace
}  // namespace gluonops
