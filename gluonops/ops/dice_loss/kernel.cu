// dice_loss. Forward: a block takes a tile, some neighbouring places of a sample with all their logits. It leaves the sums
// of each class over the tile, and the last block of a sample adds up those of all tiles. Backward: a thread per place.
#include "../_blocks/blocks.cuh"
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, HELD = 4, TILE = HELD * THREADS };   // HELD: places of a thread
enum { CLASSES = 32 };   // whose sums a block collects between two barriers

// A place of a sample: its class, and the softmax of its logits.
template <typename T>
struct Softmax {
    typedef typename Accumulator<T>::type A;
    int class_id;
    A max, log_sum;

    __device__ bool counts() const { return class_id != IGNORED; }
    __device__ A probability(A x) const { return exponential_for<T>(x - max - log_sum); }
};

// The places of a thread in a tile, THREADS apart. The logits of a place are `inner` elements apart.
template <typename T>
struct Places {
    typedef typename Accumulator<T>::type A;
    const T *logits[HELD];
    int64_t inner;
    Softmax<T> softmax[HELD];

    __device__ void read(A *x, int64_t c) const
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            x[j] = load(logits[j], c * inner);
    }

    // An ignored place counts as one with logits of 0, whatever it holds.
    __device__ void find_sums(int64_t classes)
    {
        A sums[HELD];
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            softmax[j].max = lowest<A>();
            sums[j] = 0;
        }
        for (int64_t c = 0; c < classes; ++c) {
            A x[HELD];
            read(x, c);
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const A before = softmax[j].max, max = larger(x[j], before);
                sums[j] = sums[j] * exponential_for<T>(before - max) + exponential_for<T>(x[j] - max);
                softmax[j].max = max;
            }
        }
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const bool counts = softmax[j].counts();
            softmax[j].max = counts ? softmax[j].max : A(0);
            softmax[j].log_sum = logarithm(counts ? sums[j] : A(classes));
        }
    }
};

// The sums of a class over the places of a sample: of the probabilities where it is the label, and of the (squared)
// probabilities and the labels.
template <typename A>
struct ClassSums {
    A intersection, total;

    // A place with an invalid label makes them NaN.
    template <typename T>
    __device__ void add(const Softmax<T> &place, A x, int64_t c, bool squared)
    {
        const A p = place.class_id == NO_CLASS ? not_a_number<A>() : place.probability(x);
        const bool is_label = place.class_id == c;
        intersection += is_label || place.class_id == NO_CLASS ? p : A(0);
        total += place.counts() ? (squared ? p * p : p) + (is_label ? 1 : 0) : A(0);
    }

    __device__ void reduce()
    {
        intersection = reduce_warp(intersection, Sum());
        total = reduce_warp(total, Sum());
    }
};

// Where the sums of a class are in scratch memory: (batch, classes, 2, tiles).
struct TileSums {
    int64_t first, tiles;

    __device__ TileSums(int64_t map, int64_t tiles) : first(2 * map * tiles), tiles(tiles) {}
    __device__ int64_t intersection(int64_t tile) const { return first + tile; }
    __device__ int64_t total(int64_t tile) const { return first + tiles + tile; }
};

// Leaves the sums of each class over a tile.
template <typename T, typename A>
__device__ void sum_classes(const Places<T> &places, const Scratch<A> &scratch, int64_t sample, int64_t tile,
                            int64_t tiles, int64_t classes, bool squared)
{
    __shared__ ClassSums<A> of_warps[CLASSES][WARPS];
    const int warp = threadIdx.x / 32;
    for (int64_t start = 0; start < classes; start += CLASSES) {
        const int64_t end = minimum(start + CLASSES, classes);
        __syncthreads();   // the sums of the classes before are read
        for (int64_t c = start; c < end; ++c) {
            ClassSums<A> sums = {0, 0};
            A x[HELD];
            places.read(x, c);
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                sums.add(places.softmax[j], x[j], c, squared);
            sums.reduce();
            if (threadIdx.x % 32 == 0)
                of_warps[c - start][warp] = sums;
        }
        __syncthreads();   // the sums of all warps
        if (threadIdx.x < end - start) {
            ClassSums<A> sums = {0, 0};
            for (int other = 0; other < WARPS; ++other) {
                sums.intersection += of_warps[threadIdx.x][other].intersection;
                sums.total += of_warps[threadIdx.x][other].total;
            }
            const TileSums at(sample * classes + start + threadIdx.x, tiles);
            scratch.partial[at.intersection(tile)] = sums.intersection;
            scratch.partial[at.total(tile)] = sums.total;
        }
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(THREADS)
dice_loss_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                  typename Accumulator<T>::type *__restrict__ intersection,
                  typename Accumulator<T>::type *__restrict__ total, typename Accumulator<T>::type *__restrict__ max,
                  typename Accumulator<T>::type *__restrict__ log_sum, double *__restrict__ partial,
                  int output_request, int intersection_request, int total_request, int max_request,
                  int log_sum_request, int64_t step, int64_t batch, int64_t classes, int64_t inner, int64_t ignores,
                  int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    if (step == 0) {
        clear_counts(partial, batch);
        return;
    }
    const int64_t tiles = (inner + TILE - 1) / TILE;   // of a sample
    const Scratch<A> scratch(partial, batch);
    for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x) {
        const int64_t sample = quotient(t, tiles), tile = t - sample * tiles;
        Places<T> places;
        places.inner = inner;
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t place = tile * TILE + j * THREADS + threadIdx.x, existing = minimum(place, inner - 1);
            const int64_t class_id = class_of(label, sample * inner + existing, classes, ignores != 0, ignore_label);
            places.logits[j] = data + sample * classes * inner + existing;
            places.softmax[j].class_id = place < inner ? int(class_id) : IGNORED;
        }
        places.find_sums(classes);
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t place = tile * TILE + j * THREADS + threadIdx.x;
            if (place < inner) {
                store(max, sample * inner + place, places.softmax[j].max, max_request);
                store(log_sum, sample * inner + place, places.softmax[j].log_sum, log_sum_request);
            }
        }
        sum_classes(places, scratch, sample, tile, tiles, classes, squared != 0);
        if (!scratch.is_last_block(sample, tiles))
            continue;
        for (int64_t c = threadIdx.x / 32; c < classes; c += WARPS) {   // a warp per class
            const int64_t map = sample * classes + c;
            const TileSums at(map, tiles);
            ClassSums<A> sums = {0, 0};
            for (int64_t other = threadIdx.x % 32; other < tiles; other += 32) {
                sums.intersection += scratch.partial[at.intersection(other)];
                sums.total += scratch.partial[at.total(other)];
            }
            sums.reduce();
            if (threadIdx.x % 32 == 0) {
                const A loss = 1 - (2 * sums.intersection + A(smooth)) / (sums.total + A(smooth));
                store(output, map, loss, output_request);
                store(intersection, map, sums.intersection, intersection_request);
                store(total, map, sums.total, total_request);
            }
        }
    }
}

// The derivative of a sample's losses by the probabilities of a place.
template <typename T>
struct Slopes {
    typedef typename Accumulator<T>::type A;
    const T *output_grad;
    const A *intersection, *total;   // of the sample's first class
    A smooth;
    bool squared;

    __device__ A by(int64_t c, A p, bool is_label) const
    {
        const A scale = 1 / (total[c] + smooth), head = load(output_grad, c) * scale;
        const A by_total = head * (2 * intersection[c] + smooth) * scale;
        return (squared ? 2 * p * by_total : by_total) - (is_label ? 2 * head : 0);
    }
};

template <typename T, typename L>
__global__ void dice_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                   const L *__restrict__ label,
                                   const typename Accumulator<T>::type *__restrict__ intersection,
                                   const typename Accumulator<T>::type *__restrict__ total,
                                   const typename Accumulator<T>::type *__restrict__ max,
                                   const typename Accumulator<T>::type *__restrict__ log_sum,
                                   T *__restrict__ data_grad, double *__restrict__ partial, int data_grad_request,
                                   int64_t step, int64_t batch, int64_t classes, int64_t inner, int64_t ignores,
                                   int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < batch * inner; i += item_step()) {
        const int64_t sample = quotient(i, inner), start = sample * classes * inner + (i - sample * inner);
        const int64_t map = sample * classes, class_id = class_of(label, i, classes, ignores != 0, ignore_label);
        const Softmax<T> place = {int(class_id), max[i], log_sum[i]};
        const Slopes<T> slopes = {output_grad + map, intersection + map, total + map, A(smooth), squared != 0};
        A mean = class_id == NO_CLASS ? not_a_number<A>() : A(0);
        for (int64_t c = 0; c < classes; ++c) {
            const A p = place.probability(load(data, start + c * inner));
            mean += p * slopes.by(c, p, c == class_id);
        }
        for (int64_t c = 0; c < classes; ++c) {
            const A p = place.probability(load(data, start + c * inner));
            const A gradient = p * (slopes.by(c, p, c == class_id) - mean);
            store(data_grad, start + c * inner, place.counts() ? gradient : A(0), data_grad_request);
        }
    }
}
