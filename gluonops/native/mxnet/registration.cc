// Puts the operators' functions into the registry of MXNet 1.9.1, in place of what MXLoadLib makes of lib_api.h. Also
// puts their shape inference in front of what MXNet asks a CustomOp in Python, and checks its number of inputs.
//
// MXNet is found through its own code and never linked with: in Python its symbols are local to it. Compiled for the
// ABI of its wheels (see build.py).
#include "registration.h"

#include <dlfcn.h>
#include <dmlc/logging.h>
#include <mxnet/c_api.h>
#include <mxnet/op_attr_types.h>
#include <mxnet/tuple.h>
#include <nnvm/op.h>
#include <string.h>

#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "functions.h"
#include "../kernel.h"
#include "../isa.h"
#include "symbols.h"

namespace gluonops {
namespace {

const char OP_TYPE[] = "op_type";   // It says which CustomOp a Custom node is.

const nnvm::Op *(*get_op)(const std::string &);
const dmlc::any *(*get_attributes)(const std::string &);
void (*update_attributes)(const std::string &, std::function<void(dmlc::any *)>);

// Returns an operator of MXNet by name. find_mxnet must have succeeded before.
nnvm::Op *find_op(const std::string &name) { return const_cast<nnvm::Op *>(get_op(name)); }

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

// Writes the shapes, and returns whether all of them are known.
bool write(const PartialShapes &inferred, mxnet::ShapeVector *shapes)
{
    bool complete = true;
    for (size_t i = 0; i < inferred.size(); ++i) {
        complete &= inferred[i].has_ndim;
        if (!inferred[i].has_ndim)
            continue;
        (*shapes)[i] = mxnet::TShape(inferred[i].sizes.begin(), inferred[i].sizes.end());
        for (const int64_t size : inferred[i].sizes)
            complete &= size >= 0;
    }
    return complete;
}

// Without np_shape MXNet writes -1 for a size of 0, and for no dimensions. In a graph that means unknown. An imperative
// call, which has no name, knows its arrays' shapes.
void restore_zeros(PartialShapes *shapes)
{
    for (PartialShape &shape : *shapes)
        for (int64_t &size : shape.sizes)
            size = size < 0 ? 0 : size;
}

Texts texts_of(const nnvm::NodeAttrs &attrs)
{
    Texts texts;
    for (const auto &item : attrs.dict)
        if (item.first != OP_TYPE)
            texts.emplace_back(item.first.c_str(), item.second.c_str());
    return texts;
}

// Returns the attributes of a node, parsed. They lie behind a std::unordered_map, which is a word shorter before GCC 5.
dmlc::any &parsed_of(const nnvm::NodeAttrs &attrs)
{
    const char *const address = reinterpret_cast<const char *>(&attrs.parsed) - (old_functions ? sizeof(void *) : 0);
    return *reinterpret_cast<dmlc::any *>(const_cast<char *>(address));
}

// Parses the attributes of a node. MXNet calls this function when it makes the node.
void parse_attributes(const Registration &operation, nnvm::NodeAttrs *attrs)
{
    parsed_of(*attrs) = parse(operation.op, texts_of(*attrs));
}

// Returns the attributes that the parser has left in a node. MXNet's CustomOps have something else there.
AnyAttrs attrs_of(const Registration &operation, const nnvm::NodeAttrs &attrs)
{
    const dmlc::any &kept = parsed_of(attrs);
    if (!kept.empty() && kept.type() == typeid(AnyAttrs))
        return dmlc::get<AnyAttrs>(kept);
    return parse(operation.op, texts_of(attrs));
}

bool infer_shape(const Registration &operation, const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs,
                 mxnet::ShapeVector *outputs)
{
    PartialShapes known_inputs = read(*inputs), known_outputs = read(*outputs);
    if (attrs.name.empty()) {
        for (PartialShape &shape : known_inputs)
            shape.has_ndim = true;
        restore_zeros(&known_inputs);
        restore_zeros(&known_outputs);
    }
    infer_shape(operation.op, attrs_of(operation, attrs), &known_inputs, &known_outputs);
    const bool inputs_known = write(known_inputs, inputs);
    return write(known_outputs, outputs) && inputs_known;
}

bool infer_type(const Registration &operation, const nnvm::NodeAttrs &attrs, std::vector<int> *inputs,
                std::vector<int> *outputs)
{
    infer_type(operation.op, attrs_of(operation, attrs), inputs, outputs);
    return true;
}

// All tensors are dense. MXNet copies one in a layout of oneDNN's before compute() sees it.
bool infer_storage(const Registration &operation, const nnvm::NodeAttrs &, int, mxnet::DispatchMode *mode,
                   std::vector<int> *inputs, std::vector<int> *outputs)
{
    for (const int storage : *inputs)
        if (storage != mxnet::kDefaultStorage)
            throw std::runtime_error("Error input tensors are not dense for custom operator '" +
                                     std::string(operation.graph_name) + "'");
    for (int &storage : *outputs) {
        if (storage != mxnet::kUndefinedStorage && storage != mxnet::kDefaultStorage)
            return false;
        storage = mxnet::kDefaultStorage;
    }
    *mode = mxnet::DispatchMode::kFCompute;
    return true;
}

std::vector<mxnet::ResourceRequest> request_nothing(const Registration &, const nnvm::NodeAttrs &) { return {}; }

// The tensors of a call as the operators take them.
class Views {
 public:
    explicit Views(const std::vector<mxnet::TBlob> &blobs)
    {
        for (const mxnet::TBlob &blob : blobs) {
            shapes_.emplace_back(blob.shape_.begin(), blob.shape_.end());
            all.push_back({blob.dptr_, blob.type_flag_, &shapes_.back()});
        }
    }
    Views(const Views &) = delete;

    std::vector<View> all;

 private:
    std::deque<std::vector<int64_t>> shapes_;   // Its elements stay where they are.
};

template <typename T>
void add_values(const View &output, const void *values)
{
    T *const to = static_cast<T *>(output.data);
    const T *const from = static_cast<const T *>(values);
    base::parallel_for(output.size(), 3 * sizeof(T), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            if constexpr (std::is_same<T, Half>::value)
                to[i] = base::narrow(base::widen(to[i]) + base::widen(from[i]));
            else
                to[i] = T(to[i] + from[i]);
    });
}

void add(const View &output, const void *values)
{
    switch (output.type) {
    case FLOAT16: return add_values<Half>(output, values);
    case FLOAT32: return add_values<float>(output, values);
    case FLOAT64: return add_values<double>(output, values);
    case UINT8: return add_values<uint8_t>(output, values);
    case INT8: return add_values<int8_t>(output, values);
    case INT32: return add_values<int32_t>(output, values);
    case INT64: return add_values<int64_t>(output, values);
    }
}

// Kernels overwrite. So an output that is added to, or that nobody wants, is written to memory of its own. `run` is
// run_forward or run_backward.
template <auto run>
void compute(const Registration &operation, const nnvm::NodeAttrs &attrs, const mxnet::OpContext &,
             const std::vector<mxnet::TBlob> &inputs, const std::vector<mxnet::OpReqType> &requests,
             const std::vector<mxnet::TBlob> &outputs)
{
    const Views read(inputs), wanted(outputs);
    std::vector<View> written = wanted.all;
    Workspace memory;
    for (size_t i = 0; i < written.size(); ++i)
        if (requests[i] == mxnet::kAddTo || requests[i] == mxnet::kNullOp)
            written[i].data = memory.zeros<char>(written[i].size() * size_of(written[i].type));
    run(operation.op, attrs_of(operation, attrs), read.all, written);
    for (size_t i = 0; i < written.size(); ++i)
        if (requests[i] == mxnet::kAddTo)
            add(wanted.all[i], written[i].data);
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

// What MXNet does about a Custom node.
mxnet::FInferShape infer_shape_in_python;
nnvm::FInferType infer_type_in_python;
nnvm::FGradient make_gradient;
std::function<uint32_t(const nnvm::NodeAttrs &)> count_inputs;

// Returns the operator of one of our CustomOps, or nullptr for a CustomOp of other people.
const Registration *find_operation(const nnvm::NodeAttrs &attrs)
{
    const auto op_type = attrs.dict.find(OP_TYPE);
    for (const Registration *each = Registration::first; op_type != attrs.dict.end() && each; each = each->next)
        if (op_type->second == each->graph_name)
            return each;
    return nullptr;
}

// A graph from elsewhere may give a node any number of inputs. MXNet reads as many as the CustomOpProp lists, arguments
// and auxiliary states, whatever the node has.
void check_count(const nnvm::NodeAttrs &attrs, size_t count)
{
    const size_t expected = call_mxnet(count_inputs, attrs);
    if (count == expected)
        return;
    const Registration *const ours = find_operation(attrs);
    const auto op_type = attrs.dict.find(OP_TYPE);
    const std::string name = ours ? ours->graph_name + strlen("gluonops_")
                             : op_type == attrs.dict.end() ? std::string() : op_type->second;
    throw dmlc::Error((ours ? "gluonops." + name : "Custom(op_type='" + name + "')") + ": the node has " +
                      std::to_string(count) + (count == 1 ? " input" : " inputs") + "; expected " +
                      std::to_string(expected) + ". Correct the graph.");
}

// Python cannot answer that it does not know a number of dimensions: MXNet takes what it says for a scalar's shape.
bool infer_custom_shape(const nnvm::NodeAttrs &attrs, mxnet::ShapeVector *inputs, mxnet::ShapeVector *outputs)
{
    check_count(attrs, inputs->size());
    bool has_ndims = true;
    for (const mxnet::TShape &shape : *inputs)
        has_ndims &= shape.ndim() >= 0;
    const Registration *const ours = has_ndims ? nullptr : find_operation(attrs);
    return ours ? infer_shape(*ours, attrs, inputs, outputs)
                : call_mxnet(infer_shape_in_python, attrs, inputs, outputs);
}

bool infer_custom_type(const nnvm::NodeAttrs &attrs, std::vector<int> *inputs, std::vector<int> *outputs)
{
    check_count(attrs, inputs->size());
    return call_mxnet(infer_type_in_python, attrs, inputs, outputs);
}

// Returns a node's inputs. They lie behind a std::unordered_map, which is a word shorter before GCC 5.
const std::vector<nnvm::NodeEntry> &inputs_of(const nnvm::Node &node)
{
    const char *const address = reinterpret_cast<const char *>(&node.inputs) - (old_functions ? sizeof(void *) : 0);
    return *reinterpret_cast<const std::vector<nnvm::NodeEntry> *>(address);
}

std::vector<nnvm::NodeEntry> make_custom_gradient(const nnvm::ObjectPtr &node,
                                                  const std::vector<nnvm::NodeEntry> &grads_out)
{
    check_count(node->attrs, inputs_of(*node).size());
    return call_mxnet(make_gradient, node, grads_out);
}

template <auto function>
struct ByValue;

template <typename Result, typename... Args, Result (*function)(Args...)>
struct ByValue<function> {
    static Result call(void *const *, Args... args) { return function(args...); }
};

// Puts a function of ours in front of MXNet's, which it may call.
template <auto function, typename Theirs>
void put_in_front(nnvm::Op *op, const char *attribute, Theirs *theirs)
{
    *theirs = nnvm::Op::GetAttr<Theirs>(attribute)[op];
    Theirs ours = function;
    if (old_functions)
        set_invoker(&ours, ByValue<function>::call);
    op->set_attr<Theirs>(attribute, ours, PRIORITY);
}

void install_custom()
{
    nnvm::Op *const custom = find_op("Custom");
    count_inputs = custom->get_num_inputs;
    put_in_front<infer_custom_shape>(custom, "FInferShape", &infer_shape_in_python);
    put_in_front<infer_custom_type>(custom, "FInferType", &infer_type_in_python);
    put_in_front<make_custom_gradient>(custom, "FGradient", &make_gradient);
}

void set_counts(nnvm::Op *op, unsigned inputs, unsigned outputs)
{
    op->num_inputs = inputs;
    op->num_outputs = outputs;
    op->get_num_inputs = nullptr;
    op->get_num_outputs = nullptr;
}

// MXNet's parser, which may be running, is never destroyed.
void set_parser(nnvm::Op *op, const Registration &operation)
{
    new std::function<void(nnvm::NodeAttrs *)>(std::move(op->attr_parser));
    op->attr_parser = Wrapped<parse_attributes>::of(operation);
}

template <auto run>
void set_compute(nnvm::Op *op, const Registration &operation)
{
    set_parser(op, operation);
    op->set_attr<mxnet::FCompute>("FCompute<cpu>", Wrapped<compute<run>>::of(operation), PRIORITY);
    op->set_attr<mxnet::FInferStorageType>("FInferStorageType", Wrapped<infer_storage>::of(operation), PRIORITY);
    op->set_attr<mxnet::FResourceRequest>("FResourceRequest", Wrapped<request_nothing>::of(operation), PRIORITY);
}

// This function may run while MXNet calls a parser of attributes.
void install()
{
    for (const Registration *each = Registration::first; each; each = each->next) {
        nnvm::Op &op = *find_op(each->graph_name);
        op.set_attr<mxnet::FInferShape>("FInferShape", Wrapped<infer_shape>::of(*each), PRIORITY);
        set_counts(&op, each->inputs, each->outputs);
        op.set_attr<nnvm::FInferType>("FInferType", Wrapped<infer_type>::of(*each), PRIORITY);
        set_compute<run_forward>(&op, *each);
        // MXNet must not merge two equal loss heads, whose gradients add up whatever the head gradient is.
        op.set_attr<mxnet::THasDeterministicOutput>("THasDeterministicOutput", false, PRIORITY);

        nnvm::Op &gradient = *find_op(std::string("_backward_") + each->graph_name);
        set_counts(&gradient, each->inputs + 2 * each->outputs, each->inputs);
        set_compute<run_backward>(&gradient, *each);
    }
}

}  // namespace

int64_t largest_size = INT32_MAX;
const Registration *Registration::first;

bool find_mxnet(const void *inside)
{
    Dl_info place;
    if (!dladdr(inside, &place))
        return false;
    void *const library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library && has_large_tensors(library))
        largest_size = INT64_MAX;
    if (!library || !resolve(library, "_ZN4nnvm2Op3GetERKSs", &get_op) ||
        !resolve(library, "_ZN4nnvm2Op10GetAttrMapERKSs", &get_attributes) ||
        !resolve(library, "_ZN4nnvm2Op13UpdateAttrMapERKSsSt8functionIFvPN4dmlc3anyEEE", &update_attributes))
        return false;
    static std::once_flag once;
    std::call_once(once, [library] {
        probe();
        install_custom();
        find_engine(library);
    });
    return true;
}

// Returns whether the operators honour MXNet's request to add to a gradient.
GLUONOPS_PUBLIC bool gluonops_honours_requests() { return update_attributes != nullptr; }

void install_operators()
{
    static std::once_flag once;
    if (update_attributes)
        std::call_once(once, install);
}

GLUONOPS_PUBLIC void gluonops_install_operators() { install_operators(); }

}  // namespace gluonops

// The function that GetAttr in op.h calls.
const dmlc::any *nnvm::Op::GetAttrMap(const std::string &key) { return gluonops::get_attributes(key); }

// The function that set_attr in op.h calls.
void nnvm::Op::UpdateAttrMap(const std::string &key, std::function<void(any *)> updater)
{
    void *const address = &updater;
    gluonops::Updater passed = [address](any *attribute) { (*static_cast<gluonops::Updater *>(address))(attribute); };
    if (gluonops::old_functions)
        gluonops::set_invoker(&passed, gluonops::update_by_value);
    gluonops::update_attributes(key, passed);
}
