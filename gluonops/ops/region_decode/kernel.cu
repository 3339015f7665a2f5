// region_decode. A warp takes 32 predictions, one per anchor and cell, a lane each. Their numbers are neighbours in any
// plane of the map. In the layout of boxes a prediction's own numbers are neighbours, so there they go through shared
// memory, some channels at a time, and neighbouring lanes move neighbouring numbers.
#include "../_region/class_logits.inl"

// Some channels of a warp's predictions: a row for each.
template <typename A>
struct Tile {
    enum { CHANNELS = 128 / sizeof(A) };
    A numbers[WARP][CHANNELS + 1];   // one more, so that lanes that take the same channel use different banks

    // Returns the tile of this warp.
    __device__ static Tile &own()
    {
        __shared__ Tile tiles[WARPS];
        return tiles[threadIdx.x / WARP];
    }

    // Moves `channels` numbers of each of `rows`, which are `pitch` apart. Neighbouring lanes move neighbours.
    template <typename T>
    __device__ void read(const T *from, int64_t pitch, int64_t rows, int64_t channels)
    {
        const int lane = threadIdx.x % WARP, channel = lane % CHANNELS;
        from += minimum(channel, channels - 1);
        __syncwarp();   // the numbers before these are used
#pragma unroll 8
        for (int row = lane / CHANNELS; row < WARP; row += WARP / CHANNELS)
            numbers[row][channel] = load(from, minimum(row, rows - 1) * pitch);
        __syncwarp();   // all numbers are here
    }

    template <typename T>
    __device__ void write(T *to, int64_t pitch, int64_t rows, int64_t channels, int request) const
    {
        const int lane = threadIdx.x % WARP, channel = lane % CHANNELS;
        __syncwarp();   // all numbers are here
#pragma unroll 8
        for (int row = lane / CHANNELS; row < rows && channel < channels; row += WARP / CHANNELS)
            store(to + channel, row * pitch, numbers[row][channel], request);
        __syncwarp();   // they are written
    }
};

// A prediction: its cell, its anchor's size in units of the image, and where its numbers are in the map.
template <typename T>
struct Prediction {
    typedef typename Accumulator<T>::type A;
    const RegionDecodeArgs<T> &args;
    bool boxes;   // the layout of the output, else that of the map
    int64_t cells, column, row, in_map;
    A prior_w, prior_h;

    __device__ Prediction(const RegionDecodeArgs<T> &args, int64_t number)
        : args(args), boxes(args.layout == RegionDecodeLayout::Boxes), cells(args.height * args.width)
    {
        const int64_t plane = quotient(number, cells), cell = number - plane * cells;
        const int64_t anchor = plane - quotient(plane, args.anchor_count) * args.anchor_count;
        row = quotient(cell, args.width);
        column = cell - row * args.width;
        in_map = plane * args.channels * cells + cell;
        prior_w = A(args.anchors.values[2 * anchor]) / A(args.width);
        prior_h = A(args.anchors.values[2 * anchor + 1]) / A(args.height);
    }

    __device__ ClassLogits<T> class_logits() const
    {
        return ClassLogits<T>(args.data + in_map + 5 * cells, args.classes, cells, args.softmax);
    }

    __device__ A number(int c) const { return load(args.data + in_map, c * cells); }

    // x, y, w, h and objectness from the numbers of the map.
    __device__ void decode_box(A *numbers) const
    {
        for (int c = 0; c < 5; ++c)
            numbers[c] = number(c);
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

    // Returns the derivative of the c-th of these by its number of the map.
    __device__ A box_slope(int c) const
    {
        const A x = number(c);
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
    enum { CHANNELS = Tile<A>::CHANNELS };
    Tile<A> &tile = Tile<A>::own();
    const int64_t predictions = args.batch * args.anchor_count * args.height * args.width;
    const int lane = threadIdx.x % WARP;
    A *const own = tile.numbers[lane];
    for (int64_t first = first_item() - lane; first < predictions; first += item_step()) {
        const int64_t count = minimum(WARP, predictions - first);
        const Prediction<T> prediction(args, first + minimum(lane, count - 1));
        const auto of_classes = prediction.class_logits();
        for (int64_t c = 0; c < args.channels; c += CHANNELS) {
            const int64_t channels = minimum(CHANNELS, args.channels - c);
            if (c == 0)
                prediction.decode_box(own);
#pragma unroll 4
            for (int64_t k = c == 0 ? 5 : 0; k < channels; ++k)
                own[k] = of_classes.probability(c + k - 5);
            if (prediction.boxes)
                tile.write(args.output + first * args.channels + c, args.channels, count, channels,
                           args.output_request);
            for (int64_t k = 0; !prediction.boxes && lane < count && k < channels; ++k)
                store(args.output + prediction.in_map, (c + k) * prediction.cells, own[k], args.output_request);
        }
    }
}

// Calls of_box(c, grad_out) and of_class(k, grad_out) for the head gradients of a lane's prediction, of `count` in the
// warp. Where `to` is not null, what they leave in the place of grad_out goes there, a plane apart.
template <typename T, typename OfBox, typename OfClass>
__device__ void for_gradients(const RegionDecodeArgs<T> &args, const Prediction<T> &prediction, int64_t first,
                              int64_t count, T *to, const OfBox &of_box, const OfClass &of_class)
{
    typedef typename Accumulator<T>::type A;
    enum { CHANNELS = Tile<A>::CHANNELS };
    Tile<A> &tile = Tile<A>::own();
    A *const own = tile.numbers[threadIdx.x % WARP];
    for (int64_t c = 0; c < args.channels; c += CHANNELS) {
        const int64_t channels = minimum(CHANNELS, args.channels - c);
        if (prediction.boxes)
            tile.read(args.output_grad + first * args.channels + c, args.channels, count, channels);
#pragma unroll 4
        for (int64_t k = 0; !prediction.boxes && k < channels; ++k)
            own[k] = load(args.output_grad + prediction.in_map, (c + k) * prediction.cells);
        for (int k = 0; c == 0 && k < 5; ++k)
            of_box(k, own[k]);
#pragma unroll 4
        for (int64_t k = c == 0 ? 5 : 0; k < channels; ++k)
            of_class(c + k - 5, own[k]);
#pragma unroll 4
        for (int64_t k = 0; to && k < channels; ++k)
            store(to, (c + k) * prediction.cells, own[k], args.data_grad_request);
    }
}

template <typename T>
__device__ void backward(const RegionDecodeArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t predictions = args.batch * args.anchor_count * args.height * args.width;
    const int lane = threadIdx.x % WARP;
    T *const nowhere = 0;
    for (int64_t first = first_item() - lane; first < predictions; first += item_step()) {
        const int64_t count = minimum(WARP, predictions - first);
        const Prediction<T> prediction(args, first + minimum(lane, count - 1));
        const auto of_classes = prediction.class_logits();
        T *const to = lane < count ? args.data_grad + prediction.in_map : nowhere;
        A dot = 0;   // the product of the probabilities and the head gradient
        if (of_classes.softmax)
            for_gradients(args, prediction, first, count, nowhere, [](int, A) {}, [&](int64_t k, A grad_out) {
                dot += of_classes.probability(k) * grad_out;
            });
        for_gradients(args, prediction, first, count, to, [&](int c, A &grad_out) {
            grad_out *= prediction.box_slope(c);
        }, [&](int64_t k, A &grad_out) {
            const A p = of_classes.probability(k);
            grad_out = p * (of_classes.softmax ? grad_out - dot : grad_out * (1 - p));
        });
    }
}
