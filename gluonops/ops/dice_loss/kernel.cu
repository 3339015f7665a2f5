// dice_loss. Forward: a block takes a tile, some neighbouring places of a sample with all their logits. It leaves the sums
// of each class over the tile, and the last block of a sample adds up those of all tiles. Backward: a thread per place.
#include "../_blocks/blocks.cuh"
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, HELD = TILE / THREADS };   // HELD: places of a thread
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
template <typename T, typename L>
__device__ void sum_classes(const DiceLossArgs<T, L> &args, const Places<T> &places,
                            const Scratch<typename Accumulator<T>::type> &scratch, int64_t sample, int64_t tile)
{
    typedef typename Accumulator<T>::type A;
    __shared__ ClassSums<A> of_warps[CLASSES][WARPS];
    const int warp = threadIdx.x / 32;
    for (int64_t start = 0; start < args.classes; start += CLASSES) {
        const int64_t end = minimum(start + CLASSES, args.classes);
        __syncthreads();   // the sums of the classes before are read
        for (int64_t c = start; c < end; ++c) {
            ClassSums<A> sums = {0, 0};
            A x[HELD];
            places.read(x, c);
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                sums.add(places.softmax[j], x[j], c, args.squared);
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
            const TileSums at(sample * args.classes + start + threadIdx.x, args.tiles);
            scratch.partial[at.intersection(tile)] = sums.intersection;
            scratch.partial[at.total(tile)] = sums.total;
        }
    }
}

template <typename T, typename L>
__device__ void forward(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const Scratch<A> scratch(args.counts, args.sums);
    for (int64_t t = blockIdx.x; t < args.batch * args.tiles; t += gridDim.x) {
        const int64_t sample = quotient(t, args.tiles), tile = t - sample * args.tiles;
        Places<T> places;
        places.inner = args.inner;
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t place = tile * TILE + j * THREADS + threadIdx.x, existing = minimum(place, args.inner - 1);
            const int64_t class_id = class_of(args, sample * args.inner + existing);
            places.logits[j] = args.data + sample * args.classes * args.inner + existing;
            places.softmax[j].class_id = place < args.inner ? int(class_id) : IGNORED;
        }
        places.find_sums(args.classes);
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t place = tile * TILE + j * THREADS + threadIdx.x;
            if (place < args.inner) {
                store(args.max, sample * args.inner + place, places.softmax[j].max, args.max_request);
                store(args.log_sum, sample * args.inner + place, places.softmax[j].log_sum, args.log_sum_request);
            }
        }
        sum_classes(args, places, scratch, sample, tile);
        if (!scratch.is_last_block(sample, args.tiles))
            continue;
        for (int64_t c = threadIdx.x / 32; c < args.classes; c += WARPS) {   // a warp per class
            const int64_t map = sample * args.classes + c;
            const TileSums at(map, args.tiles);
            ClassSums<A> sums = {0, 0};
            for (int64_t other = threadIdx.x % 32; other < args.tiles; other += 32) {
                sums.intersection += scratch.partial[at.intersection(other)];
                sums.total += scratch.partial[at.total(other)];
            }
            sums.reduce();
            if (threadIdx.x % 32 == 0) {
                const A loss = 1 - (2 * sums.intersection + A(args.smooth)) / (sums.total + A(args.smooth));
                store(args.output, map, loss, args.output_request);
                store(args.intersection, map, sums.intersection, args.intersection_request);
                store(args.total, map, sums.total, args.total_request);
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
__device__ void backward(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < args.batch * args.inner; i += item_step()) {
        const int64_t sample = quotient(i, args.inner), map = sample * args.classes;
        const int64_t start = map * args.inner + (i - sample * args.inner), class_id = class_of(args, i);
        const Softmax<T> place = {int(class_id), args.max[i], args.log_sum[i]};
        const Slopes<T> slopes = {args.output_grad + map, args.intersection + map, args.total + map, A(args.smooth),
                                  args.squared};
        A mean = class_id == NO_CLASS ? not_a_number<A>() : A(0);
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.probability(load(args.data, start + c * args.inner));
            mean += p * slopes.by(c, p, c == class_id);
        }
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.probability(load(args.data, start + c * args.inner));
            const A gradient = p * (slopes.by(c, p, c == class_id) - mean);
            store(args.data_grad, start + c * args.inner, place.counts() ? gradient : A(0), args.data_grad_request);
        }
    }
}
