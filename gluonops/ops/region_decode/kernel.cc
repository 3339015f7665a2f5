// region_decode on the CPU: one pass over the map per anchor, and for a softmax two more over its classes, which are
// still in the cache. Bytes moved: the map in and out.
#include "generated/region_decode.h"
#include "../_region/region.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// The largest class logit of each lane, and the sum of exp(logit - max).
template <typename T>
struct ClassMaxAndSum {
    typename Simd<T>::Vector max, sum;

    template <typename Mask>
    GLUONOPS_INLINE ClassMaxAndSum(const T *logits, int64_t classes, int64_t stride, Mask mask)
    {
        typedef typename Simd<T>::Scalar A;
        max = broadcast(lowest<A>());
        for (int64_t k = 0; k < classes; ++k)
            max = maximum(load(logits + k * stride, mask), max);
        const auto max_logit = max;
        typename Simd<T>::Vector sums[1];
        sum_in_blocks(classes, sums, [=](int64_t begin, int64_t end, auto &sums) GLUONOPS_LAMBDA {
            for (int64_t k = begin; k < end; ++k)
                sums[0] += exponential(load(logits + k * stride, mask) - max_logit);
        });
        sum = sums[0];
    }
};

// Reads and writes one channel of one anchor, from a cell on, in either layout: a plane of the map, or a column of the
// rows of boxes.
template <typename T>
struct ChannelAccess {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    int64_t stride;   // between channels in the map; 0 for rows of boxes
    int64_t channels;

    ChannelAccess(const MapSizes &sizes, bool boxes) : stride(boxes ? 0 : sizes.cells()), channels(sizes.channels) {}

    template <typename Mask>
    GLUONOPS_INLINE V read(const T *anchor, int64_t channel, int64_t cell, Mask mask) const
    {
        if (stride)
            return load(anchor + channel * stride + cell, mask);
        V v = broadcast(A(0));
        for (int64_t lane = 0; lane < lane_count(mask, Simd<T>::LANES); ++lane)
            v[lane] = load_scalar(anchor + (cell + lane) * channels + channel);
        return v;
    }

    template <typename Mask>
    GLUONOPS_INLINE void write(T *anchor, int64_t channel, int64_t cell, V v, Mask mask) const
    {
        if (stride)
            return store(anchor + channel * stride + cell, v, mask);
        for (int64_t lane = 0; lane < lane_count(mask, Simd<T>::LANES); ++lane)
            store_scalar(anchor + (cell + lane) * channels + channel, v[lane]);
    }
};

// Calls visit(anchor, w, h, cell, mask) for each vector of cells of every anchor of the batch, on several threads; w
// and h are the anchor's size as a fraction of the map's.
template <typename T, typename Visit>
GLUONOPS_INLINE void parallel_anchors(const MapSizes &sizes, const Visit &visit)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t bytes = 4 * sizes.channels * sizes.cells() * int64_t(sizeof(T));
    parallel_for_each(sizes.batch * sizes.anchors, bytes, [&](int64_t anchor) {
        const double *size = sizes.anchor_sizes + anchor % sizes.anchors * 2;
        const A w = A(size[0]) / A(sizes.width), h = A(size[1]) / A(sizes.height);
        for_each_vector<T>(sizes.cells(), [&](int64_t cell, auto mask) GLUONOPS_LAMBDA {
            visit(anchor, w, h, cell, mask);
        });
    });
}

template <typename T>
void forward(const RegionDecodeArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const MapSizes sizes = map_sizes(args);
    const int64_t cells = sizes.cells(), stride = sizes.channels * cells;
    const T *data = args.data;
    T *result = args.output;
    const bool boxes = args.layout == RegionDecodeLayout::Boxes, softmax = args.softmax;
    const ChannelAccess<T> output(sizes, boxes);
    parallel_anchors<T>(sizes, [=](int64_t anchor, A anchor_w, A anchor_h, int64_t cell, auto mask) GLUONOPS_LAMBDA {
        const T *from = data + anchor * stride + cell, *logits = from + 5 * cells;
        T *to = result + anchor * stride;
        auto x = sigmoid(load(from, mask)), y = sigmoid(load(from + cells, mask));
        auto w = load(from + 2 * cells, mask), h = load(from + 3 * cells, mask);
        if (boxes) {
            const CellCoordinates<T> coordinates(cell, sizes.width);
            x = (x + coordinates.column) / A(sizes.width);
            y = (y + coordinates.row) / A(sizes.height);
            w = full_range_exponential(w) * anchor_w;
            h = full_range_exponential(h) * anchor_h;
        }
        output.write(to, 0, cell, x, mask);
        output.write(to, 1, cell, y, mask);
        output.write(to, 2, cell, w, mask);
        output.write(to, 3, cell, h, mask);
        output.write(to, 4, cell, sigmoid(load(from + 4 * cells, mask)), mask);

        if (!softmax) {
            for (int64_t k = 0; k < sizes.classes; ++k)
                output.write(to, 5 + k, cell, sigmoid(load(logits + k * cells, mask)), mask);
            return;
        }
        const ClassMaxAndSum<T> total(logits, sizes.classes, cells, mask);
        const auto inverse_sum = 1 / total.sum;
        for (int64_t k = 0; k < sizes.classes; ++k) {
            const auto p = exponential(load(logits + k * cells, mask) - total.max) * inverse_sum;
            output.write(to, 5 + k, cell, p, mask);
        }
    });
}

template <typename T>
void backward(const RegionDecodeArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const MapSizes sizes = map_sizes(args);
    const int64_t cells = sizes.cells(), stride = sizes.channels * cells;
    const T *data = args.data, *output_grad = args.output_grad;
    T *result = args.data_grad;
    const bool boxes = args.layout == RegionDecodeLayout::Boxes, softmax = args.softmax;
    const ChannelAccess<T> channels_of_grad(sizes, boxes);
    parallel_anchors<T>(sizes, [=](int64_t anchor, A anchor_w, A anchor_h, int64_t cell, auto mask) GLUONOPS_LAMBDA {
        const T *from = data + anchor * stride + cell, *logits = from + 5 * cells;
        const T *grad_out = output_grad + anchor * stride;
        T *grad = result + anchor * stride + cell;
        const A scale_x = boxes ? A(1) / A(sizes.width) : A(1), scale_y = boxes ? A(1) / A(sizes.height) : A(1);
        const A scale[] = {scale_x, scale_y, anchor_w, anchor_h, A(1)};
        for (int c = 0; c < 5; ++c) {
            V slope = broadcast(A(1));
            const V raw = load(from + c * cells, mask);
            if (c == 2 || c == 3) {
                if (boxes)
                    slope = full_range_exponential(raw) * scale[c];
            } else {
                const V activated = sigmoid(raw);
                slope = activated * (1 - activated) * scale[c];
            }
            store(grad + c * cells, channels_of_grad.read(grad_out, c, cell, mask) * slope, mask);
        }

        T *class_grad = grad + 5 * cells;
        if (!softmax) {
            for (int64_t k = 0; k < sizes.classes; ++k) {
                const V p = sigmoid(load(logits + k * cells, mask));
                store(class_grad + k * cells, channels_of_grad.read(grad_out, 5 + k, cell, mask) * p * (1 - p), mask);
            }
            return;
        }
        const ClassMaxAndSum<T> total(logits, sizes.classes, cells, mask);
        const V inverse_sum = 1 / total.sum;
        V dot = broadcast(A(0));   // the product of the head gradient and the probabilities
        for (int64_t k = 0; k < sizes.classes; ++k) {
            const V p = exponential(load(logits + k * cells, mask) - total.max) * inverse_sum;
            dot += p * channels_of_grad.read(grad_out, 5 + k, cell, mask);
        }
        for (int64_t k = 0; k < sizes.classes; ++k) {
            const V p = exponential(load(logits + k * cells, mask) - total.max) * inverse_sum;
            store(class_grad + k * cells, p * (channels_of_grad.read(grad_out, 5 + k, cell, mask) - dot), mask);
        }
    });
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
