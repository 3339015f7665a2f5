// region_decode. A thread takes a prediction, one per anchor and cell, whose numbers are a plane apart in the map.
#include "../_region/class_logits.inl"

struct Sizes {
    int64_t anchors, channels, height, width;
    bool softmax, boxes;   // boxes: the layout of the output, else that of the map
    const double *anchor_sizes;

    __device__ int64_t cells() const { return height * width; }
};

// A prediction: its cell, its anchor's size in units of the image, and where its numbers are in both tensors.
template <typename A>
struct Prediction {
    int64_t column, row, in_map, in_output, output_step;
    A prior_w, prior_h;

    __device__ Prediction(int64_t number, const Sizes &sizes)
    {
        const int64_t cells = sizes.cells(), plane = quotient(number, cells), cell = number - plane * cells;
        const int64_t anchor = plane - quotient(plane, sizes.anchors) * sizes.anchors;
        row = quotient(cell, sizes.width);
        column = cell - row * sizes.width;
        in_map = plane * sizes.channels * cells + cell;
        in_output = sizes.boxes ? number * sizes.channels : in_map;
        output_step = sizes.boxes ? 1 : cells;
        prior_w = A(sizes.anchor_sizes[2 * anchor]) / A(sizes.width);
        prior_h = A(sizes.anchor_sizes[2 * anchor + 1]) / A(sizes.height);
    }

    // x, y, w, h and objectness from the numbers of the map, in place.
    __device__ void decode_box(A *numbers, const Sizes &sizes) const
    {
        numbers[0] = sigmoid(numbers[0]);
        numbers[1] = sigmoid(numbers[1]);
        numbers[4] = sigmoid(numbers[4]);
        if (!sizes.boxes)
            return;
        numbers[0] = (A(column) + numbers[0]) / A(sizes.width);
        numbers[1] = (A(row) + numbers[1]) / A(sizes.height);
        numbers[2] = exponential(numbers[2]) * prior_w;
        numbers[3] = exponential(numbers[3]) * prior_h;
    }

    // The derivative of the c-th of these by its number x of the map.
    __device__ A box_slope(int c, A x, const Sizes &sizes) const
    {
        if (c == 2 || c == 3)
            return sizes.boxes ? exponential(x) * (c == 2 ? prior_w : prior_h) : A(1);
        const A activated = sigmoid(x), slope = activated * (1 - activated);
        return !sizes.boxes || c == 4 ? slope : slope / A(c == 0 ? sizes.width : sizes.height);
    }
};

template <typename T>
__device__ Sizes sizes_of(const RegionDecodeArgs<T> &args)
{
    const Sizes sizes = {args.anchor_count, args.channels, args.height, args.width, args.softmax,
                         args.layout == RegionDecodeLayout::Boxes, args.anchors.values};
    return sizes;
}

template <typename T>
__device__ void forward(const RegionDecodeArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Sizes sizes = sizes_of(args);
    const int64_t cells = sizes.cells();
    for (int64_t i = first_item(); i < args.batch * sizes.anchors * cells; i += item_step()) {
        const Prediction<A> prediction(i, sizes);
        const T *const from = args.data + prediction.in_map;
        T *const to = args.output + prediction.in_output;
        A numbers[5];
        for (int c = 0; c < 5; ++c)
            numbers[c] = load(from, c * cells);
        prediction.decode_box(numbers, sizes);
        for (int c = 0; c < 5; ++c)
            store(to, c * prediction.output_step, numbers[c], args.output_request);
        const ClassLogits<T> of_classes(from + 5 * cells, args.classes, cells, sizes.softmax);
        for (int64_t k = 0; k < args.classes; ++k)
            store(to, (5 + k) * prediction.output_step, of_classes.probability(k), args.output_request);
    }
}

template <typename T>
__device__ void backward(const RegionDecodeArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Sizes sizes = sizes_of(args);
    const int64_t cells = sizes.cells();
    for (int64_t i = first_item(); i < args.batch * sizes.anchors * cells; i += item_step()) {
        const Prediction<A> prediction(i, sizes);
        const int64_t step = prediction.output_step;
        const T *const from = args.data + prediction.in_map, *const heads = args.output_grad + prediction.in_output;
        T *const to = args.data_grad + prediction.in_map;
        for (int c = 0; c < 5; ++c) {
            const A slope = prediction.box_slope(c, load(from, c * cells), sizes);
            store(to, c * cells, load(heads, c * step) * slope, args.data_grad_request);
        }
        const ClassLogits<T> of_classes(from + 5 * cells, args.classes, cells, sizes.softmax);
        A dot = 0;   // the product of the probabilities and the head gradient
        for (int64_t k = 0; k < args.classes && sizes.softmax; ++k)
            dot += of_classes.probability(k) * load(heads, (5 + k) * step);
        for (int64_t k = 0; k < args.classes; ++k) {
            const A p = of_classes.probability(k), head = load(heads, (5 + k) * step);
            store(to, (5 + k) * cells, p * (sizes.softmax ? head - dot : head * (1 - p)), args.data_grad_request);
        }
    }
}
