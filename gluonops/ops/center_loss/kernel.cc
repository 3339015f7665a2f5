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

namespace GLUONOPS_TARGET {
namespace {

template <typename T>
void forward(const CenterLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossArgs<T> args = given;
    const Labels labels = {args.label, {}};
    const int64_t features = args.features;
    const T *data = args.data, *centers = args.centers;
    T *output = args.output;
    parallel_for(args.batch, 2 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t sample = begin; sample < end; ++sample) {
            const int64_t class_id = class_of(labels, sample, args.classes);
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
void data_gradient(const CenterLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossArgs<T> args = given;
    const Labels labels = {args.label, {}};
    const int64_t features = args.features;
    const T *data = args.data, *centers = args.centers, *heads = args.output_grad;
    T *grads = args.data_grad;
    parallel_for(args.batch, 3 * features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t sample = begin; sample < end; ++sample) {
            const int64_t class_id = class_of(labels, sample, args.classes);
            const bool valid = class_id != NO_CLASS;
            const A head = valid ? load_scalar(heads + sample) : not_a_number<A>();
            const T *x = data + sample * features, *center = centers + (valid ? class_id : 0) * features;
            write_row(grads + sample * features, features, false, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return valid ? head * (load(x + i, mask, A(0)) - load(center + i, mask, A(0))) : broadcast(head);
            });
        }
    });
}

// Links the samples of each class, in their order.
template <typename T>
void link_samples(const CenterLossArgs<T> &args)
{
    const Labels labels = {args.label, {}};
    for (int64_t class_id = 0; class_id < args.classes; ++class_id)
        args.first[class_id] = LAST_SAMPLE;
    for (int64_t sample = args.batch; sample-- > 0;) {
        const int64_t class_id = class_of(labels, sample, args.classes);
        if (class_id == NO_CLASS)
            continue;
        args.next[sample] = args.first[class_id];
        args.first[class_id] = sample;
    }
}

template <typename T>
void centers_gradient(const CenterLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const CenterLossArgs<T> args = given;
    const int64_t features = args.features;
    const T *data = args.data, *centers = args.centers, *heads = args.output_grad;
    T *grads = args.centers_grad;
    const bool streaming = use_streaming_stores<T>(RowSizes{args.classes, features, 1});
    link_samples(args);
    parallel_for(args.classes, features * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t class_id = begin; class_id < end; ++class_id) {
            const int64_t first = args.first[class_id];
            const T *center_row = centers + class_id * features;
            T *grad = grads + class_id * features;
            if (first == LAST_SAMPLE) {
                write_row(grad, features, streaming, [](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(A(0)); });
                continue;
            }
            write_row(grad, features, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                auto sum = broadcast(A(0));
                const auto center = load(center_row + i, mask, A(0));
                for (int64_t sample = first; sample != LAST_SAMPLE; sample = args.next[sample]) {
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
void backward(const CenterLossArgs<T> &args)
{
    data_gradient(args);
    centers_gradient(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
