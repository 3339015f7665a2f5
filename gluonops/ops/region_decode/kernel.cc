// region_decode on the CPU: one pass over the map per anchor, and for a softmax two more over its classes, which are
// still in the cache. Bytes moved: the map in and out.
#include "generated/region_decode.h"
#include "../../native/region.h"

namespace gluonops {

struct RegionDecodeCall {
    int type;
    MapSizes sizes;
    bool boxes;                // a row per box; else the layout of the map
    const void *data;
    const void *output_grad;   // backward
    void *result;
};

namespace GLUONOPS_TARGET {
namespace {

// One channel of one anchor in either layout, from a cell on: a plane of cells, or a column of the rows of boxes.
template <typename T>
struct Channel {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    int64_t stride;   // between channels in the map; 0 for rows
    int64_t channels;

    explicit Channel(const RegionDecodeCall &call)
        : stride(call.boxes ? 0 : call.sizes.cells()), channels(call.sizes.channels()) {}

    GLUONOPS_INLINE V get_from(const T *anchor, int64_t channel, int64_t cell, All every) const
    {
        return stride ? load(anchor + channel * stride + cell, every) : rows(anchor, channel, cell, Simd<T>::LANES);
    }
    GLUONOPS_INLINE V get_from(const T *anchor, int64_t channel, int64_t cell, First first) const
    {
        return stride ? load(anchor + channel * stride + cell, first, A(0)) : rows(anchor, channel, cell, first.lanes);
    }
    GLUONOPS_INLINE void put_to(T *anchor, int64_t channel, int64_t cell, V v, All every) const
    {
        if (stride)
            store(anchor + channel * stride + cell, v, every);
        else
            put_rows(anchor, channel, cell, v, Simd<T>::LANES);
    }
    GLUONOPS_INLINE void put_to(T *anchor, int64_t channel, int64_t cell, V v, First first) const
    {
        if (stride)
            store(anchor + channel * stride + cell, v, first);
        else
            put_rows(anchor, channel, cell, v, first.lanes);
    }

 private:
    GLUONOPS_INLINE V rows(const T *anchor, int64_t channel, int64_t cell, int64_t lanes) const
    {
        V v = all(A(0));
        for (int64_t lane = 0; lane < lanes; ++lane)
            v[lane] = get(anchor + (cell + lane) * channels + channel);
        return v;
    }
    GLUONOPS_INLINE void put_rows(T *anchor, int64_t channel, int64_t cell, V v, int64_t lanes) const
    {
        for (int64_t lane = 0; lane < lanes; ++lane)
            put(anchor + (cell + lane) * channels + channel, v[lane]);
    }
};

// visit(anchor of the batch, w and h of its size over those of the map, first cell, lanes)
template <typename T, typename Visit>
GLUONOPS_INLINE void each_anchor(const RegionDecodeCall &call, const Visit &visit)
{
    typedef typename Simd<T>::Scalar A;
    const MapSizes &sizes = call.sizes;
    const int64_t bytes = 4 * sizes.channels() * sizes.cells() * int64_t(sizeof(T));
    parallel_for(sizes.batch * sizes.anchors, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t a = begin; a < end; ++a) {
            const double *size = sizes.anchor_sizes + a % sizes.anchors * 2;
            const A w = A(size[0]) / A(sizes.width), h = A(size[1]) / A(sizes.height);
            each_vector<T>(sizes.cells(), [&](int64_t cell, auto lanes) GLUONOPS_LAMBDA { visit(a, w, h, cell, lanes); });
        }
    });
}

template <typename T>
void forward(const RegionDecodeCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const MapSizes sizes = call.sizes;
    const int64_t cells = sizes.cells(), stride = sizes.channels() * cells;
    const T *data = static_cast<const T *>(call.data);
    T *result = static_cast<T *>(call.result);
    const Channel<T> to(call);
    const bool boxes = call.boxes;
    each_anchor<T>(call, [=](int64_t a, A w, A h, int64_t cell, auto lanes) GLUONOPS_LAMBDA {
        const T *from = data + a * stride + cell, *logits = from + 5 * cells;
        T *out = result + a * stride;
        auto x = sigmoid(load(from, lanes, A(0))), y = sigmoid(load(from + cells, lanes, A(0)));
        auto wide = load(from + 2 * cells, lanes, A(0)), high = load(from + 3 * cells, lanes, A(0));
        if (boxes) {
            const Places<T> places(cell, sizes.width);
            x = (x + places.column) / A(sizes.width);
            y = (y + places.row) / A(sizes.height);
            wide = any_exponential(wide) * w;
            high = any_exponential(high) * h;
        }
        to.put_to(out, 0, cell, x, lanes);
        to.put_to(out, 1, cell, y, lanes);
        to.put_to(out, 2, cell, wide, lanes);
        to.put_to(out, 3, cell, high, lanes);
        to.put_to(out, 4, cell, sigmoid(load(from + 4 * cells, lanes, A(0))), lanes);
        if (!sizes.softmax) {
            for (int64_t k = 0; k < sizes.classes; ++k)
                to.put_to(out, 5 + k, cell, sigmoid(load(logits + k * cells, lanes, A(0))), lanes);
            return;
        }
        const ClassTotals<T> totals(logits, sizes.classes, cells, lanes);
        const auto share = 1 / totals.sum;
        for (int64_t k = 0; k < sizes.classes; ++k)
            to.put_to(out, 5 + k, cell, exponential(load(logits + k * cells, lanes, A(0)) - totals.top) * share, lanes);
    });
}

template <typename T>
void backward(const RegionDecodeCall &call)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const MapSizes sizes = call.sizes;
    const int64_t cells = sizes.cells(), stride = sizes.channels() * cells;
    const T *data = static_cast<const T *>(call.data), *heads = static_cast<const T *>(call.output_grad);
    T *result = static_cast<T *>(call.result);
    const Channel<T> of(call);
    const bool boxes = call.boxes;
    each_anchor<T>(call, [=](int64_t a, A w, A h, int64_t cell, auto lanes) GLUONOPS_LAMBDA {
        const T *from = data + a * stride + cell, *logits = from + 5 * cells, *head = heads + a * stride;
        T *grad = result + a * stride + cell;
        const A scale[] = {boxes ? A(1) / A(sizes.width) : A(1), boxes ? A(1) / A(sizes.height) : A(1), w, h, A(1)};
        for (int c = 0; c < 5; ++c) {
            V slope = all(A(1));
            const V raw = load(from + c * cells, lanes, A(0));
            if (c == 2 || c == 3) {
                if (boxes)
                    slope = any_exponential(raw) * scale[c];
            } else {
                const V activated = sigmoid(raw);
                slope = activated * (1 - activated) * scale[c];
            }
            store(grad + c * cells, of.get_from(head, c, cell, lanes) * slope, lanes);
        }
        T *class_grad = grad + 5 * cells;
        if (!sizes.softmax) {
            for (int64_t k = 0; k < sizes.classes; ++k) {
                const V p = sigmoid(load(logits + k * cells, lanes, A(0)));
                store(class_grad + k * cells, of.get_from(head, 5 + k, cell, lanes) * p * (1 - p), lanes);
            }
            return;
        }
        const ClassTotals<T> totals(logits, sizes.classes, cells, lanes);
        const V share = 1 / totals.sum;
        V along = all(A(0));
        for (int64_t k = 0; k < sizes.classes; ++k)
            along += exponential(load(logits + k * cells, lanes, A(0)) - totals.top) * share *
                     of.get_from(head, 5 + k, cell, lanes);
        for (int64_t k = 0; k < sizes.classes; ++k) {
            const V p = exponential(load(logits + k * cells, lanes, A(0)) - totals.top) * share;
            store(class_grad + k * cells, p * (of.get_from(head, 5 + k, cell, lanes) - along), lanes);
        }
    });
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline RegionDecodeCall adapt(const RegionDecodeAttrs &attrs, const RegionDecodeTensors &tensors, Workspace &)
{
    RegionDecodeCall call = {};
    call.type = tensors.data.type;
    call.sizes = map_sizes(tensors.data.shape(), attrs.anchors, attrs.classes, attrs.softmax);
    call.boxes = attrs.layout == RegionDecodeAttrs::Layout::Boxes;
    call.data = tensors.data.data;
    call.output_grad = tensors.output_grad.data;
    call.result = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
