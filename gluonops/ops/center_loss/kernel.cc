// center_loss on the CPU. Bytes moved: forward the features and as many of the centres; backward the features twice,
// written once, and the centres read and written once.
//
// Backward first links the samples of each class into a list, in their order; then each class adds up its own samples.
// So the result does not depend on the number of threads.
#include "generated/center_loss.h"
#include "../../native/simd/rows.h"
#include "../_labels/labels.h"

namespace gluonops {

const int64_t LAST_SAMPLE = -1;

struct CenterLossCall {
    int type;
    int64_t batch, classes, features;
    Labels labels;
    const void *data, *centers;
    void *output;                      // forward
    const void *output_grad;           // backward
    void *data_grad, *centers_grad;
    int64_t *first, *next;             // the lists: a class's first sample, and the sample after a sample
};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const CenterLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall call = given;
    const int64_t features = call.features;
    const T *data = static_cast<const T *>(call.data), *centers = static_cast<const T *>(call.centers);
    T *output = static_cast<T *>(call.output);
    parallel_for(call.batch, 2 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t sample = begin; sample < end; ++sample) {
            const int64_t class_id = class_of(call.labels, sample, call.classes);
            if (class_id == NO_CLASS) {
                store_scalar(output + sample, not_a_number<A>());
                continue;
            }
            const T *x = data + sample * features, *center = centers + class_id * features;
            const A squared_distance = row_sum<T>(features, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto difference = load(x + i, mask, A(0)) - load(center + i, mask, A(0));
                return difference * difference;
            });
            store_scalar(output + sample, squared_distance / 2);
        }
    });
}

template <typename T>
void data_gradient(const CenterLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall call = given;
    const int64_t features = call.features;
    const T *data = static_cast<const T *>(call.data), *centers = static_cast<const T *>(call.centers);
    const T *heads = static_cast<const T *>(call.output_grad);
    T *grads = static_cast<T *>(call.data_grad);
    parallel_for(call.batch, 3 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t sample = begin; sample < end; ++sample) {
            const int64_t class_id = class_of(call.labels, sample, call.classes);
            const bool valid = class_id != NO_CLASS;
            const A head = valid ? load_scalar(heads + sample) : not_a_number<A>();
            const T *x = data + sample * features, *center = centers + (valid ? class_id : 0) * features;
            write_row<false>(grads + sample * features, features, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return valid ? head * (load(x + i, mask, A(0)) - load(center + i, mask, A(0))) : broadcast(head);
            });
        }
    });
}

// Links the samples of each class, in their order.
void link_samples(const CenterLossCall &call)
{
    for (int64_t class_id = 0; class_id < call.classes; ++class_id)
        call.first[class_id] = LAST_SAMPLE;
    for (int64_t sample = call.batch; sample-- > 0;) {
        const int64_t class_id = class_of(call.labels, sample, call.classes);
        if (class_id == NO_CLASS)
            continue;
        call.next[sample] = call.first[class_id];
        call.first[class_id] = sample;
    }
}

template <bool STREAMING, typename T>
void centers_gradient(const CenterLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall call = given;
    const int64_t features = call.features;
    const T *data = static_cast<const T *>(call.data), *centers = static_cast<const T *>(call.centers);
    const T *heads = static_cast<const T *>(call.output_grad);
    T *grads = static_cast<T *>(call.centers_grad);
    link_samples(call);
    parallel_for(call.classes, features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t class_id = begin; class_id < end; ++class_id) {
            const int64_t first = call.first[class_id];
            const T *center_row = centers + class_id * features;
            write_row<STREAMING>(grads + class_id * features, features, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                auto sum = broadcast(A(0));
                if (first == LAST_SAMPLE)
                    return sum;
                const auto center = load(center_row + i, mask, A(0));
                for (int64_t sample = first; sample != LAST_SAMPLE; sample = call.next[sample]) {
                    const auto x = load(data + sample * features + i, mask, A(0));
                    sum += load_scalar(heads + sample) * (center - x);
                }
                return sum;
            });
        }
        store_fence();
    });
}

template <typename T>
void backward(const CenterLossCall &call)
{
    data_gradient<T>(call);
    const RowSizes sizes = {call.classes, call.features, 1};
    if (use_streaming_stores<T>(sizes))
        centers_gradient<true, T>(call);
    else
        centers_gradient<false, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline CenterLossCall adapt(const CenterLossAttrs &, const CenterLossTensors &tensors, Workspace &memory)
{
    CenterLossCall call = {};
    call.type = tensors.data.type;
    call.batch = tensors.data.shape()[0];
    call.classes = tensors.centers.shape()[0];
    call.features = tensors.data.shape()[1];
    call.labels = {{tensors.label.data, tensors.label.type}, false, 0};
    call.data = tensors.data.data;
    call.centers = tensors.centers.data;
    call.output = tensors.output.data;
    if (tensors.backward) {
        call.output_grad = tensors.output_grad.data;
        call.data_grad = tensors.data_grad.data;
        call.centers_grad = tensors.centers_grad.data;
        call.first = memory.zeros<int64_t>(call.classes);
        call.next = memory.zeros<int64_t>(call.batch);
    }
    return call;
}

}  // namespace gluonops
