// box_iou on the CPU. Vectors run along the boxes of rhs, whose four numbers are first gathered into four planes each.
// Bytes moved: forward the output, backward twice the head gradient.
//
// Backward sums over rhs for every box of lhs, then over lhs for every vector of boxes of rhs; so the result does not
// depend on the number of threads.
#include "generated/box_iou.h"
#include "../../native/simd/rows.h"
#include "../_boxes/boxes.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

const int64_t PAIR_BYTES = 16;   // the gradient of a pair takes as long as moving these bytes

template <bool CENTER, typename T>
struct Boxes {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const BoxIouArgs<T> &args;

    A *planes(int64_t set) const { return args.planes + set * 4 * args.rhs_boxes; }

    void gather_planes() const
    {
        const T *from = args.rhs;
        for (int64_t set = 0; set < args.sets; ++set)
            for (int64_t i = 0; i < args.rhs_boxes; ++i)
                for (int n = 0; n < 4; ++n)
                    planes(set)[n * args.rhs_boxes + i] = load_scalar(from + (set * args.rhs_boxes + i) * 4 + n);
    }

    // One box of lhs, in every lane.
    GLUONOPS_INLINE Sides<V> lhs_box(int64_t row) const
    {
        const T *from = args.lhs + 4 * row;
        BoxRow<V> box;
        for (int n = 0; n < 4; ++n)
            box.numbers[n] = broadcast(load_scalar(from + n));
        return sides_of(box, CENTER);
    }

    // Returns the boxes of rhs from `first` on, one per lane.
    template <typename Mask>
    GLUONOPS_INLINE Sides<V> rhs_boxes(int64_t set, int64_t first, Mask mask) const
    {
        BoxRow<V> boxes;
        for (int n = 0; n < 4; ++n)
            boxes.numbers[n] = load(planes(set) + n * args.rhs_boxes + first, mask);
        return sides_of(boxes, CENTER);
    }

    void iou_row(int64_t row, bool streaming) const
    {
        const int64_t count = args.rhs_boxes, set = row / args.lhs_boxes;
        const Sides<V> box = lhs_box(row);
        write_row(args.output + row * count, count, streaming, [&](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return BoxPair<V>(box, rhs_boxes(set, i, mask), Lanes<V>::all(TINY_AREA)).iou;
        });
    }

    // Adds the derivatives of grad_out * IoU by the first box of each pair.
    GLUONOPS_INLINE static void add_gradient(V (&sums)[4], const BoxPair<V> &pair, V grad_out)
    {
        const Box<V> by = iou_loss_of(pair).gradient;
        sums[0] -= grad_out * by.x;
        sums[1] -= grad_out * by.y;
        sums[2] -= grad_out * by.w;
        sums[3] -= grad_out * by.h;
    }

    void lhs_gradient(int64_t row) const
    {
        const int64_t count = args.rhs_boxes, set = row / args.lhs_boxes;
        const T *grad_out = args.output_grad + row * count;
        const Sides<V> box = lhs_box(row);
        V sums[4];
        sum_in_blocks<ROW_SUM_BLOCK>(count, sums, [&](int64_t begin, int64_t end, V (&sums)[4]) GLUONOPS_LAMBDA {
            for_each_vector<T>(end - begin, [&](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const BoxPair<V> pair(box, rhs_boxes(set, begin + i, mask), Lanes<V>::all(TINY_AREA));
                add_gradient(sums, pair, load(grad_out + begin + i, mask));
            });
        });
        const Box<A> total = {reduce_sum(sums[0]), reduce_sum(sums[1]), reduce_sum(sums[2]), reduce_sum(sums[3])};
        const BoxRow<A> gradient = row_gradient(total, CENTER);
        for (int n = 0; n < 4; ++n)
            store_scalar(args.lhs_grad + 4 * row + n, gradient.numbers[n]);
    }

    template <typename Mask>
    GLUONOPS_INLINE void rhs_gradient(int64_t set, int64_t first, Mask mask) const
    {
        const Sides<V> boxes = rhs_boxes(set, first, mask);
        V sums[4];
        sum_in_blocks(args.lhs_boxes, sums, [&](int64_t begin, int64_t end, V (&sums)[4]) GLUONOPS_LAMBDA {
            for (int64_t row = set * args.lhs_boxes + begin; row < set * args.lhs_boxes + end; ++row) {
                const T *grad_out = args.output_grad + row * args.rhs_boxes;
                const BoxPair<V> pair(lhs_box(row), boxes, Lanes<V>::all(TINY_AREA));
                add_gradient(sums, pair.exchanged(), load(grad_out + first, mask));
            }
        });
        const Box<V> sum = {sums[0], sums[1], sums[2], sums[3]};
        T *grad = args.rhs_grad + (set * args.rhs_boxes + first) * 4;
        store_boxes(grad, row_gradient(sum, CENTER), mask);
    }

    void forward() const
    {
        gather_planes();
        const int64_t rows = args.sets * args.lhs_boxes, row_bytes = args.rhs_boxes * int64_t(sizeof(T));
        const bool streaming = streams<T>(rows * args.rhs_boxes) && row_bytes >= 512;
        const Boxes boxes = *this;
        parallel_for_each(rows, row_bytes, [=](int64_t row) { boxes.iou_row(row, streaming); });
    }

    void backward() const
    {
        enum { LANES = Simd<T>::LANES };
        gather_planes();
        const Boxes boxes = *this;
        parallel_for_each(args.sets * args.lhs_boxes, args.rhs_boxes * PAIR_BYTES, [=](int64_t row) {
            boxes.lhs_gradient(row);
        });
        parallel_spans(args.sets, args.rhs_boxes, LANES, args.lhs_boxes * PAIR_BYTES,
                       [=](int64_t set, int64_t first, int64_t count) {
            for_each_vector<T>(count, [=](int64_t i, auto mask) { boxes.rhs_gradient(set, first + i, mask); });
        });
    }
};

template <typename T>
void forward(const BoxIouArgs<T> &args)
{
    if (args.format == BoxIouFormat::Center)
        Boxes<true, T>{args}.forward();
    else
        Boxes<false, T>{args}.forward();
}

template <typename T>
void backward(const BoxIouArgs<T> &args)
{
    if (args.format == BoxIouFormat::Center)
        Boxes<true, T>{args}.backward();
    else
        Boxes<false, T>{args}.backward();
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
