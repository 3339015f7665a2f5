// iou_loss on the CPU: vectors with a box per lane. Bytes moved: forward two boxes and a loss, backward three boxes and
// a head gradient.
#include "generated/iou_loss.h"
#include "../_boxes/boxes.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

const int64_t BOX_BYTES = 64;   // a box takes as long as moving these bytes

// Returns the losses of the boxes from `first` on.
template <int KIND, typename T, typename Mask>
GLUONOPS_INLINE BoxLoss<typename Simd<T>::Vector> losses_at(const IouLossArgs<T> &args, int64_t first, Mask mask)
{
    typedef typename Simd<T>::Vector V;
    const V eps = Lanes<V>::all(LOSS_EPS);
    const bool is_center = args.format == IouLossFormat::Center;
    const BoxRow<V> row = load_boxes(args.data + 4 * first, mask);
    const BoxRow<V> other = load_boxes(args.truth + 4 * first, mask);
    return box_loss_of<IouLossKind>(KIND, BoxPair<V>(sides_of(row, is_center), sides_of(other, is_center), eps), eps);
}

// Calls visit(first, mask) for all boxes, a vector at a time, on several threads.
template <typename T, typename Visit>
void parallel_boxes(const IouLossArgs<T> &args, const Visit &visit)
{
    enum { LANES = Simd<T>::LANES };
    const int64_t count = args.count, vectors = (count + LANES - 1) / LANES;
    parallel_for(vectors, LANES * BOX_BYTES, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i * LANES;
            if (first + LANES <= count)
                visit(first, FullMask());
            else
                visit(first, PartialMask{count - first});
        }
    });
}

struct Forward {
    template <int KIND, typename T>
    static void run(const IouLossArgs<T> &args)
    {
        parallel_boxes(args, [=](int64_t first, auto mask) {
            store(args.output + first, losses_at<KIND>(args, first, mask).loss, mask);
        });
    }
};

struct Backward {
    template <int KIND, typename T>
    static void run(const IouLossArgs<T> &args)
    {
        const bool is_center = args.format == IouLossFormat::Center;
        parallel_boxes(args, [=](int64_t first, auto mask) {
            const auto grad_out = load(args.output_grad + first, mask);
            auto gradient = row_gradient(losses_at<KIND>(args, first, mask).gradient, is_center);
            for (int n = 0; n < 4; ++n)
                gradient.numbers[n] *= grad_out;
            store_boxes(args.data_grad + 4 * first, gradient, mask);
        });
    }
};

template <typename Pass, typename T>
void dispatch_kind(const IouLossArgs<T> &args)
{
    switch (args.kind) {
    case IouLossKind::Iou: return Pass::template run<IouLossKind::Iou>(args);
    case IouLossKind::Giou: return Pass::template run<IouLossKind::Giou>(args);
    case IouLossKind::Diou: return Pass::template run<IouLossKind::Diou>(args);
    default: return Pass::template run<IouLossKind::Ciou>(args);
    }
}

template <typename T>
void forward(const IouLossArgs<T> &args)
{
    dispatch_kind<Forward>(args);
}

template <typename T>
void backward(const IouLossArgs<T> &args)
{
    dispatch_kind<Backward>(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
