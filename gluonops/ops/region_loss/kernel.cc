// region_loss on the CPU. Forward: the truths of every image choose their places, then one pass over the five planes of
// every anchor, vectors along the cells, and last the places that were chosen. It leaves the gradient of every image's
// loss; backward scales that by the head gradient. Bytes moved: forward five of the map's planes and the gradient,
// backward twice the gradient.
#include "generated/region_loss.h"
#include "../../native/region.h"

namespace gluonops {

// What the parts of an image's loss are, in the order of contract.py's PARTS.
enum Part { COORDINATES, OBJECTNESS, NO_OBJECTNESS, CLASS_PART, COST, IOU, RECALL, PROBABILITY, TRUTHS, PARTS };

// A box of an image, and the place that it chose.
struct Truth {
    double x, y, w, h;
    int64_t named, anchor, cell;
    bool last;   // no later one chose the same place
};

struct RegionLossCall {
    int type;
    MapSizes sizes;
    int64_t truths;
    double object_scale, noobject_scale, coord_scale, class_scale, thresh;
    bool rescore, bias_match;
    int64_t warmup_images;
    Labels seen;
    const void *data, *truth;
    void *output, *parts, *gradient;   // backward reads gradient
    Truth *chosen;                     // (batch, truths), memory to work in
    int64_t *count;                    // (batch,), how many there are; -1: a row is no box
    double *partial;                   // (batch, anchors, PARTS)
    const void *output_grad;           // backward
    void *data_grad;
};

namespace GLUONOPS_TARGET {
namespace {

const double WARM_UP_SCALE = 0.01;   // Darknet's

template <typename T>
struct Image {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const RegionLossCall &call;
    const MapSizes &sizes;
    int64_t cells, planes, index;
    const Truth *truths;
    int64_t count;

    Image(const RegionLossCall &call, int64_t index)
        : call(call), sizes(call.sizes), cells(sizes.cells()), planes(sizes.channels() * cells), index(index),
          truths(call.chosen + index * call.truths), count(call.count[index]) {}

    const T *anchor_data(int64_t anchor) const
    {
        return static_cast<const T *>(call.data) + (index * sizes.anchors + anchor) * planes;
    }
    A *anchor_gradient(int64_t anchor) const
    {
        return static_cast<A *>(call.gradient) + (index * sizes.anchors + anchor) * planes;
    }
    A anchor_w(int64_t anchor) const { return A(sizes.anchor_sizes[2 * anchor]); }
    A anchor_h(int64_t anchor) const { return A(sizes.anchor_sizes[2 * anchor + 1]); }

    Box<A> predicted(int64_t anchor, int64_t cell) const
    {
        const T *from = anchor_data(anchor) + cell;
        return {(A(cell % sizes.width) + logistic(get(from))) / A(sizes.width),
                (A(cell / sizes.width) + logistic(get(from + cells))) / A(sizes.height),
                power_of_e(get(from + 2 * cells)) * (anchor_w(anchor) / A(sizes.width)),
                power_of_e(get(from + 3 * cells)) * (anchor_h(anchor) / A(sizes.height))};
    }

    // The anchor of the most similar size.
    int64_t best_anchor(A w, A h, int64_t cell) const
    {
        int64_t best = 0;
        A most = 0;
        for (int64_t a = 0; a < sizes.anchors; ++a) {
            Box<A> size = {0, 0, anchor_w(a) / A(sizes.width), anchor_h(a) / A(sizes.height)};
            if (!call.bias_match) {
                size = predicted(a, cell);
                size.x = size.y = 0;
            }
            const A iou = iou_of(size, {0, 0, w, h});
            if (iou > most) {
                most = iou;
                best = a;
            }
        }
        return best;
    }

    // Lets the truths choose their places; returns how many there are, -1 where a row is no box.
    int64_t choose() const
    {
        const T *rows = static_cast<const T *>(call.truth) + index * call.truths * 5;
        Truth *to = call.chosen + index * call.truths;
        int64_t found = 0;
        for (int64_t t = 0; cells && t < call.truths; ++t) {
            const A x = get(rows + 5 * t), y = get(rows + 5 * t + 1), w = get(rows + 5 * t + 2);
            const A h = get(rows + 5 * t + 3), named = get(rows + 5 * t + 4);
            const Row row = judge(x, y, w, h, named, sizes.classes);
            if (row == NEITHER)
                return -1;
            if (row == PADDING)
                continue;
            int64_t i = int64_t(x * A(sizes.width)), j = int64_t(y * A(sizes.height));
            i = i < sizes.width ? i : sizes.width - 1;
            j = j < sizes.height ? j : sizes.height - 1;
            const int64_t cell = j * sizes.width + i;
            to[found++] = {x, y, w, h, int64_t(named), best_anchor(w, h, cell), cell, true};
        }
        for (int64_t t = 0; t < found; ++t)
            for (int64_t later = t + 1; later < found && to[t].last; ++later)
                to[t].last = !same_place(to[t], to[later]);
        return found;
    }

    static bool same_place(const Truth &a, const Truth &b) { return a.cell == b.cell && a.anchor == b.anchor; }

    // Everything about one anchor: its planes of the gradient, its share of the parts.
    void finish(int64_t anchor, double *parts) const
    {
        A *gradient = anchor_gradient(anchor);
        for (int p = 0; p < PARTS; ++p)
            parts[p] = count < 0 ? not_a_number<double>() : 0;
        if (count < 0) {
            write_row<false>(gradient, planes, [](int64_t, auto) GLUONOPS_LAMBDA { return all(not_a_number<A>()); });
            return;
        }
        // The plane of the objectness first says which cells are taken.
        memset(gradient + 4 * cells, 0, size_t((planes - 4 * cells) * int64_t(sizeof(A))));
        for (int64_t t = 0; t < count; ++t)
            if (truths[t].anchor == anchor)
                gradient[4 * cells + truths[t].cell] = 1;
        if (label_value(call.seen, 0) < double(call.warmup_images))
            free_cells<true>(anchor, gradient, parts);
        else
            free_cells<false>(anchor, gradient, parts);
        for (int64_t t = 0; t < count; ++t)
            if (truths[t].anchor == anchor)
                truth(truths[t], anchor, gradient, parts);
    }

    // The cells that no truth chose. A lane beyond the end counts as taken.
    template <bool EARLY>
    void free_cells(int64_t anchor, A *gradient, double *parts) const
    {
        const T *data = anchor_data(anchor);
        const A across = A(sizes.width), down = A(sizes.height), w = anchor_w(anchor) / across, h = anchor_h(anchor) / down;
        const A weight = A(call.noobject_scale), thresh = A(call.thresh);
        each_vector<T>(cells, [=](int64_t cell, auto lanes) GLUONOPS_LAMBDA {
            const T *from = data + cell;
            const Places<T> places(cell, sizes.width);
            const V x = sigmoid(load(from, lanes, A(0))), y = sigmoid(load(from + cells, lanes, A(0)));
            const V raw_w = load(from + 2 * cells, lanes, A(0)), raw_h = load(from + 3 * cells, lanes, A(0));
            const V object = sigmoid(load(from + 4 * cells, lanes, A(0)));
            const V is_free = 1 - load(gradient + 4 * cells + cell, lanes, A(1));
            const V wide = any_exponential(raw_w) * w, high = any_exponential(raw_h) * h;
            const V most = largest_iou((x + places.column) / across, (y + places.row) / down, wide, high);
            const V zero = all(A(0)), pull = (most > thresh ? zero : is_free * weight) * object;
            parts[NO_OBJECTNESS] += 0.5 * double(sum_of_lanes(pull * object));
            store(gradient + 4 * cells + cell, pull * object * (1 - object), lanes);
            V cost = pull * pull;
            if (EARLY) {
                const V scale = is_free * A(WARM_UP_SCALE), off_x = x - A(0.5), off_y = y - A(0.5);
                const V pull_w = scale * raw_w, pull_h = scale * raw_h, pull_x = scale * off_x, pull_y = scale * off_y;
                parts[COORDINATES] += 0.5 * double(sum_of_lanes(pull_x * off_x + pull_y * off_y + pull_w * raw_w +
                                                                pull_h * raw_h));
                cost += pull_x * pull_x + pull_y * pull_y + pull_w * pull_w + pull_h * pull_h;
                store(gradient + cell, pull_x * x * (1 - x), lanes);
                store(gradient + cells + cell, pull_y * y * (1 - y), lanes);
                store(gradient + 2 * cells + cell, pull_w, lanes);
                store(gradient + 3 * cells + cell, pull_h, lanes);
            } else {
                for (int64_t c = 0; c < 4; ++c)
                    store(gradient + c * cells + cell, zero, lanes);
            }
            parts[COST] += double(sum_of_lanes(cost));
        });
    }

    GLUONOPS_INLINE V largest_iou(V x, V y, V w, V h) const
    {
        const V left = x - w / 2, right = x + w / 2, top = y - h / 2, bottom = y + h / 2, area = w * h, zero = all(A(0));
        V most = zero;
        for (int64_t t = 0; t < count; ++t) {
            const Truth &truth = truths[t];
            const A half_w = A(truth.w) / 2, half_h = A(truth.h) / 2;
            const V low_x = all(A(truth.x) - half_w), high_x = all(A(truth.x) + half_w);
            const V low_y = all(A(truth.y) - half_h), high_y = all(A(truth.y) + half_h);
            const V wide = (right < high_x ? right : high_x) - larger(left, low_x);
            const V high = (bottom < high_y ? bottom : high_y) - larger(top, low_y);
            const V both = larger(wide, zero) * larger(high, zero);
            most = larger(both > 0 ? both / (area + A(truth.w) * A(truth.h) - both) : zero, most);
        }
        return most;
    }

    void truth(const Truth &truth, int64_t anchor, A *gradient, double *parts) const
    {
        const T *from = anchor_data(anchor) + truth.cell;
        A *to = gradient + truth.cell;
        const A truth_w = A(truth.w), truth_h = A(truth.h), across = A(sizes.width), down = A(sizes.height);
        const A iou = iou_of(predicted(anchor, truth.cell), {A(truth.x), A(truth.y), truth_w, truth_h});
        const Logits<T> logits(from + 5 * cells, sizes.classes, cells, sizes.softmax);
        parts[IOU] += iou;
        parts[RECALL] += iou > A(0.5);
        parts[PROBABILITY] += logits.probability(truth.named);
        parts[TRUTHS] += 1;
        if (!truth.last)
            return;
        const A out[] = {logistic(get(from)), logistic(get(from + cells)), get(from + 2 * cells), get(from + 3 * cells)};
        const A target[] = {A(truth.x) * across - A(truth.cell % sizes.width),
                            A(truth.y) * down - A(truth.cell / sizes.width),
                            logarithm(truth_w * across / anchor_w(anchor)), logarithm(truth_h * down / anchor_h(anchor))};
        const A scale = A(call.coord_scale) * (2 - truth_w * truth_h);
        for (int c = 0; c < 4; ++c) {
            const A off = out[c] - target[c], pull = scale * off;
            parts[COORDINATES] += 0.5 * double(pull) * double(off);
            parts[COST] += double(pull) * double(pull);
            to[c * cells] = c < 2 ? pull * out[c] * (1 - out[c]) : pull;
        }
        const A object = logistic(get(from + 4 * cells)), off = object - (call.rescore ? iou : A(1));
        const A pull = A(call.object_scale) * off;
        parts[OBJECTNESS] += 0.5 * double(pull) * double(off);
        parts[COST] += double(pull) * double(pull);
        to[4 * cells] = pull * object * (1 - object);
        mark_classes(truth, to + 5 * cells, logits.probability(0));
        for (int64_t k = 0; k < sizes.classes; ++k) {
            A *target_class = to + (5 + k) * cells;
            const A class_pull = A(call.class_scale) * (logits.probability(k) - *target_class);
            parts[CLASS_PART] += call.class_scale * double(logits.surprise(k, *target_class));
            parts[COST] += double(class_pull) * double(class_pull);
            *target_class = class_pull;
        }
    }

    // The classes that the truths up to this one ask for, as 1 and 0 in its cell of the gradient: its own; with
    // sigmoids also those before it at its place, back to where the error of class 0 was exactly 0.
    void mark_classes(const Truth &last, A *to, A first_probability) const
    {
        bool fresh = true;
        for (const Truth *truth = sizes.softmax ? &last : truths; truth <= &last; ++truth) {
            if (!same_place(*truth, last))
                continue;
            if (fresh || *to == first_probability)
                for (int64_t k = 0; k < sizes.classes; ++k)
                    to[k * cells] = 0;
            to[truth->named * cells] = 1;
            fresh = false;
        }
    }
};

template <typename T>
void forward(const RegionLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const RegionLossCall &call = given;
    const int64_t anchors = call.sizes.anchors, cells = call.sizes.cells();
    parallel_for(call.sizes.batch, call.truths * 64 * (1 + anchors), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            call.count[b] = Image<T>(call, b).choose();
    });
    const int64_t bytes = cells * (8 * call.truths + 4 * call.sizes.channels() + 64);   // as much time as moving so many
    parallel_for(call.sizes.batch * anchors, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            Image<T>(call, i / anchors).finish(i % anchors, call.partial + i * PARTS);
    });
    for (int64_t b = 0; b < call.sizes.batch; ++b) {
        A *parts = static_cast<A *>(call.parts) + b * PARTS;
        double total[PARTS] = {};
        for (int64_t i = b * anchors; i < (b + 1) * anchors; ++i)
            for (int p = 0; p < PARTS; ++p)
                total[p] += call.partial[i * PARTS + p];
        for (int p = 0; p < PARTS; ++p)
            parts[p] = A(total[p]);
        put(static_cast<T *>(call.output) + b,
            A(total[COORDINATES] + total[OBJECTNESS] + total[NO_OBJECTNESS] + total[CLASS_PART]));
    }
}

template <typename T>
void backward(const RegionLossCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t channels = call.sizes.anchors * call.sizes.channels(), cells = call.sizes.cells();
    const T *heads = static_cast<const T *>(call.output_grad);
    const A *gradients = static_cast<const A *>(call.gradient);
    T *results = static_cast<T *>(call.data_grad);
    parallel_for(call.sizes.batch * channels, cells * int64_t(sizeof(T) + sizeof(A)), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const A head = get(heads + i / channels), *gradient = gradients + i * cells;
            write_row<false>(results + i * cells, cells, [=](int64_t cell, auto lanes) GLUONOPS_LAMBDA {
                return load(gradient + cell, lanes, A(0)) * head;
            });
        }
    });
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline RegionLossCall adapt(const RegionLossAttrs &attrs, const RegionLossTensors &tensors, Workspace &memory)
{
    RegionLossCall call = {};
    call.type = tensors.data.type;
    call.sizes = map_sizes(tensors.data.shape(), attrs.anchors, attrs.classes, attrs.softmax);
    call.truths = tensors.truth.shape()[1];
    call.object_scale = attrs.object_scale;
    call.noobject_scale = attrs.noobject_scale;
    call.coord_scale = attrs.coord_scale;
    call.class_scale = attrs.class_scale;
    call.thresh = attrs.thresh;
    call.rescore = attrs.rescore;
    call.bias_match = attrs.bias_match;
    call.warmup_images = attrs.warmup_images;
    call.seen = {tensors.seen.data, tensors.seen.type, false, 0};
    call.data = tensors.data.data;
    call.truth = tensors.truth.data;
    call.output = tensors.output.data;
    call.parts = tensors.parts.data;
    call.gradient = tensors.gradient.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    if (!tensors.backward) {
        call.chosen = memory.zeros<Truth>(call.sizes.batch * call.truths);
        call.count = memory.zeros<int64_t>(call.sizes.batch);
        call.partial = memory.zeros<double>(call.sizes.batch * call.sizes.anchors * PARTS);
    }
    return call;
}

}  // namespace gluonops
