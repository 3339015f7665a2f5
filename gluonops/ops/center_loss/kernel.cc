// center_loss on the CPU. Bytes moved: forward the features and as many of the centres; backward the features twice,
// written once, and the centres read and written once.
//
// In backward the samples of every class are chained in their order, then each class adds up its own: what comes out
// does not depend on the number of threads.
#include "generated/center_loss.h"
#include "../../native/rows.h"

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
    int64_t *first, *next;             // memory for the chains: a class's first sample, and the one after a sample
};

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    T *output = static_cast<T *>(k.output);
    parallel_for(k.batch, 2 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t named = class_of(k.labels, row, k.classes);
            if (named == NO_CLASS) {
                put(output + row, not_a_number<A>());
                continue;
            }
            const T *x = data + row * features, *c = centers + named * features;
            put(output + row, row_sum<T>(features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                const auto distance = load(x + i, lanes, A(0)) - load(c + i, lanes, A(0));
                return distance * distance;
            }) / 2);
        }
    });
}

template <typename T>
void data_gradient(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    const T *heads = static_cast<const T *>(k.output_grad);
    T *grads = static_cast<T *>(k.data_grad);
    parallel_for(k.batch, 3 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t named = class_of(k.labels, row, k.classes);
            const A head = named == NO_CLASS ? not_a_number<A>() : get(heads + row);
            const T *x = data + row * features, *c = centers + (named == NO_CLASS ? 0 : named) * features;
            const bool found = named != NO_CLASS;
            write_row<false>(grads + row * features, features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                return found ? head * (load(x + i, lanes, A(0)) - load(c + i, lanes, A(0))) : all(head);
            });
        }
    });
}

template <bool PAST_CACHE, typename T>
void centers_gradient(const CenterLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossCall k = call;
    const int64_t features = k.features;
    const T *data = static_cast<const T *>(k.data), *centers = static_cast<const T *>(k.centers);
    const T *heads = static_cast<const T *>(k.output_grad);
    T *grads = static_cast<T *>(k.centers_grad);
    for (int64_t j = 0; j < k.classes; ++j)
        k.first[j] = LAST_SAMPLE;
    for (int64_t row = k.batch; row-- > 0;) {
        const int64_t named = class_of(k.labels, row, k.classes);
        if (named == NO_CLASS)
            continue;
        k.next[row] = k.first[named];
        k.first[named] = row;
    }
    parallel_for(k.classes, features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
            const int64_t first = k.first[j];
            const T *c = centers + j * features;
            write_row<PAST_CACHE>(grads + j * features, features, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
                auto sum = all(A(0));
                if (first == LAST_SAMPLE)
                    return sum;
                const auto center = load(c + i, lanes, A(0));
                for (int64_t row = first; row != LAST_SAMPLE; row = k.next[row])
                    sum += get(heads + row) * (center - load(data + row * features + i, lanes, A(0)));
                return sum;
            });
        }
        fence();
    });
}

template <typename T>
void backward(const CenterLossCall &call)
{
    data_gradient<T>(call);
    const RowSizes sizes = {call.classes, call.features, 1};
    if (past_cache<T>(sizes))
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
    call.labels = {tensors.label.data, tensors.label.type, false, 0};
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
