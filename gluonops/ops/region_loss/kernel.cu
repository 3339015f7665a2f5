// region_loss, a block per image, a thread per anchor and cell. A thread looks at every truth: how much it
// overlaps the thread's box, and, where its centre is in the thread's cell, whether it chose the thread's anchor. Bytes
// moved: forward five of the map's planes and the gradient, backward twice the gradient.

// What the parts of an image's loss are, in the order of contract.py's PARTS.
enum Part { COORDINATES, OBJECTNESS, NO_OBJECTNESS, CLASSES, COST, IOU, RECALL, PROBABILITY, TRUTHS, PARTS };

template <typename A> __device__ A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

template <typename A> struct Box { A x, y, w, h; };

// A row of truth. It is padding, a box, or neither.
template <typename A> struct Truth {
    Box<A> box;
    A named;
    bool padding, good;
    int64_t column, row;

    template <typename T>
    __device__ Truth(const T *rows, int64_t t, int64_t classes, int64_t height, int64_t width)
    {
        box.x = load(rows, 5 * t);
        box.y = load(rows, 5 * t + 1);
        box.w = load(rows, 5 * t + 2);
        box.h = load(rows, 5 * t + 3);
        named = load(rows, 5 * t + 4);
        padding = box.x == 0 && box.y == 0 && box.w == 0 && box.h == 0 && named == 0;
        good = box.x >= 0 && box.x <= 1 && box.y >= 0 && box.y <= 1 && box.w > 0 && box.h > 0 && box.w * box.h < 2 &&
               named >= 0 && named < A(classes) && A(int64_t(named)) == named;   // false with a NaN
        column = good ? int64_t(box.x * A(width)) : 0;
        row = good ? int64_t(box.y * A(height)) : 0;
        column = column < width ? column : width - 1;
        row = row < height ? row : height - 1;
    }
};

template <typename A>
__device__ A overlap(A center, A size, A other_center, A other_size)
{
    const A low = center - size / 2, other_low = other_center - other_size / 2;
    const A high = center + size / 2, other_high = other_center + other_size / 2;
    return (high < other_high ? high : other_high) - (low > other_low ? low : other_low);
}

// 0 where boxes do not overlap.
template <typename A>
__device__ A iou_of(const Box<A> &a, const Box<A> &b)
{
    const A w = overlap(a.x, a.w, b.x, b.w), h = overlap(a.y, a.h, b.y, b.h);
    const A both = w > 0 && h > 0 ? w * h : A(0);
    return both > 0 ? both / (a.w * a.h + b.w * b.h - both) : A(0);
}

// One image's map, and what is asked of all of them alike.
template <typename T, typename A> struct Map {
    const T *data;
    int64_t anchors, classes, height, width;
    const double *anchor_sizes;
    bool bias_match, softmax;

    __device__ const T *at(int64_t anchor, int64_t column, int64_t row) const
    {
        return data + anchor * (5 + classes) * height * width + row * width + column;
    }
    __device__ A anchor_w(int64_t anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int64_t anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    __device__ Box<A> predicted(int64_t anchor, int64_t column, int64_t row) const
    {
        const T *from = at(anchor, column, row);
        const int64_t cells = height * width;
        const Box<A> box = {(A(column) + sigmoid(load(from, 0))) / A(width), (A(row) + sigmoid(load(from, cells))) / A(height),
                            exponential(load(from, 2 * cells)) * (anchor_w(anchor) / A(width)),
                            exponential(load(from, 3 * cells)) * (anchor_h(anchor) / A(height))};
        return box;
    }

    // The anchor of the most similar size.
    __device__ int64_t best_anchor(const Truth<A> &truth) const
    {
        const Box<A> wanted = {0, 0, truth.box.w, truth.box.h};
        int64_t best = 0;
        A most = 0;
        for (int64_t a = 0; a < anchors; ++a) {
            Box<A> size = {0, 0, anchor_w(a) / A(width), anchor_h(a) / A(height)};
            if (!bias_match) {
                size = predicted(a, truth.column, truth.row);
                size.x = size.y = 0;
            }
            const A iou = iou_of(size, wanted);
            if (iou > most) {
                most = iou;
                best = a;
            }
        }
        return best;
    }
};

// The classes of one place.
template <typename T, typename A> struct Logits {
    const T *first;
    int64_t cells;
    bool softmax;
    A top, log_sum;

    __device__ Logits(const T *first, int64_t classes, int64_t cells, bool softmax)
        : first(first), cells(cells), softmax(softmax), top(lowest<A>()), log_sum(0)
    {
        A sum = 0;
        for (int64_t k = 0; softmax && k < classes; ++k)
            top = load(first, k * cells) > top ? load(first, k * cells) : top;
        for (int64_t k = 0; softmax && k < classes; ++k)
            sum += exponential(load(first, k * cells) - top);
        if (softmax)
            log_sum = logarithm(sum);
    }
    __device__ A probability(int64_t k) const
    {
        const A logit = load(first, k * cells);
        return softmax ? exponential(logit - top - log_sum) : sigmoid(logit);
    }
    // Its share in the cross-entropy with a target of 0 or 1.
    __device__ A surprise(int64_t k, A target) const
    {
        const A logit = load(first, k * cells), positive = logit > 0 ? logit : A(0);
        if (softmax)
            return target * (log_sum - (logit - top));
        return logarithm(exponential(-positive) + exponential(logit - positive)) + positive - logit * target;
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, 1)
region_loss_forward(const T *__restrict__ data, const T *__restrict__ truth, const L *__restrict__ seen,
                    T *__restrict__ output, typename Accumulator<T>::type *__restrict__ parts,
                    typename Accumulator<T>::type *__restrict__ gradient, int output_request, int parts_request,
                    int gradient_request, int64_t batch, int64_t anchors, int64_t classes, int64_t height, int64_t width,
                    int64_t truths, double object_scale, double noobject_scale, double coord_scale, double class_scale,
                    double thresh, int64_t rescore, int64_t bias_match, int64_t softmax, int64_t warmup_images,
                    const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = height * width, channels = 5 + classes;
    const bool early = double(load(seen, 0)) < double(warmup_images);
    for (int64_t b = first_row(); b < batch; b += row_step()) {
        const Map<T, A> map = {data + b * anchors * channels * cells, anchors, classes, height, width, anchor_sizes,
                               bias_match != 0, softmax != 0};
        const T *rows = truth + b * truths * 5;
        A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, bad = 0;
        for (int64_t t = threadIdx.x; t < truths; t += blockDim.x) {
            const Truth<A> one(rows, t, classes, height, width);
            bad += A(!one.good && !one.padding);
        }
        const A spoiled = across_row(bad, Sum()) > 0 ? not_a_number<A>() : A(0);   // is added to what the image gets

        for (int64_t item = threadIdx.x; item < anchors * cells; item += blockDim.x) {
            const int64_t anchor = item / cells, column = item % width, row = item % cells / width;
            const T *from = map.at(anchor, column, row);
            A *to = gradient + (b * anchors + anchor) * channels * cells + item % cells;
            const Box<A> box = map.predicted(anchor, column, row);
            A most = 0, first_target = 0;
            int64_t last = -1, since = 0;   // the last truth that chose this place, and the first that its classes count
            for (int64_t t = 0; t < truths; ++t) {
                const Truth<A> one(rows, t, classes, height, width);
                if (!one.good)
                    continue;
                const A iou = iou_of(box, one.box);
                most = iou > most ? iou : most;
                if (one.column != column || one.row != row || map.best_anchor(one) != anchor)
                    continue;
                const Logits<T, A> logits(from + 5 * cells, classes, cells, map.softmax);
                sums[IOU] += iou;
                sums[RECALL] += A(iou > A(0.5));
                sums[PROBABILITY] += logits.probability(int64_t(one.named));
                sums[TRUTHS] += 1;
                // With sigmoids truths add up their classes, back to where the error of class 0 was exactly 0.
                if (last < 0 || first_target == logits.probability(0)) {
                    since = t;
                    first_target = 0;
                }
                first_target = one.named == 0 ? A(1) : first_target;
                last = t;
            }

            const A out[5] = {sigmoid(load(from, 0)), sigmoid(load(from, cells)), load(from, 2 * cells),
                              load(from, 3 * cells), sigmoid(load(from, 4 * cells))};
            A target[5] = {A(0.5), A(0.5), 0, 0, 0}, scale = early ? A(0.01) : A(0), object_weight = A(noobject_scale);
            if (last >= 0) {
                const Truth<A> one(rows, last, classes, height, width);
                target[0] = one.box.x * A(width) - A(column);
                target[1] = one.box.y * A(height) - A(row);
                target[2] = logarithm(one.box.w * A(width) / map.anchor_w(anchor));
                target[3] = logarithm(one.box.h * A(height) / map.anchor_h(anchor));
                target[4] = rescore ? iou_of(box, one.box) : A(1);
                scale = A(coord_scale) * (2 - one.box.w * one.box.h);
                object_weight = A(object_scale);
            } else if (most > A(thresh)) {
                object_weight = 0;
            }
            for (int c = 0; c < 5; ++c) {
                const A off = out[c] - target[c], pull = (c < 4 ? scale : object_weight) * off;
                sums[c < 4 ? COORDINATES : last < 0 ? NO_OBJECTNESS : OBJECTNESS] += A(0.5) * pull * off;
                sums[COST] += pull * pull;
                store(to, c * cells, spoiled + (c == 2 || c == 3 ? pull : pull * out[c] * (1 - out[c])), gradient_request);
            }
            if (last < 0) {
                for (int64_t k = 0; k < classes; ++k)
                    store(to, (5 + k) * cells, spoiled, gradient_request);
                continue;
            }
            const Logits<T, A> logits(from + 5 * cells, classes, cells, map.softmax);
            for (int64_t k = 0; k < classes; ++k) {
                A wanted = 0;
                for (int64_t t = map.softmax ? last : since; t <= last; ++t) {
                    const Truth<A> one(rows, t, classes, height, width);
                    if (one.good && one.named == A(k) && one.column == column && one.row == row &&
                        map.best_anchor(one) == anchor)
                        wanted = 1;
                }
                const A pull = A(class_scale) * (logits.probability(k) - wanted);
                sums[CLASSES] += A(class_scale) * logits.surprise(k, wanted);
                sums[COST] += pull * pull;
                store(to, (5 + k) * cells, spoiled + pull, gradient_request);
            }
        }
        A loss = spoiled;
        for (int p = 0; p < PARTS; ++p) {
            const A sum = across_row(sums[p], Sum());
            if (p <= CLASSES)
                loss += sum;
            if (threadIdx.x == 0)
                store(parts, b * PARTS + p, spoiled + sum, parts_request);
        }
        if (threadIdx.x == 0)
            store(output, b, loss, output_request);
    }
}

template <typename T, typename L>
__global__ void region_loss_backward(const T *__restrict__ output_grad,
                                     const typename Accumulator<T>::type *__restrict__ gradient,
                                     T *__restrict__ data_grad, int data_grad_request, int64_t batch, int64_t anchors,
                                     int64_t classes, int64_t height, int64_t width, int64_t truths, double object_scale,
                                     double noobject_scale, double coord_scale, double class_scale, double thresh,
                                     int64_t rescore, int64_t bias_match, int64_t softmax, int64_t warmup_images,
                                     const double *__restrict__ anchor_sizes)
{
    const int64_t size = anchors * (5 + classes) * height * width;
    for (int64_t i = first_item(); i < batch * size; i += item_step())
        store(data_grad, i, load(gradient, i) * load(output_grad, i / size), data_grad_request);
}
