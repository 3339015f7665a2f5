// dice_loss. A block of threads takes a tile: some neighbouring places of a sample, with all their logits, which it reads
// from the cache after the first time. Forward has steps:
//     TILES     the maximum of each place's logits and the logarithm of the sum of their exponentials; the sums of each
//               class over the tile;
//     CLASSES   the sums of each class of a sample over its tiles, and its loss.
// In backward a block takes a tile as well.
#include "../_labels/labels.cuh"

enum Step { TILES, CLASSES };
enum { THREADS = 256, HELD = 4, TILE = HELD * THREADS };   // HELD: places of a thread

// HELD neighbours of a tensor, which are read and written at once where they are PACKED.
template <typename T>
struct __align__(sizeof(T) * HELD < 16 ? sizeof(T) * HELD : 16) Neighbours {
    T items[HELD];
};

// A tile, and this thread's places in it: neighbours where they are PACKED, else every THREADS-th one.
template <bool PACKED>
struct Tile {
    enum { STEP = PACKED ? 1 : THREADS };
    int64_t sample, number, inner;
    int first, left;   // the offset of the first place in the tile; places from it to the sample's end, TILE at most

    __device__ Tile(int64_t index, int64_t inner) : inner(inner), first(threadIdx.x * (PACKED ? HELD : 1))
    {
        const int64_t tiles = (inner + TILE - 1) / TILE;
        sample = quotient(index, tiles);
        number = index - sample * tiles;
        left = int(minimum(inner - number * TILE, TILE)) - first;
    }

    __device__ bool has(int j) const { return left > (PACKED ? 0 : j * STEP); }
    __device__ int64_t place() const { return sample * inner + number * TILE + first; }   // the first one's
    // Where the logit of class 0 is at the first place. The next class's is `inner` elements on. Without places it is the
    // sample's first.
    __device__ int64_t logit(int64_t classes) const
    {
        return sample * classes * inner + (has(0) ? number * TILE + first : 0);
    }

    template <typename T>
    __device__ Neighbours<T> read(const T *__restrict__ from) const
    {
        Neighbours<T> values;
        if (PACKED)
            values = *reinterpret_cast<const Neighbours<T> *>(from);
        else
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                values.items[j] = has(j) ? from[j * STEP] : T(0);
        return values;
    }

    template <typename T>
    __device__ void write(T *__restrict__ to, const typename Accumulator<T>::type *values, int request) const
    {
        if (PACKED && request == WRITE) {
            Neighbours<T> packed;
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                packed.items[j] = T(values[j]);
            if (has(0))
                *reinterpret_cast<Neighbours<T> *>(to) = packed;
        } else {
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                if (has(j))
                    store(to, j * STEP, values[j], request);
        }
    }
};

// exp(x) is of(x unit()).
template <typename A>
struct Power {
    __device__ static A unit() { return 1; }
    __device__ static A of(A x) { return exponential(x); }
};
template <>
struct Power<float> {
    __device__ static float unit() { return 1.4426950408889634f; }
    __device__ static float of(float x) { return power_of_two(x); }
};

// Calls visitor.visit<COUNT>(class, logits) for a range of classes: COUNT at a time, whose logits are read at once.
template <typename T, bool PACKED, typename Visitor>
__device__ void visit_classes(const T *__restrict__ data, const Tile<PACKED> &tile, int64_t classes, int start, int end,
                              Visitor &visitor)
{
    enum { TOGETHER = PACKED ? 4 : 1 };
    const T *from = data + tile.logit(classes) + start * tile.inner;
    Neighbours<T> logits[TOGETHER];
    int c = start;
    for (; c + TOGETHER <= end; c += TOGETHER) {
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k, from += tile.inner)
            logits[k] = tile.read(from);
        visitor.template visit<TOGETHER>(c, logits);
    }
#pragma unroll 1
    for (; c < end; ++c, from += tile.inner) {
        logits[0] = tile.read(from);
        visitor.template visit<1>(c, logits);
    }
}

// The maximum of each place's logits, and the sum of their exponentials.
template <typename T>
struct Divisors {
    typedef typename Accumulator<T>::type A;
    A max[HELD], sum[HELD];

    __device__ Divisors()
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            max[j] = lowest<A>();
            sum[j] = 0;
        }
    }

    template <int COUNT>
    __device__ void visit(int, const Neighbours<T> *logits)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const A before = max[j];
            A x[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; ++k) {
                x[k] = load(logits[k].items, j);
                max[j] = larger(x[k], max[j]);
            }
            sum[j] *= exponential_of(before, j);
#pragma unroll
            for (int k = 0; k < COUNT; ++k)
                sum[j] += exponential_of(x[k], j);
        }
    }

    __device__ A exponential_of(A x, int j) const { return Power<A>::of((x - max[j]) * Power<A>::unit()); }
};

// What is known of a thread's places: the class of each, the maximum of its logits, and the softmax's divisor.
template <typename A>
struct Places {
    int class_id[HELD];
    A max[HELD], log_sum[HELD];   // log_sum: in the units of Power

    template <typename L, bool PACKED>
    __device__ void read_labels(const L *__restrict__ label, const Tile<PACKED> &tile, int64_t classes,
                                int64_t ignores, int64_t ignore_label)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            class_id[j] = tile.has(j)
                ? int(class_of(label, tile.place() + j * tile.STEP, classes, ignores, ignore_label)) : IGNORED;
    }

    __device__ bool counts(int j) const { return class_id[j] != IGNORED; }

    // The probability of a class whose logit at a place is x. At an ignored place it means nothing.
    __device__ A probability(A x, int j) const { return Power<A>::of(fma(x - max[j], Power<A>::unit(), -log_sum[j])); }

    // The probability of a place's own class; 0 without one.
    template <typename T, bool PACKED>
    __device__ A own_probability(const T *__restrict__ data, const Tile<PACKED> &tile, int64_t classes, int j) const
    {
        if (class_id[j] < 0)
            return 0;
        return probability(load(data, tile.logit(classes) + class_id[j] * tile.inner + j * tile.STEP), j);
    }
};

// The two sums of a class: over the probabilities at its places, and over the (squared) probabilities and the labels.
template <typename A>
struct ClassSums {
    A common, total;
};

// The sums of some classes, of each thread's places, in shared memory.
template <typename A>
struct SumsOfThreads {
    enum { CLASSES = 64 / sizeof(A), ROW = THREADS / Pack<A>::SIZE, LANES = THREADS / CLASSES };
    Pack<A> common[CLASSES][ROW], total[CLASSES][ROW];

    __device__ A &own_common(int c) { return of_thread(common[c]); }
    __device__ A &own_total(int c) { return of_thread(total[c]); }

    // LANES threads of a warp sum up what the threads have of a class.
    __device__ static A sum(const Pack<A> *row, bool exists)
    {
        A sum = 0;
        if (exists)
#pragma unroll
            for (int i = 0; i < ROW; i += LANES)
#pragma unroll
                for (int j = 0; j < Pack<A>::SIZE; ++j)
                    sum += row[i + threadIdx.x % LANES].items[j];
        return reduce_warp(sum, Sum(), LANES);
    }

 private:
    __device__ static A &of_thread(Pack<A> *row)
    {
        return row[threadIdx.x / Pack<A>::SIZE].items[threadIdx.x % Pack<A>::SIZE];
    }
};

// Sums the (squared) probabilities of each class over a thread's places. A square is the power of twice the logarithm.
template <typename T>
struct Totals {
    typedef typename Accumulator<T>::type A;
    SumsOfThreads<A> &sums;
    const Places<A> &places;
    A exponent, less[HELD], most[HELD];   // exponent: 1 or 2, in the units of Power
    int first;                            // the class that has the first sum

    __device__ Totals(SumsOfThreads<A> &sums, const Places<A> &places, bool squared)
        : sums(sums), places(places), exponent(squared ? 2 * Power<A>::unit() : Power<A>::unit())
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            less[j] = squared ? 2 * places.log_sum[j] : places.log_sum[j];
            most[j] = places.counts(j) ? not_a_number<A>() : -infinity<A>();   // of a number and NaN it is the number
        }
    }

    template <int COUNT>
    __device__ void visit(int c, const Neighbours<T> *logits) const
    {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            A total = 0;
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const A power = fma(load(logits[k].items, j) - places.max[j], exponent, -less[j]);
                total += Power<A>::of(smaller(power, most[j]));   // of an ignored place 0, whatever it has
            }
            sums.own_common(c - first + k) = 0;
            sums.own_total(c - first + k) = total;
        }
    }
};

// Adds a thread's places to the sums of their own classes.
template <typename A>
__device__ void add_own(const Places<A> &places, const A *own, SumsOfThreads<A> &sums, int start, int count)
{
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const int c = places.class_id[j] - start;
        if (c >= 0 && c < count) {
            sums.own_common(c) += own[j];
            sums.own_total(c) += 1;
        }
        if (places.class_id[j] == NO_CLASS)
            for (int each = 0; each < count; ++each)
                sums.own_common(each) = not_a_number<A>();
    }
}

// TILES: the divisors of the tile's places, and the sums of each class over it.
template <bool PACKED, typename T, typename L, typename A>
__device__ void sum_tile(const T *__restrict__ data, const L *__restrict__ label, A *__restrict__ max,
                         A *__restrict__ log_sum, ClassSums<A> *__restrict__ sums,
                         SumsOfThreads<A> &of_threads, int max_request, int log_sum_request, int64_t index,
                         int64_t tiles, int classes, int64_t inner, int64_t ignores, int64_t ignore_label,
                         bool squared)
{
    const Tile<PACKED> tile(index, inner);
    Places<A> places;
    Divisors<T> divisors;
    places.read_labels(label, tile, classes, ignores, ignore_label);
    visit_classes(data, tile, classes, 0, classes, divisors);
#pragma unroll
    for (int j = 0; j < HELD; ++j) {   // the divisor of an ignored place does not depend on its logits
        places.max[j] = places.counts(j) ? divisors.max[j] : A(0);
        places.log_sum[j] = logarithm(places.counts(j) ? divisors.sum[j] : A(classes));
    }
    tile.write(max + tile.place(), places.max, max_request);
    tile.write(log_sum + tile.place(), places.log_sum, log_sum_request);
    A own[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const bool has_none = places.class_id[j] == NO_CLASS;   // then all sums are NaN
        places.log_sum[j] = has_none ? not_a_number<A>() : places.log_sum[j] * Power<A>::unit();
        own[j] = places.own_probability(data, tile, classes, j);
    }

    enum { BETWEEN = SumsOfThreads<A>::CLASSES, LANES = SumsOfThreads<A>::LANES };   // BETWEEN: two barriers
    Totals<T> totals(of_threads, places, squared);
    const int c = threadIdx.x / LANES;
    for (int start = 0; start < classes; start += BETWEEN) {
        const int count = int(minimum(classes - start, BETWEEN));
        totals.first = start;
        __syncthreads();   // the sums of the classes before are read
        visit_classes(data, tile, classes, start, start + count, totals);
        add_own(places, own, of_threads, start, count);
        __syncthreads();   // the sums of all threads
        const ClassSums<A> sum = {SumsOfThreads<A>::sum(of_threads.common[c], c < count),
                                  SumsOfThreads<A>::sum(of_threads.total[c], c < count)};
        if (c < count && threadIdx.x % LANES == 0)
            sums[(tile.sample * classes + start + c) * tiles + tile.number] = sum;
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 4 : 1)
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
        __shared__ SumsOfThreads<A> of_threads;
        const bool packed = inner % HELD == 0 && aligned(data) && aligned(max) && aligned(log_sum);
        for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x)
            if (packed)
                sum_tile<true>(data, label, max, log_sum, sums, of_threads, max_request, log_sum_request, t, tiles, classes, inner,
                               ignores, ignore_label, squared != 0);
            else
                sum_tile<false>(data, label, max, log_sum, sums, of_threads, max_request, log_sum_request, t, tiles, classes,
                                inner, ignores, ignore_label, squared != 0);
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

// The derivative by a probability p is by_p p + constant, and `own` more at places of the class. Those of some classes are
// in shared memory.
template <typename A>
struct ClassSlopes {
    A by_p[THREADS], constant[THREADS], own[THREADS];
    int start, count;   // these classes

    __device__ bool has(int c) const { return c >= start && c < start + count; }
};

// What the derivatives of a sample depend on.
template <typename T>
struct Derivatives {
    typedef typename Accumulator<T>::type A;
    const T *__restrict__ output_grad;
    const A *__restrict__ intersection, *__restrict__ total;   // of the sample's first class
    int classes;
    A smooth;
    bool squared;

    // Those of the classes from `start` on.
    __device__ void put(ClassSlopes<A> &slopes, int start) const
    {
        __syncthreads();   // the slopes before are read
        const int t = threadIdx.x, c = start + t;
        if (t == 0) {
            slopes.start = start;
            slopes.count = int(minimum(classes - start, THREADS));
        }
        if (c < classes) {
            const A scale = 1 / (total[c] + smooth), head = load(output_grad, c) * scale;
            const A by_total = head * ((2 * intersection[c] + smooth) * scale);
            slopes.by_p[t] = squared ? 2 * by_total : A(0);
            slopes.constant[t] = squared ? A(0) : by_total;
            slopes.own[t] = -2 * head;
        }
        __syncthreads();   // the slopes of all classes
    }
};

// The means of the derivatives at each place, by the probabilities, but for what is more at the own class.
template <typename T>
struct MeanSlopes {
    typedef typename Accumulator<T>::type A;
    const Places<A> &places;
    const ClassSlopes<A> &slopes;
    int start;
    A mean[HELD];

    __device__ MeanSlopes(const Places<A> &places, const ClassSlopes<A> &slopes) : places(places), slopes(slopes) {}

    template <int COUNT>
    __device__ void visit(int c, const Neighbours<T> *logits)
    {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            const A by_p = slopes.by_p[c - start + k], constant = slopes.constant[c - start + k];
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const A p = places.probability(load(logits[k].items, j), j);
                mean[j] += p * (by_p * p + constant);
            }
        }
    }
};

// Stores the gradients of the logits.
template <typename T, bool PACKED>
struct Gradients {
    typedef typename Accumulator<T>::type A;
    const Tile<PACKED> &tile;
    const Places<A> &places;
    const ClassSlopes<A> &slopes;
    const A *mean, *own_mean;   // own_mean: less what the derivative at the own class has more
    int start;
    T *__restrict__ to;         // of the next class
    int request;

    template <int COUNT>
    __device__ void visit(int c, const Neighbours<T> *logits)
    {
#pragma unroll
        for (int k = 0; k < COUNT; ++k, to += tile.inner) {
            const A by_p = slopes.by_p[c - start + k], constant = slopes.constant[c - start + k];
            A gradient[HELD];
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const A p = places.probability(load(logits[k].items, j), j);
                const A less = c + k == places.class_id[j] ? own_mean[j] : mean[j];
                gradient[j] = p * (by_p * p + constant - less);
                gradient[j] = places.counts(j) ? gradient[j] : A(0);   // of an ignored place, whatever it has
            }
            tile.write(to, gradient, request);
        }
    }
};

// The gradient of a tile's logits.
template <bool PACKED, typename T, typename L, typename A>
__device__ void differentiate_tile(const Derivatives<T> &derivatives, const T *__restrict__ data,
                                   const L *__restrict__ label, const A *__restrict__ max,
                                   const A *__restrict__ log_sum, T *__restrict__ data_grad, ClassSlopes<A> &slopes,
                                   const Tile<PACKED> &tile, int request, int64_t ignores, int64_t ignore_label)
{
    const int classes = derivatives.classes;
    Places<A> places;
    places.read_labels(label, tile, classes, ignores, ignore_label);
    MeanSlopes<T> means(places, slopes);
    A own_mean[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const int64_t place = tile.place() + j * tile.STEP;
        places.max[j] = tile.has(j) ? max[place] : A(0);
        places.log_sum[j] = tile.has(j) ? log_sum[place] * Power<A>::unit() : A(0);
        means.mean[j] = places.class_id[j] == NO_CLASS ? not_a_number<A>() : A(0);
        own_mean[j] = 0;
    }
    for (int start = 0; start < classes; start += THREADS) {
        derivatives.put(slopes, start);
        means.start = start;
        visit_classes(data, tile, classes, start, start + slopes.count, means);
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            if (slopes.has(places.class_id[j])) {
                const A own = slopes.own[places.class_id[j] - start];
                means.mean[j] += places.own_probability(data, tile, classes, j) * own;
                own_mean[j] = -own;
            }
    }
#pragma unroll
    for (int j = 0; j < HELD; ++j)
        own_mean[j] += means.mean[j];
    for (int start = 0; start < classes; start += THREADS) {
        if (classes > THREADS)   // else they are still there
            derivatives.put(slopes, start);
        T *const to = data_grad + tile.logit(classes) + start * tile.inner;
        Gradients<T, PACKED> gradients = {tile, places, slopes, means.mean, own_mean, start, to, request};
        visit_classes(data, tile, classes, start, start + slopes.count, gradients);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 2 ? 4 : sizeof(T) == 4 ? 3 : 1)
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
    const bool packed = inner % HELD == 0 && aligned(data) && aligned(data_grad);
    __shared__ ClassSlopes<A> slopes;
    for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x) {
        const int64_t map = quotient(t, tiles) * classes;
        const Derivatives<T> derivatives = {output_grad + map, intersection + map, total + map, int(classes), A(smooth),
                                            squared != 0};
        if (packed)
            differentiate_tile(derivatives, data, label, max, log_sum, data_grad, slopes, Tile<true>(t, inner),
                               data_grad_request, ignores, ignore_label);
        else
            differentiate_tile(derivatives, data, label, max, log_sum, data_grad, slopes, Tile<false>(t, inner),
                               data_grad_request, ignores, ignore_label);
    }
}
