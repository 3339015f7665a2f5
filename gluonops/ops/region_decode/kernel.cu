// region_decode. A thread takes a prediction, one per anchor and cell, whose numbers are a plane apart in the map.
#include "../_region/class_logits.inl"

// A prediction: its cell, its anchor's size in units of the image, and where its numbers are in both tensors.
template <typename T>
struct Prediction {
    typedef typename Accumulator<T>::type A;
    const RegionDecodeArgs<T> &args;
    bool boxes;   // the layout of the output, else that of the map
    int64_t cells, column, row, in_map, in_output, output_step;
    A prior_w, prior_h;

    __device__ Prediction(const RegionDecodeArgs<T> &args, int64_t number)
        : args(args), boxes(args.layout == RegionDecodeLayout::Boxes), cells(args.height * args.width)
    {
        const int64_t plane = quotient(number, cells), cell = number - plane * cells;
        const int64_t anchor = plane - quotient(plane, args.anchor_count) * args.anchor_count;
        row = quotient(cell, args.width);
        column = cell - row * args.width;
        in_map = plane * args.channels * cells + cell;
        in_output = boxes ? number * args.channels : in_map;
        output_step = boxes ? 1 : cells;
        prior_w = A(args.anchors.values[2 * anchor]) / A(args.width);
        prior_h = A(args.anchors.values[2 * anchor + 1]) / A(args.height);
    }

    __device__ ClassLogits<T> class_logits() const
    {
        return ClassLogits<T>(args.data + in_map + 5 * cells, args.classes, cells, args.softmax);
    }

    // x, y, w, h and objectness from the numbers of the map, in place.
    __device__ void decode_box(A *numbers) const
    {
        numbers[0] = sigmoid(numbers[0]);
        numbers[1] = sigmoid(numbers[1]);
        numbers[4] = sigmoid(numbers[4]);
        if (!boxes)
            return;
        numbers[0] = (A(column) + numbers[0]) / A(args.width);
        numbers[1] = (A(row) + numbers[1]) / A(args.height);
        numbers[2] = exponential(numbers[2]) * prior_w;
        numbers[3] = exponential(numbers[3]) * prior_h;
    }

    // The derivative of the c-th of these by its number x of the map.
    __device__ A box_slope(int c, A x) const
    {
        if (c == 2 || c == 3)
            return boxes ? exponential(x) * (c == 2 ? prior_w : prior_h) : A(1);
        const A activated = sigmoid(x), slope = activated * (1 - activated);
        return !boxes || c == 4 ? slope : slope / A(c == 0 ? args.width : args.height);
    }
};

template <typename T>
__device__ void forward(const RegionDecodeArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = args.height * args.width;
    for (int64_t i = first_item(); i < args.batch * args.anchor_count * cells; i += item_step()) {
        const Prediction<T> prediction(args, i);
        const T *const from = args.data + prediction.in_map;
        T *const to = args.output + prediction.in_output;
        A numbers[5];
        for (int c = 0; c < 5; ++c)
            numbers[c] = load(from, c * cells);
        prediction.decode_box(numbers);
        for (int c = 0; c < 5; ++c)
            store(to, c * prediction.output_step, numbers[c], args.output_request);
        const auto of_classes = prediction.class_logits();
        for (int64_t k = 0; k < args.classes; ++k)
            store(to, (5 + k) * prediction.output_step, of_classes.probability(k), args.output_request);
    }
}

template <typename T>
__device__ void backward(const RegionDecodeArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t cells = args.height * args.width;
    for (int64_t i = first_item(); i < args.batch * args.anchor_count * cells; i += item_step()) {
        const Prediction<T> prediction(args, i);
        const int64_t step = prediction.output_step;
        const T *const from = args.data + prediction.in_map, *const heads = args.output_grad + prediction.in_output;
        T *const to = args.data_grad + prediction.in_map;
        for (int c = 0; c < 5; ++c) {
            const A slope = prediction.box_slope(c, load(from, c * cells));
            store(to, c * cells, load(heads, c * step) * slope, args.data_grad_request);
        }
        const auto of_classes = prediction.class_logits();
        A dot = 0;   // the product of the probabilities and the head gradient
        for (int64_t k = 0; k < args.classes && of_classes.softmax; ++k)
            dot += of_classes.probability(k) * load(heads, (5 + k) * step);
        for (int64_t k = 0; k < args.classes; ++k) {
            const A p = of_classes.probability(k), head = load(heads, (5 + k) * step);
            store(to, (5 + k) * cells, p * (of_classes.softmax ? head - dot : head * (1 - p)), args.data_grad_request);
        }
    }
}
