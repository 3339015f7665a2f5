// region_decode, one thread per anchor and cell: neighbours read neighbours in every plane of the map, but in the layout
// of boxes they write, or read the head gradients of, rows of 5 + classes each. Read more than once: for a softmax the
// class logits, three times in forward and four times in backward, and there their head gradients twice.

template <typename A> __device__ A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

template <typename A> struct Total { A max, sum; };

// The largest class logit and the sum of exp(logit - largest).
template <typename T, typename A>
__device__ Total<A> class_total(const T *logits, int64_t classes, int64_t cells)
{
    Total<A> all = {lowest<A>(), 0};
    for (int64_t k = 0; k < classes; ++k)
        all.max = load(logits, k * cells) > all.max ? load(logits, k * cells) : all.max;
    for (int64_t k = 0; k < classes; ++k)
        all.sum += exponential(load(logits, k * cells) - all.max);
    return all;
}

// Where a thread's numbers are: in the map from `map` on, a plane apart; in the output from `first` on, `step` apart.
struct Place {
    int64_t column, row, anchor, map, first, step;

    __device__ Place(int64_t item, int64_t anchors, int64_t channels, int64_t height, int64_t width, int64_t layout)
        : column(item % width), row(item / width % height), anchor(item / (width * height) % anchors)
    {
        const int64_t cells = height * width, map_of_anchor = item / cells * channels * cells;
        map = map_of_anchor + item % cells;
        first = layout == 0 ? item * channels : map;
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
        store(output, at.first, x, output_request);
        store(output, at.first + at.step, y, output_request);
        store(output, at.first + 2 * at.step, w, output_request);
        store(output, at.first + 3 * at.step, h, output_request);
        store(output, at.first + 4 * at.step, sigmoid(load(from, 4 * cells)), output_request);
        Total<A> all = {0, 1};
        if (softmax)
            all = class_total<T, A>(logits, classes, cells);
        for (int64_t k = 0; k < classes; ++k) {
            const A logit = load(logits, k * cells);
            store(output, at.first + (5 + k) * at.step,
                  softmax ? exponential(logit - all.max) / all.sum : sigmoid(logit), output_request);
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
        const T *from = data + at.map, *logits = from + 5 * cells, *head = output_grad + at.first;
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
            store(data_grad, at.map + c * cells, load(head, c * at.step) * slope * scale[c], data_grad_request);
        }
        Total<A> all = {0, 1};
        A along = 0;
        if (softmax) {
            all = class_total<T, A>(logits, classes, cells);
            for (int64_t k = 0; k < classes; ++k)
                along += exponential(load(logits, k * cells) - all.max) / all.sum * load(head, (5 + k) * at.step);
        }
        for (int64_t k = 0; k < classes; ++k) {
            const A logit = load(logits, k * cells), top = load(head, (5 + k) * at.step);
            const A p = softmax ? exponential(logit - all.max) / all.sum : sigmoid(logit);
            store(data_grad, at.map + (5 + k) * cells, softmax ? p * (top - along) : top * p * (1 - p),
                  data_grad_request);
        }
    }
}
