// region_decode. A block of threads decodes a tile of predictions, one per anchor and cell, in shared memory. A thread
// takes some channels of one prediction, and neighbouring threads take neighbouring predictions, which are neighbours in
// the map: it has a plane per channel. In the layout of boxes, where the numbers of a prediction are neighbours, a tile is
// read and written as it lies there. Bytes moved: every tensor once.
//
// Where the channels of 8 predictions do not fit into shared memory, a thread takes a prediction alone, and reads the
// class logits several times.
#include "../_region/region.cuh"

enum { THREADS = 256, SMALLEST_TILE = 8, BATCH = 3 };

// Shared memory for tiles. A number of each thread takes some more.
template <typename A> struct TileBytes {
    enum { FORWARD = 26 * 1024, BACKWARD = (sizeof(A) == 8 ? 40 : 43) * 1024 };
};

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
        const int64_t cells = sizes.cells(), plane = quotient(prediction, cells), cell = prediction - plane * cells;
        anchor = plane - quotient(plane, sizes.anchors) * sizes.anchors;
        row = quotient(cell, sizes.width);
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

// The largest tile whose rows of so many numbers fit into shared memory: a power of two; 0 below SMALLEST_TILE.
template <typename A>
__device__ unsigned tile_size(int64_t numbers, int shared_bytes)
{
    if (numbers > shared_bytes / SMALLEST_TILE / int64_t(sizeof(A)))
        return 0;
    unsigned size = THREADS;
    while (size * unsigned(numbers) * unsigned(sizeof(A)) > unsigned(shared_bytes))
        size /= 2;
    return size;
}

// A row's step in a tile: odd, so that threads that take the same number of different rows use different banks.
__device__ inline int64_t row_pitch(int64_t channels) { return channels | 1; }

// Predictions in shared memory, a row of numbers each.
template <typename A> struct Tile {
    A *numbers;
    unsigned pitch, count;
    int64_t first;   // the number of the first prediction

    __device__ A *row(unsigned prediction) const { return numbers + prediction * pitch; }
};

// What a thread takes of each tile: neighbouring channels of one prediction. Neighbouring threads take neighbouring
// predictions.
struct Share {
    unsigned tile_size, prediction, first, end;   // the channels first, ..., end - 1

    __device__ Share(unsigned tile_size, unsigned channels)
        : tile_size(tile_size), prediction(threadIdx.x & (tile_size - 1))
    {
        const int log_size = 31 - __clz(tile_size);
        const unsigned lanes = THREADS >> log_size, lane = threadIdx.x >> log_size;   // of a prediction
        const unsigned most = (channels + lanes - 1) / lanes;
        first = unsigned(minimum(lane * most, channels));
        end = unsigned(minimum(first + most, channels));
    }

    __device__ bool is_first_lane() const { return threadIdx.x == prediction; }

    // `numbers` has one of each thread: those of the threads that share the prediction, combined in their order.
    template <typename A, typename Combine>
    __device__ A combined(const A *numbers, Combine combine) const
    {
        A value = numbers[prediction];
        for (unsigned other = prediction + tile_size; other < THREADS; other += tile_size)
            value = combine(value, numbers[other]);
        return value;
    }
};

// A share of one tile.
struct Part {
    Share share;
    Place at;
    bool exists;   // false behind the last prediction: there is nothing to read and nothing to write
    int64_t cells;

    template <typename A>
    __device__ Part(const Share &share, const Tile<A> &tile, const Sizes &sizes)
        : share(share), at(tile.first + share.prediction, sizes), exists(share.prediction < tile.count),
          cells(sizes.cells()) {}

    __device__ unsigned count() const { return exists ? share.end - share.first : 0; }
    __device__ bool has_box() const { return exists && share.is_first_lane(); }
    __device__ unsigned first_class() const { return share.first > 5 ? share.first : 5; }
    __device__ unsigned classes() const { return exists && share.end > first_class() ? share.end - first_class() : 0; }
    __device__ int64_t in_map(unsigned channel) const { return at.map + channel * cells; }

    template <typename A>
    __device__ A *box(const Tile<A> &tile) const { return tile.row(share.prediction); }
    template <typename A>
    __device__ A *class_numbers(const Tile<A> &tile) const { return box(tile) + first_class(); }
};

// BATCH numbers, or `count` of them. All loads are under way at a time.
template <bool WHOLE, typename A, typename T>
__device__ void read_batch(A *to, const T *&from, int64_t step, unsigned count)
{
    T batch[BATCH];
#pragma unroll
    for (unsigned m = 0; m < BATCH; ++m, from += step)
        if (WHOLE || m < count)
            batch[m] = *from;
#pragma unroll
    for (unsigned m = 0; m < BATCH; ++m)
        if (WHOLE || m < count)
            to[m] = load(batch, m);
}

template <typename A, typename T>
__device__ void read_map(const Tile<A> &tile, const Part &part, const T *__restrict__ map)
{
    const T *from = map + part.in_map(part.share.first);
    A *to = tile.row(part.share.prediction) + part.share.first;
    unsigned left = part.count();
    for (; left >= BATCH; left -= BATCH, to += BATCH)
        read_batch<true>(to, from, part.cells, BATCH);
    if (left > 0)
        read_batch<false>(to, from, part.cells, left);
}

// In the layout of boxes the numbers of a tile are neighbours; in shared memory they are where pitch is channels.
template <typename A, typename T>
__device__ bool packed(const Tile<A> &tile, const T *boxes, const Sizes &sizes)
{
    return tile.pitch == sizes.channels && tile.count * tile.pitch % Pack<T>::SIZE == 0 && aligned(boxes);
}

// As many numbers of a tile as a Pack<T> has.
template <typename T> struct TileNumbers {
    typedef typename Accumulator<T>::type A;
    A items[Pack<T>::SIZE];

    __device__ void read(const A *from)
    {
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; j += Pack<A>::SIZE) {
            const Pack<A> pack = load_pack(from, j);
#pragma unroll
            for (int k = 0; k < Pack<A>::SIZE; ++k)
                items[j + k] = pack.items[k];
        }
    }

    __device__ void write(A *to) const
    {
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; j += Pack<A>::SIZE)
            store_pack(to, j, items + j, WRITE);
    }
};

template <typename A, typename T>
__device__ void read_boxes(const Tile<A> &tile, const T *__restrict__ boxes, const Sizes &sizes)
{
    const unsigned channels = unsigned(sizes.channels), count = tile.count * channels;
    const T *const from = boxes + tile.first * sizes.channels;
    if (packed(tile, from, sizes)) {
#pragma unroll 4
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < count; i += THREADS * Pack<T>::SIZE) {
            const Pack<T> pack = load_pack(from, i);
            TileNumbers<T> numbers;
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j)
                numbers.items[j] = load(pack.items, j);
            numbers.write(tile.numbers + i);
        }
        return;
    }
    const Divisor by_channels(channels);
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        unsigned channel;
        A *const row = tile.row(by_channels.divide(i, channel));
        row[channel] = load(from, i);
    }
}

template <typename A, typename T>
__device__ void write_boxes(const Tile<A> &tile, T *__restrict__ boxes, const Sizes &sizes, int request)
{
    const unsigned channels = unsigned(sizes.channels), count = tile.count * channels;
    T *const to = boxes + tile.first * sizes.channels;
    if (packed(tile, to, sizes)) {
#pragma unroll 2
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < count; i += THREADS * Pack<T>::SIZE) {
            TileNumbers<T> numbers;
            numbers.read(tile.numbers + i);
            store_pack(to, i, numbers.items, request);
        }
        return;
    }
    const Divisor by_channels(channels);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        unsigned channel;
        const A *const row = tile.row(by_channels.divide(i, channel));
        store(to, i, row[channel], request);
    }
}

template <typename A, typename T>
__device__ void write_map(const Tile<A> &tile, const Part &part, T *__restrict__ map, int request)
{
    T *to = map + part.in_map(part.share.first);
    const A *const from = tile.row(part.share.prediction) + part.share.first;
    const unsigned count = part.count();
#pragma unroll 4
    for (unsigned n = 0; n < count; ++n, to += part.cells)
        store(to, 0, from[n], request);
}

template <typename A>
__device__ A largest(const A *numbers, unsigned count)
{
    A max = lowest<A>();
#pragma unroll 4
    for (unsigned k = 0; k < count; ++k)
        max = larger(numbers[k], max);
    return max;
}

template <typename A>
__device__ void scale_by(A factor, A *numbers, unsigned count)
{
#pragma unroll 4
    for (unsigned k = 0; k < count; ++k)
        numbers[k] *= factor;
}

template <typename A>
__device__ void activate_by_sigmoid(A *numbers, unsigned count)
{
    for (unsigned k = 0; k < count; ++k)
        numbers[k] = sigmoid(numbers[k]);
}

// Turns each number x into exp(x - max). Returns their sum.
template <typename A>
__device__ A exponentials(A *numbers, unsigned count, A max)
{
    A sum = 0;
#pragma unroll 4
    for (unsigned k = 0; k < count; ++k)
        sum += numbers[k] = exponential(numbers[k] - max);
    return sum;
}

// The same; adds the products with `heads` to `dot`.
template <typename A>
__device__ A exponentials(A *numbers, const A *heads, unsigned count, A max, A &dot)
{
    A sum = 0;
#pragma unroll 4
    for (unsigned k = 0; k < count; ++k) {
        const A power = exponential(numbers[k] - max);
        numbers[k] = power;
        sum += power;
        dot += power * heads[k];
    }
    return sum;
}

// Reads a tile, and what its threads find in it.
template <typename T, typename A>
__device__ void decode_tile(const Tile<A> &tile, const Part &part, const T *__restrict__ data, const Sizes &sizes)
{
    __shared__ A maxima[THREADS];
    __shared__ A sums[THREADS];
    read_map(tile, part, data);
    A *const numbers = part.class_numbers(tile);
    const unsigned classes = part.classes();
    if (sizes.softmax)
        maxima[threadIdx.x] = largest(numbers, classes);
    __syncthreads();   // the tile is read
    if (part.has_box())
        decode_box(part.box(tile), part.at, sizes);
    if (!sizes.softmax) {
        activate_by_sigmoid(numbers, classes);
        return;
    }
    sums[threadIdx.x] = exponentials(numbers, classes, part.share.combined(maxima, Max()));
    __syncthreads();   // the exponentials are summed
    scale_by(A(1) / part.share.combined(sums, Sum()), numbers, classes);
}

// Writes the gradients of the classes of a part. `numbers` are exponentials or sigmoids; the probabilities are `scale`
// times the exponentials.
template <int REQUEST, typename T, typename A>
__device__ void write_class_gradients(const A *numbers, const A *heads, const Part &part, bool softmax, A scale, A dot,
                                      T *__restrict__ data_grad)
{
    T *to = data_grad + part.in_map(part.first_class());
    const unsigned classes = part.classes();
#pragma unroll 4
    for (unsigned k = 0; k < classes; ++k, to += part.cells) {
        const A activated = numbers[k] * scale, head = heads[k];
        store(to, 0, activated * (softmax ? head - dot : head * (1 - activated)), REQUEST);
    }
}

template <typename T, typename A>
__device__ void write_tile_gradient(const Tile<A> &tile, const Tile<A> &head_tile, const Part &part,
                                    const T *__restrict__ output_grad, const T *__restrict__ data,
                                    T *__restrict__ data_grad, int request, const Sizes &sizes)
{
    __shared__ A maxima[THREADS];
    __shared__ A sums[THREADS];
    __shared__ A dots[THREADS];
    read_map(tile, part, data);
    if (sizes.boxes)
        read_boxes(head_tile, output_grad, sizes);
    else
        read_map(head_tile, part, output_grad);
    A *const numbers = part.class_numbers(tile);
    const A *const heads = part.class_numbers(head_tile);
    const unsigned classes = part.classes();
    if (sizes.softmax)
        maxima[threadIdx.x] = largest(numbers, classes);
    __syncthreads();   // both tiles are read
    if (part.has_box()) {
        A *const box = part.box(tile);
        box_gradient(box, part.box(head_tile), 1, part.at, sizes);
#pragma unroll
        for (int c = 0; c < 5; ++c)
            store(data_grad, part.in_map(c), box[c], request);
    }
    A scale = 1, dot = 0;   // dot: of the probabilities and the head gradient
    if (sizes.softmax) {
        // The exponentials of a prediction add up to 1 at most: so the sum of products does not overflow.
        const A above_all = part.share.combined(maxima, Max()) + logarithm(A(sizes.classes()));
        sums[threadIdx.x] = exponentials(numbers, heads, classes, above_all, dot);
        dots[threadIdx.x] = dot;
        __syncthreads();   // the products are summed
        scale = A(1) / part.share.combined(sums, Sum());
        dot = scale * part.share.combined(dots, Sum());
    } else {
        activate_by_sigmoid(numbers, classes);
    }
    if (request == ADD)
        write_class_gradients<ADD>(numbers, heads, part, sizes.softmax, scale, dot, data_grad);
    else
        write_class_gradients<WRITE>(numbers, heads, part, sizes.softmax, scale, dot, data_grad);
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
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 3)
region_decode_forward(const T *__restrict__ data, T *__restrict__ output, int output_request, int64_t batch,
                      int64_t anchors, int64_t classes, int64_t height, int64_t width, int64_t softmax, int64_t layout,
                      const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Pack<A> packs[TileBytes<A>::FORWARD / sizeof(Pack<A>)];
    A *const numbers = packs[0].items;
    const Sizes sizes = {anchors, 5 + classes, height, width, softmax != 0, layout == 0, anchor_sizes};
    const int64_t predictions = batch * anchors * sizes.cells(), pitch = row_pitch(sizes.channels);
    const unsigned size = tile_size<A>(pitch, TileBytes<A>::FORWARD);
    if (output_request == NOTHING)
        return;
    if (size == 0) {
        for (int64_t i = first_item(); i < predictions; i += item_step())
            decode_alone(data, output, output_request, i, sizes);
        return;
    }
    const Share share(size, unsigned(sizes.channels));
    for (int64_t first = int64_t(blockIdx.x) * size; first < predictions; first += int64_t(gridDim.x) * size) {
        const Tile<A> tile = {numbers, unsigned(pitch), unsigned(minimum(size, predictions - first)), first};
        const Part part(share, tile, sizes);
        __syncthreads();   // the tile before may still be read
        decode_tile(tile, part, data, sizes);
        __syncthreads();   // the tile is decoded
        if (sizes.boxes)
            write_boxes(tile, output, sizes, output_request);
        else
            write_map(tile, part, output, output_request);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 3 : 2)
region_decode_backward(const T *__restrict__ output_grad, const T *__restrict__ data, T *__restrict__ data_grad,
                       int data_grad_request, int64_t batch, int64_t anchors, int64_t classes, int64_t height,
                       int64_t width, int64_t softmax, int64_t layout, const double *__restrict__ anchor_sizes)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Pack<A> packs[TileBytes<A>::BACKWARD / sizeof(Pack<A>)];
    A *const numbers = packs[0].items;
    const Sizes sizes = {anchors, 5 + classes, height, width, softmax != 0, layout == 0, anchor_sizes};
    const int64_t predictions = batch * anchors * sizes.cells(), pitch = row_pitch(sizes.channels);
    const unsigned size = tile_size<A>(2 * pitch, TileBytes<A>::BACKWARD);
    if (data_grad_request == NOTHING)
        return;
    if (size == 0) {
        for (int64_t i = first_item(); i < predictions; i += item_step())
            gradient_alone(output_grad, data, data_grad, data_grad_request, i, sizes);
        return;
    }
    const Share share(size, unsigned(sizes.channels));
    for (int64_t first = int64_t(blockIdx.x) * size; first < predictions; first += int64_t(gridDim.x) * size) {
        const unsigned count = unsigned(minimum(size, predictions - first));
        const Tile<A> tile = {numbers, unsigned(pitch), count, first};
        const Tile<A> heads = {numbers + size * pitch, unsigned(pitch), count, first};
        const Part part(share, tile, sizes);
        __syncthreads();   // the tiles before may still be read
        write_tile_gradient(tile, heads, part, output_grad, data, data_grad, data_grad_request, sizes);
    }
}
