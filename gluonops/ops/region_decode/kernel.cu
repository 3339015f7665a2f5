// region_decode. A block of threads decodes a tile of predictions, one per anchor and cell, in shared memory. It reads
// and writes the tile so that neighbouring threads take neighbours: in the map, which has a plane per channel,
// neighbouring cells; in the layout of boxes, neighbouring numbers of a prediction. Bytes moved: every tensor once.
//
// Where the channels of 8 predictions do not fit into shared memory, a thread takes a prediction alone, and reads the
// class logits several times.
#include "../_region/region.cuh"

enum { THREADS = 256, SHARED_BYTES = 26 * 1024, SMALLEST_TILE = 8, BATCH = 8 };

struct Sizes {
    int64_t anchors, channels, height, width;
    bool softmax, boxes;                     // boxes: the layout of the output, else that of the map
    const double *anchor_sizes;

    __device__ int64_t cells() const { return height * width; }
    __device__ int64_t classes() const { return channels - 5; }
};

// Where a prediction is: in the map from `map` on, a plane apart.
struct Place {
    int64_t anchor, column, row, map;

    __device__ Place(int64_t prediction, const Sizes &sizes)
    {
        const int64_t cells = sizes.cells(), plane = prediction / cells, cell = prediction - plane * cells;
        anchor = plane % sizes.anchors;
        row = cell / sizes.width;
        column = cell - row * sizes.width;
        map = plane * sizes.channels * cells + cell;
    }
};

// The factors of w and h in units of the image.
template <typename A> struct Prior {
    A w, h;

    __device__ Prior(int64_t anchor, const Sizes &sizes)
        : w(A(sizes.anchor_sizes[2 * anchor]) / A(sizes.width)),
          h(A(sizes.anchor_sizes[2 * anchor + 1]) / A(sizes.height)) {}
};

// x, y, w, h and objectness of a prediction from the numbers of the map, in place.
template <typename A>
__device__ void decode_box(A *numbers, const Place &at, const Sizes &sizes)
{
    numbers[0] = sigmoid(numbers[0]);
    numbers[1] = sigmoid(numbers[1]);
    numbers[4] = sigmoid(numbers[4]);
    if (!sizes.boxes)
        return;
    const Prior<A> prior(at.anchor, sizes);
    numbers[0] = (A(at.column) + numbers[0]) / A(sizes.width);
    numbers[1] = (A(at.row) + numbers[1]) / A(sizes.height);
    numbers[2] = exponential(numbers[2]) * prior.w;
    numbers[3] = exponential(numbers[3]) * prior.h;
}

// The gradients of the five numbers of the map, in place; `heads` are those of the output.
template <typename A, typename Heads>
__device__ void box_gradient(A *numbers, const Heads *heads, int64_t step, const Place &at, const Sizes &sizes)
{
    A scale[5] = {1, 1, 1, 1, 1};
    if (sizes.boxes) {
        const Prior<A> prior(at.anchor, sizes);
        scale[0] = A(1) / A(sizes.width);
        scale[1] = A(1) / A(sizes.height);
        scale[2] = exponential(numbers[2]) * prior.w;
        scale[3] = exponential(numbers[3]) * prior.h;
    }
#pragma unroll
    for (int c = 0; c < 5; ++c) {
        const A activated = sigmoid(numbers[c]);
        const A slope = c == 2 || c == 3 ? A(1) : activated * (1 - activated);
        numbers[c] = load(heads, c * step) * slope * scale[c];
    }
}

// The largest tile whose rows of this many numbers fit into shared memory: a power of two; 0 below SMALLEST_TILE.
template <typename A>
__device__ unsigned tile_size(int64_t numbers)
{
    unsigned size = THREADS;
    while (size >= SMALLEST_TILE && size * numbers * int64_t(sizeof(A)) > SHARED_BYTES)
        size /= 2;
    return size >= SMALLEST_TILE ? size : 0;
}

// A row's step in a tile: odd, so that threads that take the same number of different rows use different banks.
__device__ inline int64_t row_pitch(int64_t channels) { return channels | 1; }

// Predictions in shared memory, a row of numbers each.
template <typename A> struct Tile {
    A *numbers;
    unsigned size, pitch, count;   // size: a power of two, the largest count
    int64_t first;                 // the number of the first prediction

    __device__ A *row(unsigned prediction) const { return numbers + prediction * pitch; }
};

// The part of a tile that this thread takes from or to a map: every channel_step-th channel of one prediction. `start`
// and `step` are those in the map.
struct MapPart {
    unsigned count, row, channel_step;
    int64_t start, step;

    template <typename A>
    __device__ MapPart(const Tile<A> &tile, const Sizes &sizes)
    {
        const unsigned prediction = threadIdx.x % tile.size, channel = threadIdx.x / tile.size;
        const unsigned channels = unsigned(sizes.channels);
        const int64_t cells = sizes.cells();
        channel_step = THREADS / tile.size;
        row = prediction * tile.pitch + channel;
        start = Place(tile.first + prediction, sizes).map + channel * cells;
        step = channel_step * cells;
        const bool any = prediction < tile.count && channel < channels;
        count = any ? (channels - channel - 1) / channel_step + 1 : 0;
    }
};

// BATCH loads are under way at a time.
template <typename A, typename T>
__device__ void read_map(const Tile<A> &tile, const T *__restrict__ map, const Sizes &sizes)
{
    const MapPart part(tile, sizes);
    const T *from = map + part.start;
    A *to = tile.numbers + part.row;
    for (unsigned n = 0; n < part.count; n += BATCH) {
        T batch[BATCH];
#pragma unroll
        for (int m = 0; m < BATCH; ++m, from += part.step)
            if (n + m < part.count)
                batch[m] = *from;
#pragma unroll
        for (int m = 0; m < BATCH; ++m, to += part.channel_step)
            if (n + m < part.count)
                *to = load(batch, m);
    }
}

template <typename A, typename T>
__device__ void write_map(const Tile<A> &tile, T *__restrict__ map, const Sizes &sizes, int request)
{
    const MapPart part(tile, sizes);
    T *to = map + part.start;
    const A *from = tile.numbers + part.row;
#pragma unroll 4
    for (unsigned n = 0; n < part.count; ++n, from += part.channel_step, to += part.step)
        store(to, 0, *from, request);
}

// In the layout of boxes the numbers of a tile are neighbours; in shared memory they are where pitch is channels.
template <typename A, typename T>
__device__ bool packed(const Tile<A> &tile, const T *boxes, const Sizes &sizes)
{
    return tile.pitch == sizes.channels && tile.count * tile.pitch % Pack<T>::SIZE == 0 && aligned(boxes);
}

template <typename A, typename T>
__device__ void read_boxes(const Tile<A> &tile, const T *__restrict__ boxes, const Sizes &sizes)
{
    const Divisor channels(unsigned(sizes.channels));
    const unsigned count = tile.count * channels.by;
    const T *const from = boxes + tile.first * sizes.channels;
    if (packed(tile, from, sizes)) {
#pragma unroll 4
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < count; i += THREADS * Pack<T>::SIZE) {
            const Pack<T> pack = load_pack(from, i);
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j)
                tile.numbers[i + j] = load(pack.items, j);
        }
        return;
    }
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        unsigned channel;
        A *const row = tile.row(channels.divide(i, channel));
        row[channel] = load(from, i);
    }
}

template <typename A, typename T>
__device__ void write_boxes(const Tile<A> &tile, T *__restrict__ boxes, const Sizes &sizes, int request)
{
    const Divisor channels(unsigned(sizes.channels));
    const unsigned count = tile.count * channels.by;
    T *const to = boxes + tile.first * sizes.channels;
    if (packed(tile, to, sizes)) {
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < count; i += THREADS * Pack<T>::SIZE)
            store_pack(to, i, tile.numbers + i, request);
        return;
    }
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        unsigned channel;
        const A *const row = tile.row(channels.divide(i, channel));
        store(to, i, row[channel], request);
    }
}

// The lanes that share a prediction: neighbours. Lane `first` of them takes every lanes-th class from there on.
struct Lanes {
    unsigned count, first, prediction;

    __device__ explicit Lanes(unsigned tile_size)
        : count(THREADS / tile_size), first(threadIdx.x % count), prediction(threadIdx.x / count) {}
};

// Turns each class logit x of a row into exp(x - max), or into its sigmoid. Returns what these are to be multiplied by.
template <typename A>
__device__ A activate_classes(A *logits, const Lanes &lanes, unsigned classes, bool softmax)
{
    if (!softmax) {
        for (unsigned k = lanes.first; k < classes; k += lanes.count)
            logits[k] = sigmoid(logits[k]);
        return 1;
    }
    A max = lowest<A>(), sum = 0;
#pragma unroll 4
    for (unsigned k = lanes.first; k < classes; k += lanes.count)
        max = Max()(logits[k], max);
    max = reduce_lanes(max, Max(), lanes.count);
#pragma unroll 4
    for (unsigned k = lanes.first; k < classes; k += lanes.count)
        sum += logits[k] = exponential(logits[k] - max);
    return A(1) / reduce_lanes(sum, Sum(), lanes.count);
}

// How many classes the lanes of a prediction have: none behind the last prediction. The lanes of a warp stay together.
template <typename A>
__device__ unsigned classes_of(const Tile<A> &tile, const Lanes &lanes, const Sizes &sizes)
{
    return lanes.prediction < tile.count ? unsigned(sizes.classes()) : 0;
}

// The first threads do the boxes, one each.
template <typename A>
__device__ void decode_tile(const Tile<A> &tile, const Sizes &sizes)
{
    if (threadIdx.x < tile.count)
        decode_box(tile.row(threadIdx.x), Place(tile.first + threadIdx.x, sizes), sizes);

    const Lanes lanes(tile.size);
    const unsigned classes = classes_of(tile, lanes, sizes);
    A *const probabilities = tile.row(lanes.prediction) + 5;
    const A scale = activate_classes(probabilities, lanes, classes, sizes.softmax);
#pragma unroll 4
    for (unsigned k = lanes.first; k < classes; k += lanes.count)
        probabilities[k] *= scale;
}

// In place of the numbers of the map their gradients.
template <typename A>
__device__ void tile_gradient(const Tile<A> &tile, const Tile<A> &head_tile, const Sizes &sizes)
{
    if (threadIdx.x < tile.count)
        box_gradient(tile.row(threadIdx.x), head_tile.row(threadIdx.x), 1, Place(tile.first + threadIdx.x, sizes),
                     sizes);

    const Lanes lanes(tile.size);
    A *const probabilities = tile.row(lanes.prediction) + 5;
    const A *const heads = head_tile.row(lanes.prediction) + 5;
    const unsigned classes = classes_of(tile, lanes, sizes);
    const A scale = activate_classes(probabilities, lanes, classes, sizes.softmax);
    A dot = 0;   // of the probabilities and the head gradient
#pragma unroll 4
    for (unsigned k = lanes.first; k < classes; k += lanes.count)
        dot += (probabilities[k] *= scale) * heads[k];
    dot = reduce_lanes(dot, Sum(), lanes.count);
#pragma unroll 4
    for (unsigned k = lanes.first; k < classes; k += lanes.count)
        probabilities[k] *= sizes.softmax ? heads[k] - dot : heads[k] * (1 - probabilities[k]);
}

// One prediction, without shared memory.
template <typename T>
__device__ void decode_alone(const T *__restrict__ data, T *__restrict__ output, int request, int64_t prediction,
                             const Sizes &sizes)
{
    typedef typename Accumulator<T>::type A;
    const Place at(prediction, sizes);
    const int64_t cells = sizes.cells(), step = sizes.boxes ? 1 : cells;
    const T *const from = data + at.map, *const logits = from + 5 * cells;
    T *const to = output + (sizes.boxes ? prediction * sizes.channels : at.map);
    A numbers[5];
    for (int c = 0; c < 5; ++c)
        numbers[c] = load(from, c * cells);
    decode_box(numbers, at, sizes);
    for (int c = 0; c < 5; ++c)
        store(to, c * step, numbers[c], request);

    ClassMaxAndSum<A> total = {0, 1};
    if (sizes.softmax)
        total = class_max_and_sum<T, A>(logits, sizes.classes(), cells);
    for (int64_t k = 0; k < sizes.classes(); ++k) {
        const A logit = load(logits, k * cells);
        const A p = sizes.softmax ? exponential(logit - total.max) / total.sum : sigmoid(logit);
        store(to, (5 + k) * step, p, request);
    }
}

template <typename T>
__device__ void gradient_alone(const T *__restrict__ output_grad, const T *__restrict__ data, T *__restrict__ data_grad,
                               int request, int64_t prediction, const Sizes &sizes)
{
    typedef typename Accumulator<T>::type A;
    const Place at(prediction, sizes);
    const int64_t cells = sizes.cells(), step = sizes.boxes ? 1 : cells;
    const T *const from = data + at.map, *const logits = from + 5 * cells;
    const T *const heads = output_grad + (sizes.boxes ? prediction * sizes.channels : at.map);
    A numbers[5];
    for (int c = 0; c < 5; ++c)
        numbers[c] = load(from, c * cells);
    box_gradient(numbers, heads, step, at, sizes);
    for (int c = 0; c < 5; ++c)
        store(data_grad, at.map + c * cells, numbers[c], request);

    ClassMaxAndSum<A> total = {0, 1};
    A dot = 0;   // of the probabilities and the head gradient
    if (sizes.softmax) {
        total = class_max_and_sum<T, A>(logits, sizes.classes(), cells);
        for (int64_t k = 0; k < sizes.classes(); ++k)
            dot += exponential(load(logits, k * cells) - total.max) / total.sum * load(heads, (5 + k) * step);
    }
    for (int64_t k = 0; k < sizes.classes(); ++k) {
        const A logit = load(logits, k * cells), head = load(heads, (5 + k) * step);
        const A p = sizes.softmax ? exponential(logit - total.max) / total.sum : sigmoid(logit);
        const A grad = sizes.softmax ? p * (head - dot) : head * p * (1 - p);
        store(data_grad, at.map + (5 + k) * cells, grad, request);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
region_decode_forward(const T *__restrict__ data, T *__restrict__ output, int output_request, int64_t batch,
                      int64_t anchors, int64_t classes, int64_t height, int64_t width, int64_t softmax, int64_t layout,
                      const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Pack<A> packs[SHARED_BYTES / sizeof(Pack<A>)];
    A *const numbers = packs[0].items;
    const Sizes sizes = {anchors, 5 + classes, height, width, softmax != 0, layout == 0, anchor_sizes};
    const int64_t predictions = batch * anchors * sizes.cells(), pitch = row_pitch(sizes.channels);
    const unsigned size = tile_size<A>(pitch);
    if (output_request == NOTHING)
        return;
    if (size == 0) {
        for (int64_t i = first_item(); i < predictions; i += item_step())
            decode_alone(data, output, output_request, i, sizes);
        return;
    }
    for (int64_t first = int64_t(blockIdx.x) * size; first < predictions; first += int64_t(gridDim.x) * size) {
        const Tile<A> tile = {numbers, size, unsigned(pitch), unsigned(minimum(size, predictions - first)), first};
        __syncthreads();   // the tile before may still be read
        read_map(tile, data, sizes);
        __syncthreads();   // the tile is read
        decode_tile(tile, sizes);
        __syncthreads();   // the tile is decoded
        if (sizes.boxes)
            write_boxes(tile, output, sizes, output_request);
        else
            write_map(tile, output, sizes, output_request);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 3)
region_decode_backward(const T *__restrict__ output_grad, const T *__restrict__ data, T *__restrict__ data_grad,
                       int data_grad_request, int64_t batch, int64_t anchors, int64_t classes, int64_t height,
                       int64_t width, int64_t softmax, int64_t layout, const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Pack<A> packs[SHARED_BYTES / sizeof(Pack<A>)];
    A *const numbers = packs[0].items;
    const Sizes sizes = {anchors, 5 + classes, height, width, softmax != 0, layout == 0, anchor_sizes};
    const int64_t predictions = batch * anchors * sizes.cells(), pitch = row_pitch(sizes.channels);
    const unsigned size = tile_size<A>(2 * pitch);
    if (data_grad_request == NOTHING)
        return;
    if (size == 0) {
        for (int64_t i = first_item(); i < predictions; i += item_step())
            gradient_alone(output_grad, data, data_grad, data_grad_request, i, sizes);
        return;
    }
    for (int64_t first = int64_t(blockIdx.x) * size; first < predictions; first += int64_t(gridDim.x) * size) {
        const unsigned count = unsigned(minimum(size, predictions - first));
        const Tile<A> tile = {numbers, size, unsigned(pitch), count, first};
        const Tile<A> heads = {numbers + size * pitch, size, unsigned(pitch), count, first};
        read_map(tile, data, sizes);
        if (sizes.boxes)
            read_boxes(heads, output_grad, sizes);
        else
            read_map(heads, output_grad, sizes);
        __syncthreads();   // both tiles are read
        tile_gradient(tile, heads, sizes);
        __syncthreads();   // the gradients are computed
        write_map(tile, data_grad, sizes, data_grad_request);
    }
}
