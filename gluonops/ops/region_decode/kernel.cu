// region_decode, one thread per anchor and cell. Neighbouring threads read neighbours in every plane of the map. In
// the layout of boxes each writes, or reads the head gradient of, a row of 5 + classes numbers. For a softmax the
// class logits are read three times in forward and four times in backward, and there their head gradients twice.
#include "../_region/region.cuh"

// Where a thread's numbers are: in the map from `map` on, a plane apart; in the output from `output` on, `step` apart.
struct Place {
    int64_t column, row, anchor, map, output, step;

    __device__ Place(int64_t item, int64_t anchors, int64_t channels, int64_t height, int64_t width, int64_t layout)
        : column(item % width), row(item / width % height), anchor(item / (width * height) % anchors)
    {
        const int64_t cells = height * width, map_of_anchor = item / cells * channels * cells;
        map = map_of_anchor + item % cells;
        output = layout == 0 ? item * channels : map;
        step = layout == 0 ? 1 : cells;
    }
};

template <typename T>
__global__ void region_decode_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                                      int64_t batch, int64_t anchors, int64_t classes, int64_t height, int64_t width,
                                      int64_t softmax, int64_t layout, const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = height * width;
    for (int64_t item = first_item(); item < batch * anchors * cells; item += item_step()) {
        const Place at(item, anchors, 5 + classes, height, width, layout);
        const T *from = data + at.map, *logits = from + 5 * cells;
        A x = sigmoid(load(from, 0)), y = sigmoid(load(from, cells));
        A w = load(from, 2 * cells), h = load(from, 3 * cells);
        if (layout == 0) {
            x = (A(at.column) + x) / A(width);
            y = (A(at.row) + y) / A(height);
            w = exponential(w) * (A(anchor_sizes[2 * at.anchor]) / A(width));
            h = exponential(h) * (A(anchor_sizes[2 * at.anchor + 1]) / A(height));
        }
        store(output, at.output, x, output_request);
        store(output, at.output + at.step, y, output_request);
        store(output, at.output + 2 * at.step, w, output_request);
        store(output, at.output + 3 * at.step, h, output_request);
        store(output, at.output + 4 * at.step, sigmoid(load(from, 4 * cells)), output_request);

        ClassMaxAndSum<A> total = {0, 1};
        if (softmax)
            total = class_max_and_sum<T, A>(logits, classes, cells);
        for (int64_t k = 0; k < classes; ++k) {
            const A logit = load(logits, k * cells);
            const A p = softmax ? exponential(logit - total.max) / total.sum : sigmoid(logit);
            store(output, at.output + (5 + k) * at.step, p, output_request);
        }
    }
}

template <typename T>
__global__ void region_decode_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                       T *__restrict__ data_grad, int data_grad_request, int64_t batch, int64_t anchors,
                                       int64_t classes, int64_t height, int64_t width, int64_t softmax, int64_t layout,
                                       const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = height * width;
    for (int64_t item = first_item(); item < batch * anchors * cells; item += item_step()) {
        const Place at(item, anchors, 5 + classes, height, width, layout);
        const T *from = data + at.map, *logits = from + 5 * cells, *heads = output_grad + at.output;
        A scale[5] = {1, 1, 1, 1, 1};
        if (layout == 0) {
            scale[0] = A(1) / A(width);
            scale[1] = A(1) / A(height);
            scale[2] = exponential(load(from, 2 * cells)) * (A(anchor_sizes[2 * at.anchor]) / A(width));
            scale[3] = exponential(load(from, 3 * cells)) * (A(anchor_sizes[2 * at.anchor + 1]) / A(height));
        }
        for (int c = 0; c < 5; ++c) {
            const A activated = sigmoid(load(from, c * cells));
            const A slope = c == 2 || c == 3 ? A(1) : activated * (1 - activated);
            store(data_grad, at.map + c * cells, load(heads, c * at.step) * slope * scale[c], data_grad_request);
        }

        ClassMaxAndSum<A> total = {0, 1};
        A dot = 0;   // of the probabilities and the head gradient
        if (softmax) {
            total = class_max_and_sum<T, A>(logits, classes, cells);
            for (int64_t k = 0; k < classes; ++k) {
                const A p = exponential(load(logits, k * cells) - total.max) / total.sum;
                dot += p * load(heads, (5 + k) * at.step);
            }
        }
        for (int64_t k = 0; k < classes; ++k) {
            const A logit = load(logits, k * cells), head = load(heads, (5 + k) * at.step);
            const A p = softmax ? exponential(logit - total.max) / total.sum : sigmoid(logit);
            const A grad = softmax ? p * (head - dot) : head * p * (1 - p);
            store(data_grad, at.map + (5 + k) * cells, grad, data_grad_request);
        }
    }
}
