// box_iou on the CPU. Vectors run along the boxes of rhs, whose four numbers are first gathered into four planes each.
// Bytes moved: forward the output, backward twice the head gradient.
//
// Backward sums over rhs for every box of lhs, then over lhs for every vector of boxes of rhs; so the result does not
// depend on the number of threads.
#include "generated/box_iou.h"
#include "../_boxes/boxes.h"

namespace gluonops {

struct BoxIouCall {
    int type;
    int64_t sets, lhs_count, rhs_count;
    bool is_center;
    const void *lhs, *rhs;
    void *output;               // forward
    const void *output_grad;    // backward
    void *lhs_grad, *rhs_grad;
    double *planes;             // (sets, 4, rhs_count) of the type that is computed in, scratch memory
};

namespace GLUONOPS_TARGET {
namespace {

const int64_t PAIR_BYTES = 16;   // moving so many bytes takes as long as the gradient of a pair

template <bool CENTER, typename T>
struct Boxes {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const BoxIouCall &call;

    A *planes(int64_t set) const { return reinterpret_cast<A *>(call.planes) + set * 4 * call.rhs_count; }

    void gather_planes() const
    {
        const T *from = static_cast<const T *>(call.rhs);
        for (int64_t set = 0; set < call.sets; ++set)
            for (int64_t i = 0; i < call.rhs_count; ++i)
                for (int n = 0; n < 4; ++n)
                    planes(set)[n * call.rhs_count + i] = load_scalar(from + (set * call.rhs_count + i) * 4 + n);
    }

    // One box of lhs, in every lane.
    GLUONOPS_INLINE Sides<V> lhs_box(int64_t row) const
    {
        const T *from = static_cast<const T *>(call.lhs) + 4 * row;
        BoxRow<V> box;
        for (int n = 0; n < 4; ++n)
            box.numbers[n] = broadcast(load_scalar(from + n));
        return sides_of(box, CENTER);
    }

    // The boxes of rhs from `first` on, one per lane.
    template <typename Mask>
    GLUONOPS_INLINE Sides<V> rhs_boxes(int64_t set, int64_t first, Mask mask) const
    {
        BoxRow<V> boxes;
        for (int n = 0; n < 4; ++n)
            boxes.numbers[n] = load(planes(set) + n * call.rhs_count + first, mask, A(0));
        return sides_of(boxes, CENTER);
    }

    template <bool STREAMING>
    void iou_rows(int64_t begin, int64_t end) const
    {
        const int64_t count = call.rhs_count;
        for (int64_t row = begin; row < end; ++row) {
            const int64_t set = row / call.lhs_count;
            const Sides<V> box = lhs_box(row);
            write_row<STREAMING>(static_cast<T *>(call.output) + row * count, count,
                                 [&](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return BoxPair<V>(box, rhs_boxes(set, i, mask), Lanes<V>::all(TINY_AREA)).iou;
            });
        }
        store_fence();
    }

    // Adds the derivatives of head * IoU by the first box of each pair.
    GLUONOPS_INLINE static void add_gradient(Box<V> &sum, const BoxPair<V> &pair, V head)
    {
        const Box<V> by = iou_loss_of(pair).gradient;
        sum.x -= head * by.x;
        sum.y -= head * by.y;
        sum.w -= head * by.w;
        sum.h -= head * by.h;
    }

    void lhs_gradient(int64_t row) const
    {
        enum { LANES = Simd<T>::LANES };
        const int64_t count = call.rhs_count, set = row / call.lhs_count;
        const T *heads = static_cast<const T *>(call.output_grad) + row * count;
        const Sides<V> box = lhs_box(row);
        const V zero = broadcast(A(0));
        Box<V> sum = {zero, zero, zero, zero};
        const auto visit = [&](int64_t first, auto mask) GLUONOPS_LAMBDA {
            const BoxPair<V> pair(box, rhs_boxes(set, first, mask), Lanes<V>::all(TINY_AREA));
            add_gradient(sum, pair, load(heads + first, mask, A(0)));
        };
        int64_t first = 0;
        for (; first + LANES <= count; first += LANES)
            visit(first, FullMask());
        if (first < count)
            visit(first, PartialMask{count - first});

        const Box<A> total = {reduce_sum(sum.x), reduce_sum(sum.y), reduce_sum(sum.w), reduce_sum(sum.h)};
        const BoxRow<A> gradient = row_gradient(total, CENTER);
        for (int n = 0; n < 4; ++n)
            store_scalar(static_cast<T *>(call.lhs_grad) + 4 * row + n, gradient.numbers[n]);
    }

    template <typename Mask>
    GLUONOPS_INLINE void rhs_gradient(int64_t set, int64_t first, Mask mask) const
    {
        const Sides<V> boxes = rhs_boxes(set, first, mask);
        const V zero = broadcast(A(0));
        Box<V> sum = {zero, zero, zero, zero};
        for (int64_t row = set * call.lhs_count; row < (set + 1) * call.lhs_count; ++row) {
            const T *heads = static_cast<const T *>(call.output_grad) + row * call.rhs_count;
            const BoxPair<V> pair(lhs_box(row), boxes, Lanes<V>::all(TINY_AREA));
            add_gradient(sum, pair.exchanged(), load(heads + first, mask, A(0)));
        }
        T *grad = static_cast<T *>(call.rhs_grad) + (set * call.rhs_count + first) * 4;
        store_boxes(grad, row_gradient(sum, CENTER), mask);
    }

    void rhs_gradients(int64_t begin, int64_t end, int64_t vectors) const
    {
        enum { LANES = Simd<T>::LANES };
        for (int64_t i = begin; i < end; ++i) {
            const int64_t set = i / vectors, first = i % vectors * LANES, rest = call.rhs_count - first;
            if (rest >= LANES)
                rhs_gradient(set, first, FullMask());
            else
                rhs_gradient(set, first, PartialMask{rest});
        }
    }

    void forward() const
    {
        gather_planes();
        const int64_t rows = call.sets * call.lhs_count, row_bytes = call.rhs_count * int64_t(sizeof(T));
        const bool streaming = rows * row_bytes >= STREAMING_MIN_BYTES && row_bytes >= 512;
        const Boxes boxes = *this;
        parallel_for(rows, row_bytes, [=](int64_t begin, int64_t end) {
            if (streaming)
                boxes.template iou_rows<true>(begin, end);
            else
                boxes.template iou_rows<false>(begin, end);
        });
    }

    void backward() const
    {
        enum { LANES = Simd<T>::LANES };
        gather_planes();
        const Boxes boxes = *this;
        parallel_for(call.sets * call.lhs_count, call.rhs_count * PAIR_BYTES, [=](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row)
                boxes.lhs_gradient(row);
        });
        const int64_t vectors = (call.rhs_count + LANES - 1) / LANES;
        parallel_for(call.sets * vectors, call.lhs_count * LANES * PAIR_BYTES, [=](int64_t begin, int64_t end) {
            boxes.rhs_gradients(begin, end, vectors);
        });
    }
};

template <typename T>
void forward(const BoxIouCall &call)
{
    if (call.is_center)
        Boxes<true, T>{call}.forward();
    else
        Boxes<false, T>{call}.forward();
}

template <typename T>
void backward(const BoxIouCall &call)
{
    if (call.is_center)
        Boxes<true, T>{call}.backward();
    else
        Boxes<false, T>{call}.backward();
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline BoxIouCall adapt(const BoxIouAttrs &attrs, const BoxIouTensors &tensors, Workspace &memory)
{
    const std::vector<int64_t> &shape = tensors.lhs.shape();
    BoxIouCall call = {};
    call.type = tensors.lhs.type;
    call.sets = 1;
    for (size_t i = 0; i + 2 < shape.size(); ++i)
        call.sets *= shape[i];
    call.lhs_count = shape[shape.size() - 2];
    call.rhs_count = tensors.rhs.shape()[shape.size() - 2];
    call.is_center = attrs.format == BoxIouAttrs::Format::Center;
    call.lhs = tensors.lhs.data;
    call.rhs = tensors.rhs.data;
    call.output = tensors.output.data;
    call.output_grad = tensors.output_grad.data;
    call.lhs_grad = tensors.lhs_grad.data;
    call.rhs_grad = tensors.rhs_grad.data;
    call.planes = memory.zeros<double>(call.sets * 4 * call.rhs_count);
    return call;
}

}  // namespace gluonops
