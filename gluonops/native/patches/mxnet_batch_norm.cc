// MXNet's BatchNorm in training, computed by batch_norm.h instead of oneDNN. Compiled behind direct.cc, whose functions
// of MXNet it calls: see inside.cc.
//
// Inside oneDNN's function the threads wait for each other by spinning, for every block of planes. Beside one busy
// process per core that was more than half of a training step. The threads of pool.h wait for nobody.
//
// MXNet exports what gives an NDArray a layout of oneDNN's, but nothing that tells which one an NDArray has. So that is
// read where MXNet 1.9.1 stores it, after a check with an NDArray whose layout is known.
#include "../mxnet/registration.h"
#include "../isa.h"

#if __has_include(<mkldnn/oneapi/dnnl/dnnl_types.h>)   // MXNet has oneDNN, in the version of 1.9.1

#include <dmlc/strtonum.h>
#include <mkldnn/oneapi/dnnl/dnnl_types.h>
#include <mxnet/c_api.h>
#include <mxnet/ndarray.h>
#include <mxnet/op_attr_types.h>
#include <nnvm/op.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "batch_norm.h"
#include "../mxnet/symbols.h"

namespace gluonops {
namespace {

typedef std::vector<mxnet::NDArray> Arrays;
typedef std::vector<mxnet::OpReqType> Requests;

// The inputs and outputs of MXNet's two operators, and the dimensions of the data.
enum { DATA, WEIGHTS, OFFSETS };
enum { OUTPUT, AVERAGES, RSTDS };
enum {
    GRAD_OUT, SAVED_AVERAGES, SAVED_RSTDS, SAVED_DATA, SAVED_WEIGHTS, SAVED_OFFSETS, MOVING_AVERAGES, MOVING_VARIANCES
};
enum { IMAGES, PLANES, HEIGHT, WIDTH, NDIM };

// These are MXNet's. A memory descriptor of oneDNN's C++ interface is one of its C interface.
void *(*create_memory)(mxnet::NDArray *array, const dnnl_memory_desc_t &wanted);
void *(*get_stream)();
void (*submit)(void *stream, bool clean_up);
mxnet::FComputeEx forward_of_mxnet, backward_of_mxnet;

std::atomic<int64_t> calls{0};   // forward or backward, that were computed here

// The beginning of MXNet's NDArray::Chunk, the first member of an NDArray, and of its MKLDNNMemory.
struct Memory {
    std::shared_ptr<void> memory;
    dnnl_memory_desc_t description;
};

struct Chunk {
    mxnet::Storage::Handle storage;
    std::vector<mxnet::Storage::Handle> others;
    std::shared_ptr<Memory> memory;
};

const Chunk &chunk_of(const mxnet::NDArray &array) { return **reinterpret_cast<const Chunk *const *>(&array); }

// The description of a tensor: blocked by `lanes` planes, or plain if that is 1.
dnnl_memory_desc_t describe(const int64_t (&sizes)[NDIM], int64_t lanes)
{
    dnnl_memory_desc_t result;
    memset(&result, 0, sizeof result);
    result.ndims = NDIM;
    std::copy(sizes, sizes + NDIM, result.dims);
    std::copy(sizes, sizes + NDIM, result.padded_dims);
    result.data_type = dnnl_f32;
    result.format_kind = dnnl_blocked;
    dnnl_blocking_desc_t &blocking = result.format_desc.blocking;
    blocking.strides[WIDTH] = lanes;
    blocking.strides[HEIGHT] = lanes * sizes[WIDTH];
    blocking.strides[PLANES] = blocking.strides[HEIGHT] * sizes[HEIGHT];
    blocking.strides[IMAGES] = sizes[PLANES] * sizes[HEIGHT] * sizes[WIDTH];
    if (lanes > 1) {
        blocking.inner_nblks = 1;
        blocking.inner_blks[0] = lanes;
        blocking.inner_idxs[0] = PLANES;
    }
    return result;
}

bool are_equal(const dnnl_memory_desc_t &one, const dnnl_memory_desc_t &other)
{
    const dnnl_blocking_desc_t &mine = one.format_desc.blocking, &yours = other.format_desc.blocking;
    return one.ndims == NDIM && other.ndims == NDIM && one.data_type == other.data_type &&
           one.format_kind == other.format_kind && one.offset0 == other.offset0 &&
           one.extra.flags == other.extra.flags && std::equal(one.dims, one.dims + NDIM, other.dims) &&
           std::equal(one.padded_dims, one.padded_dims + NDIM, other.padded_dims) &&
           std::equal(one.padded_offsets, one.padded_offsets + NDIM, other.padded_offsets) &&
           std::equal(mine.strides, mine.strides + NDIM, yours.strides) && mine.inner_nblks == yours.inner_nblks &&
           (!mine.inner_nblks || (mine.inner_nblks == 1 && mine.inner_blks[0] == yours.inner_blks[0] &&
                                  mine.inner_idxs[0] == yours.inner_idxs[0]));
}

// Whether an NDArray is what Chunk and Memory say: one to which a layout has just been given.
bool is_as_expected()
{
    const int64_t sizes[NDIM] = {2, 32, 3, 5};
    const dnnl_memory_desc_t wanted = describe(sizes, 16);
    void *handle = nullptr;
    if (create(sizes, NDIM, mxnet::Context::kCPU, 0, false, mshadow::kFloat32, &handle))
        return false;
    mxnet::NDArray *const array = static_cast<mxnet::NDArray *>(handle);
    void *data = nullptr;
    bool result = !get_data(handle, &data) && is_plain(&chunk_of(*array)) && chunk_of(*array).storage.dptr == data;
    if (result) {
        const void *const memory = create_memory(array, wanted);
        const Memory *const found = chunk_of(*array).memory.get();
        result = memory && !is_plain(&chunk_of(*array)) && chunk_of(*array).storage.dptr == data && found &&
                 found->memory.get() == memory && are_equal(found->description, wanted);
        submit(get_stream(), true);
    }
    destroy(handle);
    return result;
}

// A tensor of images: where it is, and how it lies there.
struct Images {
    float *values;
    dnnl_memory_desc_t description;
    Planes size;
    std::unique_ptr<float[]> copy;   // where `values` are, if they are not where MXNet has them
};

bool read(const mxnet::NDArray &array, Images *images)
{
    if (array.storage_type() != mxnet::kDefaultStorage || array.dtype() != mshadow::kFloat32 ||
        array.shape().ndim() != NDIM || array.shape().Size() == 0)
        return false;
    int64_t sizes[NDIM];
    std::copy(array.shape().begin(), array.shape().end(), sizes);
    images->size = {sizes[IMAGES], sizes[PLANES], sizes[HEIGHT] * sizes[WIDTH], 1};
    const Chunk &chunk = chunk_of(array);
    if (is_plain(&chunk)) {
        images->description = describe(sizes, 1);
        images->values = reinterpret_cast<float *>(static_cast<char *>(chunk.storage.dptr) + array.byte_offset());
        return chunk.storage.dptr != nullptr;
    }
    for (const int64_t lanes : {8, 16}) {
        images->description = describe(sizes, lanes);
        images->size.lanes = lanes;
        if (sizes[PLANES] % lanes == 0 && are_equal(chunk.memory->description, images->description)) {
            images->values = static_cast<float *>(chunk.storage.dptr);
            return array.byte_offset() == 0;
        }
    }
    return false;
}

// Gives both of two tensors the layout of the one that is blocked. Returns false where MXNet has to do it.
bool match(Images *one, Images *other)
{
    if (are_equal(one->description, other->description))
        return true;
    Images *const plain = one->size.lanes == 1 ? one : other;
    const Images &blocked = plain == one ? *other : *one;
    if (plain->size.lanes != 1 || !std::equal(plain->description.dims, plain->description.dims + NDIM,
                                              blocked.description.dims))
        return false;
    plain->copy.reset(new float[size_t(plain->size.images * plain->size.planes * plain->size.positions)]);
    copy_to_blocks(blocked.size, plain->values, plain->copy.get());
    plain->values = plain->copy.get();
    plain->description = blocked.description;
    plain->size = blocked.size;
    return true;
}

// The memory of an output, in the layout of a tensor of the same shape; nullptr where MXNet has to do it.
float *write(const mxnet::NDArray &array, const Images &like)
{
    mxnet::NDArray *const output = const_cast<mxnet::NDArray *>(&array);
    if (array.dtype() != mshadow::kFloat32 || array.storage_type() != mxnet::kDefaultStorage ||
        !create_memory(output, like.description))
        return nullptr;
    submit(get_stream(), true);
    Images images;
    return read(array, &images) && are_equal(images.description, like.description) ? images.values : nullptr;
}

// The numbers of the planes; nullptr where MXNet has to do it.
float *numbers(const mxnet::NDArray &array, int64_t planes)
{
    void *data = nullptr;
    if (array.storage_type() != mxnet::kDefaultStorage || array.dtype() != mshadow::kFloat32 ||
        array.shape().Size() != size_t(planes) || !is_plain(&chunk_of(array)) ||
        get_data(const_cast<mxnet::NDArray *>(&array), &data))
        return nullptr;
    return static_cast<float *>(data);
}

// The attributes that matter here, with MXNet's defaults.
struct Settings {
    double epsilon = 1e-3f;
    float momentum = 0.9f;
    bool has_fixed_weights = true;
};

bool parse(const std::string &text, bool *value)
{
    const char *const names[] = {"0", "false", "False", "1", "true", "True"};
    for (int i = 0; i < 6; ++i)
        if (text == names[i]) {
            *value = i >= 3;
            return true;
        }
    return false;
}

template <typename T>
bool parse(const std::string &text, T *value)
{
    char *end = nullptr;
    *value = dmlc::ParseFloat<T, true>(text.c_str(), &end);
    return end != text.c_str() && !*end;
}

// Whether the call is one for this file.
bool read(const nnvm::NodeAttrs &attrs, Settings *settings)
{
    bool is_frozen = false, is_known = true;
    for (const auto &item : attrs.dict) {
        if (item.first == "eps")
            is_known &= parse(item.second, &settings->epsilon);
        else if (item.first == "momentum")
            is_known &= parse(item.second, &settings->momentum);
        else if (item.first == "fix_gamma")
            is_known &= parse(item.second, &settings->has_fixed_weights);
        else if (item.first == "use_global_stats")
            is_known &= parse(item.second, &is_frozen);
        else if (item.first == "axis")
            is_known &= item.second == "1";
    }
    return is_known && !is_frozen;
}

bool is_write(mxnet::OpReqType request) { return request == mxnet::kWriteTo || request == mxnet::kWriteInplace; }

bool forward(const nnvm::NodeAttrs &attrs, const Arrays &inputs, const Requests &requests, const Arrays &outputs)
{
    Settings settings;
    Images data;
    if (requests[OUTPUT] != mxnet::kWriteTo || !read(attrs, &settings) || !read(inputs[DATA], &data))
        return false;
    const int64_t planes = data.size.planes;
    float *const weights = numbers(inputs[WEIGHTS], planes);
    NormForward call;
    call.size = data.size;
    call.data = data.values;
    call.weights = settings.has_fixed_weights ? nullptr : weights;
    call.offsets = numbers(inputs[OFFSETS], planes);
    call.epsilon = settings.epsilon;
    call.averages = numbers(outputs[AVERAGES], planes);
    call.rstds = numbers(outputs[RSTDS], planes);
    if (!weights || !call.offsets || !call.averages || !call.rstds)
        return false;
    call.output = write(outputs[OUTPUT], data);
    if (!call.output)
        return false;
    // MXNet asks for the request of an output by the number of this input.
    if (settings.has_fixed_weights && is_write(requests[WEIGHTS]))
        std::fill(weights, weights + planes, 1.0f);
    norm_forward(call);
    return true;
}

void move(const Settings &settings, const NormBackward &call, float *averages, float *variances)
{
    const float rest = 1.0f - settings.momentum;
    for (int64_t i = 0; i < call.size.planes; ++i) {
        const double rstd = call.rstds[i];
        const float variance = float(1 / (rstd * rstd) - settings.epsilon);
        averages[i] = averages[i] * settings.momentum + call.averages[i] * rest;
        variances[i] = variances[i] * settings.momentum + variance * rest;
    }
}

void assign(const std::vector<float> &values, mxnet::OpReqType request, float *to)
{
    for (size_t i = 0; i < values.size() && request != mxnet::kNullOp; ++i)
        to[i] = request == mxnet::kAddTo ? to[i] + values[i] : values[i];
}

bool backward(const nnvm::NodeAttrs &attrs, const Arrays &inputs, const Requests &requests, const Arrays &outputs)
{
    Settings settings;
    Images grad_out, data;
    if (requests[DATA] != mxnet::kWriteTo || !read(attrs, &settings) || !read(inputs[GRAD_OUT], &grad_out) ||
        !read(inputs[SAVED_DATA], &data) || !match(&grad_out, &data))
        return false;
    const int64_t planes = data.size.planes;
    const float *const weights = numbers(inputs[SAVED_WEIGHTS], planes);
    float *const moving_averages = numbers(inputs[MOVING_AVERAGES], planes);
    float *const moving_variances = numbers(inputs[MOVING_VARIANCES], planes);
    float *const weight_gradient = numbers(outputs[WEIGHTS], planes);
    float *const offset_gradient = numbers(outputs[OFFSETS], planes);
    std::vector<float> of_weights(size_t(planes), 0.0f), of_offsets(size_t(planes), 0.0f);
    NormBackward call;
    call.size = data.size;
    call.gradient = grad_out.values;
    call.data = data.values;
    call.weights = settings.has_fixed_weights ? nullptr : weights;
    call.averages = numbers(inputs[SAVED_AVERAGES], planes);
    call.rstds = numbers(inputs[SAVED_RSTDS], planes);
    call.weight_gradient = of_weights.data();
    call.offset_gradient = of_offsets.data();
    if (!weights || !moving_averages || !moving_variances || !weight_gradient || !offset_gradient || !call.averages ||
        !call.rstds)
        return false;
    call.data_gradient = write(outputs[DATA], data);
    if (!call.data_gradient)
        return false;
    move(settings, call, moving_averages, moving_variances);
    norm_backward(call);
    if (settings.has_fixed_weights)   // MXNet overwrites it, whatever is requested
        std::fill(weight_gradient, weight_gradient + planes, 0.0f);
    else
        assign(of_weights, requests[WEIGHTS], weight_gradient);
    assign(of_offsets, requests[OFFSETS], offset_gradient);
    return true;
}

typedef bool (*Compute)(const nnvm::NodeAttrs &, const Arrays &, const Requests &, const Arrays &);

template <Compute compute, const mxnet::FComputeEx *of_mxnet>
void run(const nnvm::NodeAttrs &attrs, const mxnet::OpContext &context, const Arrays &inputs, const Requests &requests,
         const Arrays &outputs)
{
    static const bool is_possible = is_as_expected();
    if (is_possible && context.is_train && compute(attrs, inputs, requests, outputs))
        ++calls;
    else
        (*of_mxnet)(attrs, context, inputs, requests, outputs);
}

// All arguments of these functions are references. So a std::function of them is the same in both of libstdc++'s ABIs.
template <Compute compute, mxnet::FComputeEx *of_mxnet>
void replace(const char *name)
{
    nnvm::Op *const op = find_op(name);
    *of_mxnet = nnvm::Op::GetAttr<mxnet::FComputeEx>("FComputeEx<cpu>").get(op, nullptr);
    if (*of_mxnet)
        op->set_attr<mxnet::FComputeEx>("FComputeEx<cpu>", run<compute, of_mxnet>, PRIORITY);
}

}  // namespace

void replace_batch_norm(void *library)
{
    const char *const wanted = getenv("GLUONOPS_BATCH_NORM");
    if (wanted && !strcmp(wanted, "0"))
        return;
    if (!has_engine ||
        !resolve(library, "_ZN5mxnet7NDArray16CreateMKLDNNDataERKN4dnnl6memory4descE", &create_memory) ||
        !resolve(library, "_ZN5mxnet12MKLDNNStream3GetEv", &get_stream) ||
        !resolve(library, "_ZN5mxnet12MKLDNNStream6SubmitEb", &submit))
        return;
    replace<forward, &forward_of_mxnet>("BatchNorm");
    replace<backward, &backward_of_mxnet>("_backward_BatchNorm");
}

GLUONOPS_PUBLIC int64_t gluonops_batch_norm_calls() { return calls; }

}  // namespace gluonops

#else

namespace gluonops {

void replace_batch_norm(void *) {}
GLUONOPS_PUBLIC int64_t gluonops_batch_norm_calls() { return 0; }

}  // namespace gluonops

#endif
