// region_loss, a block per image, a thread per anchor and cell. A thread looks at every ground-truth box: how much it
// overlaps the thread's predicted box, and, where its centre is in the thread's cell, whether it is assigned to the
// thread's anchor. Bytes moved: forward five of the map's planes and the gradient, backward twice the gradient.
#include "../_region/region.cuh"
#include "../_region/truth.cuh"

// The parts of an image's loss, in the order of contract.py's PARTS.
enum Part { COORDINATES, OBJECTNESS, NO_OBJECTNESS, CLASSES, COST, IOU, RECALL, PROBABILITY, TRUTHS, PARTS };

const int GIOU = 1;   // the index of "giou" in contract.py's BOX_LOSSES

// One image's map, and the attributes that its boxes depend on.
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

    __device__ Box<A> predicted_box(int64_t anchor, int64_t column, int64_t row) const
    {
        const T *from = at(anchor, column, row);
        const int64_t cells = height * width;
        const Box<A> box = {(A(column) + sigmoid(load(from, 0))) / A(width),
                            (A(row) + sigmoid(load(from, cells))) / A(height),
                            exponential(load(from, 2 * cells)) * (anchor_w(anchor) / A(width)),
                            exponential(load(from, 3 * cells)) * (anchor_h(anchor) / A(height))};
        return box;
    }

    // The anchor whose size has the largest IoU with the box's.
    __device__ int64_t best_anchor(const GroundTruth<A> &truth) const
    {
        const Box<A> truth_size = {0, 0, truth.box.w, truth.box.h};
        int64_t best = 0;
        A max_iou = 0;
        for (int64_t anchor = 0; anchor < anchors; ++anchor) {
            Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
            if (!bias_match) {
                size = predicted_box(anchor, truth.column, truth.row);
                size.x = size.y = 0;
            }
            const A iou = iou_of(size, truth_size);
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best;
    }
};

// The class logits of one anchor and cell.
template <typename T, typename A> struct ClassLogits {
    const T *first;
    int64_t cells;
    bool softmax;
    A max, log_sum;   // of the softmax

    __device__ ClassLogits(const T *first, int64_t classes, int64_t cells, bool softmax)
        : first(first), cells(cells), softmax(softmax), max(lowest<A>()), log_sum(0)
    {
        // Not class_max_and_sum behind a branch: then NVRTC makes a second copy of what follows.
        A sum = 0;
        for (int64_t k = 0; softmax && k < classes; ++k)
            max = load(first, k * cells) > max ? load(first, k * cells) : max;
        for (int64_t k = 0; softmax && k < classes; ++k)
            sum += exponential(load(first, k * cells) - max);
        if (softmax)
            log_sum = logarithm(sum);
    }

    __device__ A probability(int64_t k) const
    {
        const A logit = load(first, k * cells);
        return softmax ? exponential(logit - max - log_sum) : sigmoid(logit);
    }

    // The negative log-likelihood of class k, given its target of 0 or 1.
    __device__ A nll(int64_t k, A target) const
    {
        const A logit = load(first, k * cells), positive = logit > 0 ? logit : A(0);
        if (softmax)
            return target * (log_sum - (logit - max));
        const A sum = exponential(-positive) + exponential(logit - positive);
        return logarithm(sum) + positive - logit * target;
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
                    int64_t box_loss, const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = height * width, channels = 5 + classes;
    const bool warm_up = double(load(seen, 0)) < double(warmup_images);
    for (int64_t b = first_row(); b < batch; b += row_step()) {
        const Map<T, A> map = {data + b * anchors * channels * cells, anchors, classes, height, width, anchor_sizes,
                               bias_match != 0, softmax != 0};
        const T *rows = truth + b * truths * 5;
        A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        A invalid_rows = 0;
        for (int64_t t = threadIdx.x; t < truths; t += blockDim.x) {
            const GroundTruth<A> candidate(rows, t, classes, height, width);
            invalid_rows += A(!candidate.valid && !candidate.padding);
        }
        // Added to every result of the image.
        const A nan_if_invalid = reduce_row(invalid_rows, Sum()) > 0 ? not_a_number<A>() : A(0);

        for (int64_t item = threadIdx.x; item < anchors * cells; item += blockDim.x) {
            const int64_t anchor = item / cells, column = item % width, row = item % cells / width;
            const T *from = map.at(anchor, column, row);
            A *to = gradient + (b * anchors + anchor) * channels * cells + item % cells;
            const Box<A> box = map.predicted_box(anchor, column, row);

            // The last box that is assigned to this anchor and cell, and the first whose class still counts there.
            int64_t last = -1, first = 0;
            A max_iou = 0, first_target = 0;
            for (int64_t t = 0; t < truths; ++t) {
                const GroundTruth<A> candidate(rows, t, classes, height, width);
                if (!candidate.valid)
                    continue;
                const A iou = iou_of(box, candidate.box);
                max_iou = iou > max_iou ? iou : max_iou;
                if (candidate.column != column || candidate.row != row || map.best_anchor(candidate) != anchor)
                    continue;
                const ClassLogits<T, A> logits(from + 5 * cells, classes, cells, map.softmax);
                sums[IOU] += iou;
                sums[RECALL] += A(iou > A(0.5));
                sums[PROBABILITY] += logits.probability(int64_t(candidate.class_id));
                sums[TRUTHS] += 1;
                // With sigmoids boxes add up their classes, back to where the error of class 0 was exactly 0.
                if (last < 0 || first_target == logits.probability(0)) {
                    first = t;
                    first_target = 0;
                }
                first_target = candidate.class_id == 0 ? A(1) : first_target;
                last = t;
            }
            const bool is_assigned = last >= 0;

            const A predicted[5] = {sigmoid(load(from, 0)), sigmoid(load(from, cells)), load(from, 2 * cells),
                                    load(from, 3 * cells), sigmoid(load(from, 4 * cells))};
            // Without a box: while warming up, boxes are regressed toward their priors.
            A target[5] = {A(0.5), A(0.5), 0, 0, 0};
            A box_weight = warm_up ? A(0.01) : A(0), object_weight = A(noobject_scale);
            A giou_error[4] = {0, 0, 0, 0};   // the derivatives of 1 - GIoU by the activations
            if (is_assigned) {
                const GroundTruth<A> assigned(rows, last, classes, height, width);
                target[0] = assigned.box.x * A(width) - A(column);
                target[1] = assigned.box.y * A(height) - A(row);
                target[2] = logarithm(assigned.box.w * A(width) / map.anchor_w(anchor));
                target[3] = logarithm(assigned.box.h * A(height) / map.anchor_h(anchor));
                target[4] = rescore ? iou_of(box, assigned.box) : A(1);
                box_weight = A(coord_scale) * (2 - assigned.box.w * assigned.box.h);
                object_weight = A(object_scale);
                if (box_loss == GIOU) {
                    const A eps = 0;
                    const BoxPair<A> pair(sides_of(box), sides_of(assigned.box), eps);
                    const BoxLoss<A> giou = giou_loss_of(pair, eps);
                    sums[COORDINATES] += A(coord_scale) * giou.loss;
                    giou_error[0] = A(coord_scale) * giou.gradient.x / A(width);
                    giou_error[1] = A(coord_scale) * giou.gradient.y / A(height);
                    giou_error[2] = A(coord_scale) * giou.gradient.w * box.w;
                    giou_error[3] = A(coord_scale) * giou.gradient.h * box.h;
                    box_weight = 0;
                }
            } else if (max_iou > A(thresh)) {
                object_weight = 0;
            }
            const Part object_part = is_assigned ? OBJECTNESS : NO_OBJECTNESS;
            for (int c = 0; c < 5; ++c) {
                const A error = predicted[c] - target[c];
                const A squared_error = (c < 4 ? box_weight : object_weight) * error;
                const A weighted_error = c < 4 ? squared_error + giou_error[c] : squared_error;
                sums[c < 4 ? COORDINATES : object_part] += A(0.5) * squared_error * error;
                sums[COST] += weighted_error * weighted_error;
                const bool has_sigmoid = c != 2 && c != 3;
                const A grad = has_sigmoid ? weighted_error * predicted[c] * (1 - predicted[c]) : weighted_error;
                store(to, c * cells, nan_if_invalid + grad, gradient_request);
            }

            if (!is_assigned) {
                for (int64_t k = 0; k < classes; ++k)
                    store(to, (5 + k) * cells, nan_if_invalid, gradient_request);
                continue;
            }
            const ClassLogits<T, A> logits(from + 5 * cells, classes, cells, map.softmax);
            for (int64_t k = 0; k < classes; ++k) {
                A class_target = 0;
                for (int64_t t = map.softmax ? last : first; t <= last; ++t) {
                    const GroundTruth<A> other(rows, t, classes, height, width);
                    if (other.valid && other.class_id == A(k) && other.column == column && other.row == row &&
                        map.best_anchor(other) == anchor)
                        class_target = 1;
                }
                const A weighted_error = A(class_scale) * (logits.probability(k) - class_target);
                sums[CLASSES] += A(class_scale) * logits.nll(k, class_target);
                sums[COST] += weighted_error * weighted_error;
                store(to, (5 + k) * cells, nan_if_invalid + weighted_error, gradient_request);
            }
        }

        A loss = nan_if_invalid;
        for (int p = 0; p < PARTS; ++p) {
            const A sum = reduce_row(sums[p], Sum());
            if (p <= CLASSES)
                loss += sum;
            if (threadIdx.x == 0)
                store(parts, b * PARTS + p, nan_if_invalid + sum, parts_request);
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
                                     int64_t box_loss, const double *__restrict__ anchor_sizes)
{
    const int64_t size = anchors * (5 + classes) * height * width;
    for (int64_t i = first_item(); i < batch * size; i += item_step())
        store(data_grad, i, load(gradient, i) * load(output_grad, i / size), data_grad_request);
}
