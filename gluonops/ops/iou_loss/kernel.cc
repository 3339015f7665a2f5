// iou_loss on the CPU: vectors with a box per lane. Bytes moved: forward two boxes and a loss, backward three boxes and
// a head gradient.
#include "generated/iou_loss.h"
#include "../_boxes/boxes.h"

namespace gluonops {

struct IouLossCall {
    int type;
    int64_t count;              // of boxes
    int kind;
    bool is_center;
    const void *data, *truth;
    void *output;               // forward
    const void *output_grad;    // backward
    void *data_grad;
};

namespace GLUONOPS_TARGET {
namespace {

const int64_t BOX_BYTES = 64;   // moving so many bytes takes as long as a box

// The losses of the boxes from `first` on.
template <int KIND, typename T, typename Mask>
GLUONOPS_INLINE BoxLoss<typename Simd<T>::Vector> losses_at(const IouLossCall &call, int64_t first, Mask mask)
{
    typedef typename Simd<T>::Vector V;
    const V eps = Lanes<V>::all(LOSS_EPS);
    const BoxRow<V> row = load_boxes(static_cast<const T *>(call.data) + 4 * first, mask);
    const BoxRow<V> other = load_boxes(static_cast<const T *>(call.truth) + 4 * first, mask);
    return box_loss_of(KIND, BoxPair<V>(sides_of(row, call.is_center), sides_of(other, call.is_center), eps), eps);
}

// Calls visit(first, mask) for all boxes, a vector at a time, on several threads.
template <typename T, typename Visit>
void for_each_vector(const IouLossCall &call, const Visit &visit)
{
    enum { LANES = Simd<T>::LANES };
    const int64_t count = call.count, vectors = (count + LANES - 1) / LANES;
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
    static void run(const IouLossCall &given)
    {
        const IouLossCall call = given;
        for_each_vector<T>(call, [=](int64_t first, auto mask) {
            store(static_cast<T *>(call.output) + first, losses_at<KIND, T>(call, first, mask).loss, mask);
        });
    }
};

struct Backward {
    template <int KIND, typename T>
    static void run(const IouLossCall &given)
    {
        typedef typename Simd<T>::Scalar A;
        const IouLossCall call = given;
        for_each_vector<T>(call, [=](int64_t first, auto mask) {
            const auto head = load(static_cast<const T *>(call.output_grad) + first, mask, A(0));
            auto gradient = row_gradient(losses_at<KIND, T>(call, first, mask).gradient, call.is_center);
            for (int n = 0; n < 4; ++n)
                gradient.numbers[n] *= head;
            store_boxes(static_cast<T *>(call.data_grad) + 4 * first, gradient, mask);
        });
    }
};

template <typename Pass, typename T>
void dispatch_kind(const IouLossCall &call)
{
    switch (call.kind) {
    case IOU_LOSS: return Pass::template run<IOU_LOSS, T>(call);
    case GIOU_LOSS: return Pass::template run<GIOU_LOSS, T>(call);
    case DIOU_LOSS: return Pass::template run<DIOU_LOSS, T>(call);
    default: return Pass::template run<CIOU_LOSS, T>(call);
    }
}

template <typename T>
void forward(const IouLossCall &call)
{
    dispatch_kind<Forward, T>(call);
}

template <typename T>
void backward(const IouLossCall &call)
{
    dispatch_kind<Backward, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline IouLossCall adapt(const IouLossAttrs &attrs, const IouLossTensors &tensors, Workspace &)
{
    IouLossCall call = {};
    call.type = tensors.data.type;
    call.count = tensors.data.size() / 4;
    call.kind = int(attrs.kind);
    call.is_center = attrs.format == IouLossAttrs::Format::Center;
    call.data = tensors.data.data;
    call.truth = tensors.truth.data;
    call.output = tensors.output.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    return call;
}

}  // namespace gluonops
