// Computes small calls outside of graphs in the thread that asks for them. inside.cc includes this file. Direct calls
// stay because without them a small net of dense layers that is not hybridized takes 12 to 18 % longer for one sample.
//
// MXNet hands such a call to a thread of its engine. That takes longer than a small tensor's computation, and far
// longer where other processes want the processors. torch and onnxruntime compute in the calling thread.
//
// What MXNet has in public is enough. An asynchronous function that is pushed to the engine runs in the thread that
// pushes it, if the variables that it reads are ready. So it is pushed with the inputs as variables, and computes at
// once if it runs in that thread. If it runs later, in another one, it does nothing.
#include <mxnet/c_api.h>
#include <mxnet/engine.h>
#include <mxnet/ndarray.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../kernel.h"
#include "../pool.h"
#include "../isa.h"
#include "registration.h"
#include "symbols.h"

namespace gluonops {

// The shapes and the types of the tensors of a call.
struct Signature {
    PartialShapes shapes;
    std::vector<int> types;

    explicit Signature(size_t count) : shapes(count), types(count, -1) {}

    bool operator==(const Signature &other) const { return types == other.types && shapes == other.shapes; }

    int64_t bytes() const
    {
        int64_t sum = 0;
        for (size_t i = 0; i < types.size(); ++i) {
            int64_t bytes = size_of(types[i]);
            for (const int64_t size : shapes[i].sizes)
                bytes *= size;
            sum += bytes;
        }
        return sum;
    }
};

namespace {

// The inputs and outputs of a call together. A larger one takes a millisecond or so, in which the calling thread may
// prepare the next one.
const int64_t MOST_BYTES = 4 << 20;

// MXNet's functions, and whether an NDArray's memory is in plain layout. That one asks the first member of an NDArray.
decltype(&MXEnginePushAsyncND) push;
decltype(&MXAutogradIsRecording) ask_recording;
decltype(&MXNDArrayGetShapeEx64) get_shape;
decltype(&MXNDArrayGetDType) get_type;
decltype(&MXNDArrayGetStorageType) get_storage;
decltype(&MXNDArrayGetContext) get_context;
decltype(&MXNDArrayGetData) get_data;
decltype(&MXNDArrayCreateEx64) create;
decltype(&MXNDArrayFree) destroy;
decltype(&MXGetLastError) last_error;
bool (*is_plain)(const void *chunk);
bool has_engine = false;

thread_local std::string error_text;

void check(int failure)
{
    if (failure)
        throw std::runtime_error(last_error());
}

bool is_in_plain_layout(void *array) { return is_plain(*static_cast<void *const *>(array)); }

bool is_recording()
{
    bool recording = true;
    check(ask_recording(&recording));
    return recording;
}

// Reads what an NDArray is. Returns whether it is dense, in the processor's memory, and has elements.
bool read(void *array, PartialShape *shape, int *type)
{
    int device = 0, number = 0, storage = 0, ndim = 0;
    const int64_t *sizes = nullptr;
    check(get_context(array, &device, &number));
    check(get_storage(array, &storage));
    check(get_shape(array, &ndim, &sizes));
    if (device != mxnet::Context::kCPU || number != 0 || storage != mxnet::kDefaultStorage || ndim < 1)
        return false;
    check(get_type(array, type));
    shape->has_ndim = true;
    shape->sizes.assign(sizes, sizes + ndim);
    for (const int64_t size : shape->sizes)
        if (size < 1)
            return false;
    return true;
}

View view(void *array, const PartialShape &shape, int type)
{
    void *data = nullptr;
    check(get_data(array, &data));
    return {data, type, &shape.sizes};
}

// New NDArrays, which are destroyed again unless they are given away.
class Outputs {
 public:
    explicit Outputs(const Signature &signature)
    {
        for (size_t i = 0; i < signature.types.size(); ++i) {
            const std::vector<int64_t> &sizes = signature.shapes[i].sizes;
            void *array = nullptr;
            check(create(sizes.data(), int(sizes.size()), mxnet::Context::kCPU, 0, false, signature.types[i], &array));
            arrays_.push_back(array);
        }
    }
    Outputs(const Outputs &) = delete;
    ~Outputs()
    {
        for (void *const array : arrays_)
            destroy(array);
    }

    void *operator[](size_t i) const { return arrays_[i]; }

    void give(void **handles)
    {
        std::copy(arrays_.begin(), arrays_.end(), handles);
        arrays_.clear();
    }

 private:
    std::vector<void *> arrays_;
};

}  // namespace

// NOT_NOW means that the engine has to compute, because the inputs are not computed yet, are large or lie elsewhere, or
// because the call is recorded.
enum Answer { COMPUTED, NOT_NOW, REFUSED };

// An operator with its attributes, parsed.
class PreparedCall {
 public:
    PreparedCall(const Registration &operation, const AnyAttrs &attrs) : operation(operation), attrs(attrs) {}
    PreparedCall(const PreparedCall &) = delete;

    // Returns the outputs for these inputs. Throws a std::runtime_error if the inputs are not valid. Most calls have
    // the inputs of the one before. Nobody waits for the lock: a forked process may have it from a thread of its
    // parent.
    std::shared_ptr<const Signature> infer(const Signature &inputs)
    {
        const std::unique_lock<std::mutex> hold(lock_, std::try_to_lock);
        if (!hold)
            return new_outputs(inputs);
        if (!last_outputs_ || !(last_inputs_ == inputs)) {
            last_outputs_ = nullptr;
            last_inputs_ = inputs;
            last_outputs_ = new_outputs(inputs);
        }
        return last_outputs_;
    }

    const Registration &operation;
    const AnyAttrs attrs;

 private:
    std::shared_ptr<const Signature> new_outputs(Signature inputs) const
    {
        const auto outputs_of_call = std::make_shared<Signature>(operation.outputs);
        infer_type(operation.op, attrs, &inputs.types, &outputs_of_call->types);
        infer_shape(operation.op, attrs, &inputs.shapes, &outputs_of_call->shapes);
        return outputs_of_call;
    }

    std::mutex lock_;
    Signature last_inputs_{0};
    std::shared_ptr<const Signature> last_outputs_;
};

namespace {

// Computes, from inputs that are ready. Returns false where the engine has to do it.
bool compute(PreparedCall *call, const Signature &inputs, void **tensors)
{
    const Registration &operation = call->operation;
    for (size_t i = 0; i < operation.inputs; ++i)
        if (!is_in_plain_layout(tensors[i]))
            return false;
    const std::shared_ptr<const Signature> outputs_to_make = call->infer(inputs);
    if (inputs.bytes() + outputs_to_make->bytes() > MOST_BYTES)
        return false;
    Outputs outputs(*outputs_to_make);
    std::vector<View> read(operation.inputs), written(operation.outputs);
    for (size_t i = 0; i < read.size(); ++i)
        read[i] = view(tensors[i], inputs.shapes[i], inputs.types[i]);
    for (size_t i = 0; i < written.size(); ++i)
        written[i] = view(outputs[i], outputs_to_make->shapes[i], outputs_to_make->types[i]);
    const DirectCall in_this_thread;
    run_forward(operation.op, call->attrs, read, written);
    outputs.give(tensors + operation.inputs);
    return true;
}

// An attempt whose input is not ready costs some microseconds. In a chain of layers that holds for one call after the
// other. So after each such attempt in a row, the thread leaves more of its next calls to the engine at once.
class Patience {
 public:
    bool is_exhausted()
    {
        if (left_ == 0)
            return false;
        --left_;
        return true;
    }

    void note(bool was_ready)
    {
        pause_ = was_ready ? 0 : std::min(2 * pause_ + 1, LONGEST);
        left_ = pause_;
    }

 private:
    static constexpr int LONGEST = 31;
    int pause_ = 0, left_ = 0;
};

// What the pushed function knows. It may run when the call that has pushed it is over. Then it reads nothing of the
// call.
struct Pushed {
    std::atomic<int> owners{2};   // the call and MXNet
    const std::thread::id thread = std::this_thread::get_id();
    PreparedCall *const call;
    const Signature &inputs;
    void **const tensors;
    bool is_over = false;   // The call has ended, in that thread.
    bool was_ready = false;
    Answer answer = NOT_NOW;
    std::string error;

    Pushed(PreparedCall *call, const Signature &inputs, void **tensors)
        : call(call), inputs(inputs), tensors(tensors)
    {
    }
};

void leave(Pushed *pushed)
{
    if (--pushed->owners == 0)
        delete pushed;
}

void run(void *, void *on_complete, void *parameter)
{
    Pushed &pushed = *static_cast<Pushed *>(parameter);
    if (pushed.thread == std::this_thread::get_id() && !pushed.is_over) {
        pushed.was_ready = true;
        try {
            pushed.answer = compute(pushed.call, pushed.inputs, pushed.tensors) ? COMPUTED : NOT_NOW;
        } catch (const std::runtime_error &error) {
            pushed.answer = REFUSED;
            pushed.error = error.what();
        }
    }
    (*static_cast<mxnet::engine::CallbackOnComplete *>(on_complete))();
}

void forget(void *parameter) { leave(static_cast<Pushed *>(parameter)); }

// Reads what the inputs are. Returns whether they are small, and whether the call is one that this file computes.
bool read_inputs(const Registration &operation, void *const *tensors, Signature *inputs)
{
    if (!has_engine || is_recording())
        return false;
    for (size_t i = 0; i < operation.inputs; ++i)
        if (!read(tensors[i], &inputs->shapes[i], &inputs->types[i]))
            return false;
    return inputs->bytes() <= MOST_BYTES;
}

}  // namespace

void find_engine(void *library)
{
    has_engine = resolve(library, "MXEnginePushAsyncND", &push) &&
                 resolve(library, "MXAutogradIsRecording", &ask_recording) &&
                 resolve(library, "MXNDArrayGetShapeEx64", &get_shape) &&
                 resolve(library, "MXNDArrayGetDType", &get_type) &&
                 resolve(library, "MXNDArrayGetStorageType", &get_storage) &&
                 resolve(library, "MXNDArrayGetContext", &get_context) &&
                 resolve(library, "MXNDArrayGetData", &get_data) &&
                 resolve(library, "MXNDArrayCreateEx64", &create) &&
                 resolve(library, "MXNDArrayFree", &destroy) &&
                 resolve(library, "MXGetLastError", &last_error) &&
                 resolve(library, "_ZNK5mxnet7NDArray5Chunk9IsDefaultEv", &is_plain);
}

// Returns the operator of this library that has this name in graphs, with attributes that are parsed here once. Returns
// nullptr if there is no such operator or a value is not valid, and gluonops_call_error() then says why.
// gluonops_forget_call() ends the prepared call.
GLUONOPS_PUBLIC PreparedCall *gluonops_prepare_call(const char *graph_name, int attributes, const char *const *names,
                                                    const char *const *texts)
{
    Texts pairs;
    for (int i = 0; i < attributes; ++i)
        pairs.emplace_back(names[i], texts[i]);
    for (const Registration *each = Registration::first; each; each = each->next)
        if (!strcmp(each->graph_name, graph_name))
            try {
                return new PreparedCall(*each, parse(each->op, pairs));
            } catch (const std::runtime_error &failure) {
                error_text = failure.what();
                return nullptr;
            }
    error_text = std::string("gluonops: the library has no operator ") + graph_name;
    return nullptr;
}

GLUONOPS_PUBLIC void gluonops_forget_call(PreparedCall *call) { delete call; }

// Computes the outputs, which are new NDArrays, if the inputs are ready. It does not wait for them. `tensors` are
// handles: the inputs, and behind them room for the outputs. Without what find_engine() finds, every answer is NOT_NOW.
GLUONOPS_PUBLIC Answer gluonops_call(PreparedCall *call, void **tensors)
{
    static thread_local Patience patience;
    const Registration &operation = call->operation;
    try {
        Signature inputs(operation.inputs);
        if (!read_inputs(operation, tensors, &inputs) || patience.is_exhausted())
            return NOT_NOW;
        Pushed *const pushed = new Pushed(call, inputs, tensors);
        const mxnet::Context context = mxnet::Context::CPU();
        const mxnet::FnProperty property = mxnet::FnProperty::kAsync;
        check(push(run, pushed, forget, &context, tensors, int(operation.inputs), nullptr, 0, &property, 0,
                   operation.graph_name, false));
        pushed->is_over = true;
        patience.note(pushed->was_ready);
        error_text = pushed->error;
        const Answer answer = pushed->answer;
        leave(pushed);
        return answer;
    } catch (const std::runtime_error &failure) {
        error_text = failure.what();
        return REFUSED;
    }
}

// Returns why the thread's last gluonops_prepare_call() gave nothing, or why the answer to its last call was REFUSED.
GLUONOPS_PUBLIC const char *gluonops_call_error() { return error_text.c_str(); }

}  // namespace gluonops
