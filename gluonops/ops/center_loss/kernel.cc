// center_loss on the CPU. Bytes moved: forward the features and as many of the centres; backward the features twice,
// written once, and the centres read and written once.
//
// Backward first links the samples of each class into a list, in their order; then each class adds up its own samples.
// So the result does not depend on the number of threads.
#include "generated/center_loss.h"
#include "../../native/simd/rows.h"
#include "../_labels/labels.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

const int64_t LAST_SAMPLE = -1;

// Calls body(sample, valid, x, center) for every sample, on several threads: whether it has a class, its features, and
// the centre of its class. The kernel reads and writes `rows` rows of features for each sample.
template <typename T, typename Body>
void for_each_sample(const CenterLossArgs<T> &args, int64_t rows, const Body &body)
{
    const Labels labels = {args.label, {}};
    parallel_for_each(args.batch, rows * args.features * int64_t(sizeof(T)), [=](int64_t sample) {
        const int64_t class_id = class_of(labels, sample, args.classes);
        const bool valid = class_id != NO_CLASS;
        body(sample, valid, args.data + sample * args.features, args.centers + (valid ? class_id : 0) * args.features);
    });
}

template <typename T>
void forward(const CenterLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    for_each_sample(args, 2, [=](int64_t sample, bool valid, const T *x, const T *center) {
        const A squared_distance = row_sum<T>(valid ? args.features : 0, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto difference = load(x + i, mask) - load(center + i, mask);
            return difference * difference;
        });
        store_scalar(args.output + sample, valid ? squared_distance / 2 : not_a_number<A>());
    });
}

template <typename T>
void data_gradient(const CenterLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    for_each_sample(args, 3, [=](int64_t sample, bool valid, const T *x, const T *center) {
        const A grad_out = valid ? load_scalar(args.output_grad + sample) : not_a_number<A>();
        T *to = args.data_grad + sample * args.features;
        write_row(to, args.features, false, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return valid ? grad_out * (load(x + i, mask) - load(center + i, mask)) : broadcast(grad_out);
        });
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
void centers_gradient(const CenterLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const RowSizes centers = {args.classes, args.features, 1};
    const bool streaming = use_streaming_stores<T>(centers);
    link_samples(args);
    parallel_rows(centers, sizeof(T), [=](int64_t class_id) {
        const int64_t first = args.first[class_id], features = args.features;
        const T *data = args.data, *center_row = args.centers + class_id * features, *output_grad = args.output_grad;
        T *to = args.centers_grad + class_id * features;
        if (first == LAST_SAMPLE) {
            write_row(to, features, streaming, [](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(A(0)); });
            return;
        }
        const int64_t *next = args.next;
        write_row(to, features, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            GrowingSum<typename Simd<T>::Vector> sum;
            const auto center = load(center_row + i, mask);
            for (int64_t sample = first; sample != LAST_SAMPLE; sample = next[sample]) {
                const auto x = load(data + sample * features + i, mask);
                sum.add(load_scalar(output_grad + sample) * (center - x));
            }
            return sum.result();
        });
    });
}

template <typename T>
void backward(const CenterLossArgs<T> &args)
{
    data_gradient(args);
    centers_gradient(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
