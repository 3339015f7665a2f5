// dice_loss. A block of threads takes a tile: some neighbouring places of a sample, with all their logits, which it reads
// from the cache after the first time. Forward has steps:
//     TILES     the maximum of each place's logits and the logarithm of the sum of their exponentials; the sums of each
//               class over the tile;
//     CLASSES   the sums of each class of a sample over its tiles, and its loss.
// In backward a block takes a tile as well.
#include "../_labels/labels.cuh"

enum Step { TILES, CLASSES };
enum { THREADS = 256, WARPS = THREADS / 32, HELD = 2, TILE = HELD * THREADS };   // HELD: places of a thread

// A tile, and this thread's places in it: place(0), place(1), ...
struct Tile {
    int64_t sample, number, first, inner;   // `first`: of this thread's places in the sample, which has `inner`

    __device__ Tile(int64_t index, int64_t inner) : inner(inner)
    {
        const int64_t tiles = (inner + TILE - 1) / TILE;
        sample = quotient(index, tiles);
        number = index - sample * tiles;
        first = number * TILE + threadIdx.x;
    }

    __device__ bool has(int j) const { return first + j * THREADS < inner; }
    __device__ int64_t place(int j) const { return sample * inner + first + j * THREADS; }
    // Where the logit of class 0 is. The next class's is `inner` elements on. Without the place it is the sample's first.
    __device__ int64_t logit(int j, int64_t classes) const
    {
        return sample * classes * inner + (has(j) ? first + j * THREADS : 0);
    }
};

// The logits of some classes at a thread's places, which are read at once.
template <typename T>
struct Logits {
    typedef typename Accumulator<T>::type A;
    enum { CLASSES = 8 };
    A values[CLASSES][HELD];

    // From the class `first` on; behind the last one are zeros.
    __device__ void read(const T *__restrict__ data, const Tile &tile, int64_t first, int64_t classes)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const T *from = data + tile.logit(j, classes) + first * tile.inner;
#pragma unroll
            for (int k = 0; k < CLASSES; ++k, from += tile.inner)
                values[k][j] = first + k < classes ? load(from, 0) : A(0);
        }
    }
};

// What is known of a thread's places: the class of each, and the softmax's divisor.
template <typename A>
struct Places {
    int64_t class_id[HELD];
    A max[HELD], log_sum[HELD];

    template <typename L>
    __device__ void read_labels(const L *__restrict__ label, const Tile &tile, int64_t classes, int64_t ignores,
                                int64_t ignore_label)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            class_id[j] = tile.has(j) ? class_of(label, tile.place(j), classes, ignores, ignore_label) : int64_t(IGNORED);
    }

    __device__ bool counts(int j) const { return class_id[j] != IGNORED; }

    // The divisor of an ignored place does not depend on its logits.
    template <typename T>
    __device__ void compute_divisors(const T *__restrict__ data, const Tile &tile, int64_t classes)
    {
        enum { TOGETHER = Logits<T>::CLASSES };
        Logits<T> logits;
        A sum[HELD];
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            max[j] = lowest<A>();
            sum[j] = 0;
        }
        for (int64_t c = 0; c < classes; c += TOGETHER) {
            logits.read(data, tile, c, classes);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
#pragma unroll
                for (int j = 0; j < HELD; ++j)
                    max[j] = c + k < classes ? Max()(logits.values[k][j], max[j]) : max[j];
        }
        for (int64_t c = 0; c < classes; c += TOGETHER) {
            logits.read(data, tile, c, classes);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                if (c + k < classes)
#pragma unroll
                    for (int j = 0; j < HELD; ++j)
                        sum[j] += exponential(logits.values[k][j] - max[j]);
        }
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            max[j] = counts(j) ? max[j] : A(0);
            log_sum[j] = logarithm(counts(j) ? sum[j] : A(classes));
        }
    }

    // The probability of a class whose logit at a place is x. At an ignored place it is 0, whatever x is.
    __device__ A probability(A x, int j) const { return counts(j) ? exponential(x - max[j] - log_sum[j]) : A(0); }
};

// The two sums of a class: over the probabilities at its places, and over the (squared) probabilities and the labels.
template <typename A>
struct ClassSums {
    A common, total;
};

// Half of a warp's lanes gets the sum of one number over the warp, the other half that of the other.
template <typename A>
__device__ A sum_of_pair(const ClassSums<A> &sums)
{
    const bool upper = threadIdx.x & 16;
    const A own = upper ? sums.total : sums.common, others = upper ? sums.common : sums.total;
    return reduce_lanes(own + __shfl_xor_sync(0xffffffffu, others, 16), Sum(), 16);
}

// A class's sums over a thread's places. `x` are its logits.
template <typename A>
__device__ ClassSums<A> sum_places(const Places<A> &places, const A *x, int64_t c, bool squared)
{
    ClassSums<A> sums = {0, 0};
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const bool has_none = places.class_id[j] == NO_CLASS, is_own = places.class_id[j] == c;
        const A p = has_none ? not_a_number<A>() : places.probability(x[j], j);
        sums.common += is_own || has_none ? p : A(0);
        sums.total += (squared ? p * p : p) + A(is_own);
    }
    return sums;
}

// TILES: the sums of each class over a tile.
template <typename T>
__device__ void sum_tile(const T *__restrict__ data, const Tile &tile,
                         const Places<typename Accumulator<T>::type> &places,
                         ClassSums<typename Accumulator<T>::type> *__restrict__ sums, int64_t tiles, int64_t classes,
                         bool squared)
{
    typedef typename Accumulator<T>::type A;
    enum { BETWEEN = 32, TOGETHER = Logits<T>::CLASSES };   // classes between two barriers
    __shared__ A of_warps[WARPS][BETWEEN][2];
    for (int64_t start = 0; start < classes; start += BETWEEN) {
        const int count = int(minimum(classes - start, BETWEEN));
        __syncthreads();   // the sums of the classes before are read
        for (int c = 0; c < count; c += TOGETHER) {
            Logits<T> logits;
            logits.read(data, tile, start + c, classes);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k)
                if (c + k < count) {
                    const A sum = sum_of_pair(sum_places(places, logits.values[k], start + c + k, squared));
                    if (threadIdx.x % 16 == 0)
                        of_warps[threadIdx.x / 32][c + k][threadIdx.x / 16 % 2] = sum;
                }
        }
        __syncthreads();   // the sums of all warps
        for (int c = threadIdx.x; c < count; c += THREADS) {
            ClassSums<A> sum = {0, 0};
            for (int warp = 0; warp < WARPS; ++warp) {
                sum.common += of_warps[warp][c][0];
                sum.total += of_warps[warp][c][1];
            }
            sums[(start + c) * tiles] = sum;
        }
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 3 : 1)
dice_loss_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                  typename Accumulator<T>::type *__restrict__ intersection,
                  typename Accumulator<T>::type *__restrict__ total, typename Accumulator<T>::type *__restrict__ max,
                  typename Accumulator<T>::type *__restrict__ log_sum, double *__restrict__ partial,
                  int output_request, int intersection_request, int total_request, int max_request,
                  int log_sum_request, int64_t step, int64_t batch, int64_t classes, int64_t inner, int64_t ignores,
                  int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    const int64_t tiles = (inner + TILE - 1) / TILE;   // of a sample
    ClassSums<A> *const sums = reinterpret_cast<ClassSums<A> *>(partial);   // (batch, classes, tiles)
    if (step == TILES) {
        for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x) {
            const Tile tile(t, inner);
            Places<A> places;
            places.read_labels(label, tile, classes, ignores, ignore_label);
            places.compute_divisors(data, tile, classes);
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                if (tile.has(j)) {
                    store(max, tile.place(j), places.max[j], max_request);
                    store(log_sum, tile.place(j), places.log_sum[j], log_sum_request);
                }
            ClassSums<A> *const own = sums + tile.sample * classes * tiles + tile.number;
            sum_tile(data, tile, places, own, tiles, classes, squared);
        }
        return;
    }
    for (int64_t map = blockIdx.x; map < batch * classes; map += gridDim.x) {
        A common = 0, sum = 0;
        for (int64_t t = threadIdx.x; t < tiles; t += THREADS) {
            common += sums[map * tiles + t].common;
            sum += sums[map * tiles + t].total;
        }
        common = reduce_row(common, Sum());
        sum = reduce_row(sum, Sum());
        if (threadIdx.x == 0) {
            store(output, map, 1 - (2 * common + A(smooth)) / (sum + A(smooth)), output_request);
            store(intersection, map, common, intersection_request);
            store(total, map, sum, total_request);
        }
    }
}

// The gradient of a probability: p, or 1, times `slope`; and `own` more at places of the class.
template <typename A>
struct ByProbability {
    A slope, own;
    bool squared;

    template <typename T>
    __device__ ByProbability(const T *output_grad, const A *intersection, const A *total, int64_t map, A smooth,
                             bool squared)
        : squared(squared)
    {
        const A scale = 1 / (total[map] + smooth), head = load(output_grad, map) * scale;
        slope = head * ((2 * intersection[map] + smooth) * scale);
        own = -2 * head;
    }

    __device__ A operator()(A p, bool is_own) const
    {
        return (squared ? 2 * p * slope : slope) + (is_own ? own : A(0));
    }
};

// The derivatives by the probabilities at a thread's places, of all classes.
template <typename T>
struct Slopes {
    typedef typename Accumulator<T>::type A;
    const T *__restrict__ output_grad, *__restrict__ data;
    const A *__restrict__ intersection, *__restrict__ total;
    int64_t classes;
    A smooth;
    bool squared;

    // visitor(c, j, p, slope) gets each probability and its derivative.
    template <typename Visitor>
    __device__ void visit(const Tile &tile, const Places<A> &places, Visitor &visitor) const
    {
        enum { TOGETHER = Logits<T>::CLASSES };
        Logits<T> logits;
        for (int64_t c = 0; c < classes; c += TOGETHER) {
            logits.read(data, tile, c, classes);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k) {
                if (c + k >= classes)
                    break;
                const ByProbability<A> by_probability(output_grad, intersection, total, tile.sample * classes + c + k,
                                                      smooth, squared);
#pragma unroll
                for (int j = 0; j < HELD; ++j) {
                    const A p = places.probability(logits.values[k][j], j);
                    visitor(c + k, j, p, by_probability(p, c + k == places.class_id[j]));
                }
            }
        }
    }
};

// The mean of the derivatives at each place, by the probabilities.
template <typename A>
struct MeanSlopes {
    A values[HELD];

    __device__ void operator()(int64_t, int j, A p, A slope) { values[j] += p * slope; }
};

// Stores the gradients of the logits.
template <typename T>
struct Gradients {
    typedef typename Accumulator<T>::type A;
    const Tile &tile;
    const Places<A> &places;
    const MeanSlopes<A> &means;
    int64_t classes;
    T *__restrict__ to;
    int request;

    __device__ void operator()(int64_t c, int j, A p, A slope) const
    {
        const A gradient = places.counts(j) ? p * (slope - means.values[j]) : A(0);   // of an ignored place, whatever it has
        if (tile.has(j))
            store(to, tile.logit(j, classes) + c * tile.inner, gradient, request);
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 3 : 1)
dice_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                   const typename Accumulator<T>::type *__restrict__ intersection,
                   const typename Accumulator<T>::type *__restrict__ total,
                   const typename Accumulator<T>::type *__restrict__ max,
                   const typename Accumulator<T>::type *__restrict__ log_sum, T *__restrict__ data_grad,
                   double *__restrict__ partial, int data_grad_request, int64_t step, int64_t batch, int64_t classes,
                   int64_t inner, int64_t ignores, int64_t ignore_label, int64_t squared, double smooth)
{
    typedef typename Accumulator<T>::type A;
    const int64_t tiles = (inner + TILE - 1) / TILE;
    const Slopes<T> slopes = {output_grad, data, intersection, total, classes, A(smooth), squared != 0};
    for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x) {
        const Tile tile(t, inner);
        Places<A> places;
        MeanSlopes<A> means;
        places.read_labels(label, tile, classes, ignores, ignore_label);
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            places.max[j] = tile.has(j) ? max[tile.place(j)] : A(0);
            places.log_sum[j] = tile.has(j) ? log_sum[tile.place(j)] : A(0);
            means.values[j] = places.class_id[j] == NO_CLASS ? not_a_number<A>() : A(0);
        }
        slopes.visit(tile, places, means);
        const Gradients<T> gradients = {tile, places, means, classes, data_grad, data_grad_request};
        slopes.visit(tile, places, gradients);
    }
}
