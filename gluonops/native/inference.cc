// Puts the operators' shape inference into the registry of MXNet 1.9.1, in place of what MXLoadLib makes of lib_api.h;
// and in front of what MXNet asks a CustomOp in Python.
//
// MXNet is found through its own code and never linked with: in Python its symbols are local to it. Compiled for the
// ABI of its wheels (see build.py).
#include "inference.h"

#include <dlfcn.h>
#include <mxnet/c_api.h>
#include <mxnet/tuple.h>
#include <nnvm/op.h>
#include <stddef.h>
#include <string.h>

#include <functional>
#include <mutex>
#include <string>

#include "sizes.h"

namespace gluonops {
namespace {

// MXLoadLib registers with 10, or with 11 the second time.
const int PRIORITY = 100;

const char OP_TYPE[] = "op_type";   // of a Custom node: which CustomOp it is

const nnvm::Op *(*get_op)(const std::string &);
const dmlc::any *(*get_attributes)(const std::string &);
void (*update_attributes)(const std::string &, std::function<void(dmlc::any *)>);

template <typename Function>
bool resolve(void *library, const char *symbol, Function *function)
{
    *function = reinterpret_cast<Function>(dlsym(library, symbol));
    return *function != nullptr;
}

bool has_large_tensors(void *library)
{
    decltype(&MXLibInfoFeatures) ask;
    const LibFeature *features = nullptr;
    size_t count = 0;
    if (!resolve(library, "MXLibInfoFeatures", &ask) || ask(&features, &count))
        return false;
    for (size_t i = 0; i < count; ++i)
        if (!strcmp(features[i].name, "INT64_TENSOR_SIZE"))
            return features[i].enabled;
    return false;
}

PartialShapes read(const mxnet::ShapeVector &shapes)
{
    PartialShapes result;
    for (const mxnet::TShape &shape : shapes) {
        result.push_back({shape.ndim() >= 0, {}});
        if (result.back().has_ndim)
            result.back().sizes.assign(shape.begin(), shape.end());
    }
    return result;
}

// Whether all of them are known.
bool write(const PartialShapes &found, mxnet::ShapeVector *shapes)
{
    bool complete = true;
    for (size_t i = 0; i < found.size(); ++i) {
        complete &= found[i].has_ndim;
        if (!found[i].has_ndim)
            continue;
        (*shapes)[i] = mxnet::TShape(found[i].sizes.begin(), found[i].sizes.end());
        for (const int64_t size : found[i].sizes)
            complete &= size >= 0;
    }
    return complete;
}

// Without np_shape MXNet writes -1 for a size of 0. In a graph that means unknown. An imperative call, which has no
// name, knows its arrays' sizes.
void restore_zeros(PartialShapes *shapes)
{
    for (PartialShape &shape : *shapes)
        for (int64_t &size : shape.sizes)
            size = size < 0 ? 0 : size;
}

bool infer(Inference::Function function, const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs,
           mxnet::ShapeVector *outputs)
{
    Texts texts;
    for (const auto &item : attrs.dict)
        if (item.first != OP_TYPE)
            texts.emplace_back(item.first.c_str(), item.second.c_str());
    PartialShapes known_inputs = read(*inputs), known_outputs = read(*outputs);
    function(texts, &known_inputs, &known_outputs);
    if (attrs.name.empty()) {
        restore_zeros(&known_inputs);
        restore_zeros(&known_outputs);
    }
    const bool inputs_known = write(known_inputs, inputs);
    return write(known_outputs, outputs) && inputs_known;
}

// The code that a std::function calls takes its arguments as they are in libstdc++ before GCC 5, and references to them
// since then. The wheels differ: some are built by GCC 4.8. Everything else in the objects is the same.
bool old_functions = false;

struct Parts {   // of a std::function
    void *data[2];
    void *manager;
    void *invoker;
};

template <typename Function, typename Invoker>
void set_invoker(Function *function, Invoker *invoker)
{
    static_assert(sizeof(Parts) == sizeof(Function), "another std::function");
    memcpy(reinterpret_cast<char *>(function) + offsetof(Parts, invoker), &invoker, sizeof invoker);
}

typedef std::function<void(dmlc::any *)> Updater;

// What it holds is a pointer, `*data`.
void update_by_value(void *const *data, dmlc::any *attribute) { (*static_cast<const Updater *>(*data))(attribute); }

// An attribute that nobody has set is empty: its first word is 0, and a reference to its address is not.
void probe_by_value(void *const *, void **attribute) { old_functions = *attribute == nullptr; }

void probe()
{
    Updater updater = [](dmlc::any *) {};
    set_invoker(&updater, probe_by_value);
    update_attributes("gluonops", updater);
}

bool infer_by_value(void *const *data, const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs,
                    mxnet::ShapeVector *outputs)
{
    return infer(reinterpret_cast<Inference::Function>(*data), attrs, inputs, outputs);
}

mxnet::FInferShape wrapped(Inference::Function function)
{
    mxnet::FInferShape result = [function](const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs,
                                           mxnet::ShapeVector *outputs) {
        return infer(function, attrs, inputs, outputs);
    };
    if (old_functions)
        set_invoker(&result, infer_by_value);
    return result;
}

// What MXNet does about a Custom node.
mxnet::FInferShape infer_in_python;

bool call_infer_in_python(const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs, mxnet::ShapeVector *outputs)
{
    if (!old_functions)
        return infer_in_python(attrs, inputs, outputs);
    Parts parts;
    memcpy(&parts, &infer_in_python, sizeof parts);
    const auto invoker = reinterpret_cast<decltype(&infer_by_value)>(parts.invoker);
    return invoker(parts.data, attrs, inputs, outputs);
}

// The inference of one of our CustomOps; nullptr for other people's.
Inference::Function find_function(const nnvm::NodeAttrs &attrs)
{
    const auto found = attrs.dict.find(OP_TYPE);
    for (const Inference *each = Inference::first; found != attrs.dict.end() && each; each = each->next)
        if (found->second == each->graph_name)
            return each->function;
    return nullptr;
}

// Python cannot answer that it does not know a number of dimensions: MXNet takes what it says for a scalar's shape.
bool infer_custom(const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs, mxnet::ShapeVector *outputs)
{
    bool has_ndims = true;
    for (const mxnet::TShape &shape : *inputs)
        has_ndims &= shape.ndim() >= 0;
    const Inference::Function function = has_ndims ? nullptr : find_function(attrs);
    return function ? infer(function, attrs, inputs, outputs) : call_infer_in_python(attrs, inputs, outputs);
}

bool infer_custom_by_value(void *const *, const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs,
                           mxnet::ShapeVector *outputs)
{
    return infer_custom(attrs, inputs, outputs);
}

void install_custom()
{
    const nnvm::Op *const custom = get_op("Custom");
    infer_in_python = nnvm::Op::GetAttr<mxnet::FInferShape>("FInferShape")[custom];
    mxnet::FInferShape ours = infer_custom;
    if (old_functions)
        set_invoker(&ours, infer_custom_by_value);
    const_cast<nnvm::Op *>(custom)->set_attr("FInferShape", ours, PRIORITY);
}

void install()
{
    for (const Inference *each = Inference::first; each; each = each->next) {
        nnvm::Op *const op = const_cast<nnvm::Op *>(get_op(each->graph_name));
        op->set_attr("FInferShape", wrapped(each->function), PRIORITY);
    }
}

}  // namespace

int64_t largest_size = INT32_MAX;
const Inference *Inference::first;

bool find_mxnet(const void *inside)
{
    Dl_info found;
    if (!dladdr(inside, &found))
        return false;
    void *const library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library && has_large_tensors(library))
        largest_size = INT64_MAX;
    if (!library || !resolve(library, "_ZN4nnvm2Op3GetERKSs", &get_op) ||
        !resolve(library, "_ZN4nnvm2Op10GetAttrMapERKSs", &get_attributes) ||
        !resolve(library, "_ZN4nnvm2Op13UpdateAttrMapERKSsSt8functionIFvPN4dmlc3anyEEE", &update_attributes))
        return false;
    static std::once_flag once;
    std::call_once(once, [] {
        probe();
        install_custom();
    });
    return true;
}

void install_inference()
{
    static std::once_flag once;
    if (update_attributes)
        std::call_once(once, install);
}

}  // namespace gluonops

// What op.h's GetAttr calls.
const dmlc::any *nnvm::Op::GetAttrMap(const std::string &key) { return gluonops::get_attributes(key); }

// What op.h's set_attr calls.
void nnvm::Op::UpdateAttrMap(const std::string &key, std::function<void(any *)> updater)
{
    void *const address = &updater;
    gluonops::Updater passed = [address](any *attribute) { (*static_cast<gluonops::Updater *>(address))(attribute); };
    if (gluonops::old_functions)
        gluonops::set_invoker(&passed, gluonops::update_by_value);
    gluonops::update_attributes(key, passed);
}
