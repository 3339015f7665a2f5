// dice_loss. A block of threads takes a tile: some neighbouring places of a sample, with all their logits, which it
// reads from the cache after the first time. Forward has steps:
//     TILES     the maximum of each place's logits and the logarithm of the sum of their exponentials; the sums of each
//               class over the tile;
//     CLASSES   the sums of each class of a sample over its tiles, and its loss;
//     AT_ONCE   both, where a sample has few of these sums. The last warp that has written those of a class goes on.
// In backward a block takes a tile as well.
#include "../_labels/labels.cuh"

enum Step { TILES, CLASSES, AT_ONCE };
enum { THREADS = 256, WARPS = THREADS / 32, HELD = 4, TILE = HELD * THREADS };   // HELD: places of a thread

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
    // Where the first place is in a tensor that has `maps` numbers for each place. The next map is `inner` elements on.
    // Without places it is the sample's first one.
    __device__ int64_t start(int64_t maps) const
    {
        return sample * maps * inner + (has(0) ? number * TILE + first : 0);
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

// exp(x) is of(x unit()), and log(x) is log_of(x) / unit().
template <typename A>
struct Power {
    __device__ static A unit() { return 1; }
    __device__ static A of(A x) { return exponential(x); }
    __device__ static A log_of(A x) { return logarithm(x); }
};
template <>
struct Power<float> {
    __device__ static float unit() { return 1.4426950408889634f; }
    __device__ static float of(float x) { return power_of_two(x); }
    __device__ static float log_of(float x) { return binary_logarithm(x); }
};

// The exponent (x - max) times - log_sum of a logit x, where `offset` is offset(max, log_sum, times).
template <typename T>
struct Exponent {
    typedef typename Accumulator<T>::type A;
    __device__ static A least() { return lowest<A>(); }   // of all maxima
    __device__ static A offset(A, A log_sum, A) { return -log_sum; }
    __device__ static A of(A x, A max, A times, A offset) { return fma(x - max, times, offset); }
};

// In one instruction, as no product overflows. It rounds `offset`, by less than the rounding of the largest logit.
template <>
struct Exponent<__half> {
    __device__ static float least() { return -65504; }
    __device__ static float offset(float max, float log_sum, float times) { return fma(max, -times, -log_sum); }
    __device__ static float of(float x, float, float times, float offset) { return fma(x, times, offset); }
};

// Calls visitor.visit<COUNT>(class, logits) for a range of classes: COUNT at a time, whose logits are read at once.
// COUNT is MOST, and in the end 4 and 1.
template <int MOST, typename T, bool PACKED, typename Visitor>
__device__ void visit_classes(const T *__restrict__ data, const Tile<PACKED> &tile, int64_t classes, int start, int end,
                              Visitor &visitor)
{
    enum { TOGETHER = PACKED ? MOST : 1 };
    const T *from = data + tile.start(classes) + start * tile.inner;
    Neighbours<T> logits[TOGETHER];
    int c = start;
    for (; c + TOGETHER <= end; c += TOGETHER) {
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k, from += tile.inner)
            logits[k] = tile.read(from);
        visitor.template visit<TOGETHER>(c, logits);
    }
    if (TOGETHER > 4 && c + 4 <= end) {
#pragma unroll
        for (int k = 0; k < 4; ++k, from += tile.inner)
            logits[k] = tile.read(from);
        visitor.template visit<4>(c, logits);
        c += 4;
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
            max[j] = Exponent<T>::least();
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
            const A unit = Power<A>::unit(), offset = Exponent<T>::offset(max[j], 0, unit);
            sum[j] *= Power<A>::of(Exponent<T>::of(before, max[j], unit, offset));
#pragma unroll
            for (int k = 0; k < COUNT; ++k)
                sum[j] += Power<A>::of(Exponent<T>::of(x[k], max[j], unit, offset));
        }
    }
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
        const Neighbours<L> labels = tile.read(label + tile.start(1));
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            class_id[j] = tile.has(j) ? int(class_of_label(labels.items[j], classes, ignores, ignore_label)) : IGNORED;
    }

    __device__ bool counts(int j) const { return class_id[j] != IGNORED; }

    __device__ bool all_count() const
    {
        bool all = true;
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            all = all & counts(j);
        return all;
    }

    __device__ bool any_is_invalid() const
    {
        bool any = false;
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            any = any | (class_id[j] == NO_CLASS);
        return any;
    }

    // The probability of a class whose logit at a place is x. At an ignored place it means nothing.
    __device__ A probability(A x, int j) const { return Power<A>::of(fma(x - max[j], Power<A>::unit(), -log_sum[j])); }

    // The probability of a place's own class; 0 without one.
    template <typename T, bool PACKED>
    __device__ A own_probability(const T *__restrict__ data, const Tile<PACKED> &tile, int64_t classes, int j) const
    {
        const bool has_class = class_id[j] >= 0;
        const T *const from = data + tile.start(classes) + (PACKED || has_class ? j * tile.STEP : 0);
        const A logit = load(from, (has_class ? class_id[j] : 0) * tile.inner);
        return has_class ? probability(logit, j) : A(0);
    }
};

// The two sums of a class: over the probabilities at its places, and over the (squared) probabilities and the labels.
template <typename A>
struct ClassSums {
    A common, total;
};

// The sums of some classes, of each thread's places, in shared memory: two rows for each class.
template <typename A>
struct SumsOfThreads {
    enum { CLASSES = 64 / sizeof(A), TO_NEXT = 2 * THREADS };
    enum { ROW = THREADS / Pack<A>::SIZE, LANES = THREADS / CLASSES / 2 };
    enum { OF_WARP = CLASSES / WARPS };   // the classes that a warp sums up
    Pack<A> rows[2 * CLASSES][ROW];

    // This thread's `common` of the first class; `total` is THREADS numbers on, and the next class TO_NEXT.
    __device__ A *own() { return rows[0][0].items + threadIdx.x; }

    // LANES threads of a warp sum up what the threads have in a row.
    __device__ A sum(int row, bool exists) const
    {
        A sum = 0;
        if (exists)
#pragma unroll
            for (int i = 0; i < ROW; i += LANES)
#pragma unroll
                for (int j = 0; j < Pack<A>::SIZE; ++j)
                    sum += rows[row][i + threadIdx.x % LANES].items[j];
        return reduce_warp(sum, Sum(), LANES);
    }
};

// Sums the (squared) probabilities of each class over a thread's places. A square is the power of twice the logarithm.
template <typename T, bool ALL_COUNT>
struct Totals {
    typedef typename Accumulator<T>::type A;
    const Places<A> &places;
    const A *offset;
    A times;              // 1 or 2, in the units of Power
    A *own;               // this thread's sums of the next class

    template <int COUNT>
    __device__ void visit(int, const Neighbours<T> *logits)
    {
#pragma unroll
        for (int k = 0; k < COUNT; ++k, own += SumsOfThreads<A>::TO_NEXT) {
            A sum = power(logits[k], 0);
#pragma unroll
            for (int j = 1; j < HELD; ++j)
                sum += power(logits[k], j);
            own[0] = 0;
            own[THREADS] = sum;
        }
    }

    // Of an ignored place it is 0, whatever the place has.
    __device__ A power(const Neighbours<T> &logits, int j) const
    {
        const A exponent = Exponent<T>::of(load(logits.items, j), places.max[j], times, offset[j]);
        return ALL_COUNT || places.counts(j) ? Power<A>::of(exponent) : A(0);
    }
};

// Adds a thread's places to the sums of their own classes.
template <typename A>
__device__ void add_own(const Places<A> &places, const A *own, SumsOfThreads<A> &sums, int start, int count)
{
    enum { TO_NEXT = SumsOfThreads<A>::TO_NEXT };
    A *const first = sums.own();
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const int c = places.class_id[j] - start;
        if (unsigned(c) < unsigned(count)) {
            A *const of_class = first + c * TO_NEXT;
            of_class[0] += own[j];
            of_class[THREADS] += 1;
        }
    }
    if (places.any_is_invalid())
        for (int c = 0; c < count; ++c)
            first[c * TO_NEXT] = not_a_number<A>();
}

// TILES: the divisors of the tile's places, and the sums of each class over it, which others may read in this launch.
template <bool PACKED, typename T, typename L, typename A>
__device__ void sum_tile(const T *__restrict__ data, const L *__restrict__ label, A *__restrict__ max,
                         A *__restrict__ log_sum, ClassSums<A> *__restrict__ sums,
                         SumsOfThreads<A> &of_threads, int max_request, int log_sum_request, int64_t index,
                         int64_t tiles, int classes, int64_t inner, int64_t ignores, int64_t ignore_label,
                         bool squared)
{
    const Tile<PACKED> tile(index, inner);
    Places<A> places;
    A written[HELD];   // what is stored as log_sum
    Divisors<T> divisors;
    places.read_labels(label, tile, classes, ignores, ignore_label);
    // Fewer groups of classes raise the maximum less often. With labels of 8 bytes there are no registers for more.
    enum { TOGETHER = sizeof(T) == 2 && sizeof(L) < 8 ? 8 : 4 };
    visit_classes<TOGETHER>(data, tile, classes, 0, classes, divisors);
#pragma unroll
    for (int j = 0; j < HELD; ++j) {   // the divisor of an ignored place does not depend on its logits
        places.max[j] = places.counts(j) ? divisors.max[j] : A(0);
        places.log_sum[j] = Power<A>::log_of(places.counts(j) ? divisors.sum[j] : A(classes));
        written[j] = places.log_sum[j] * (1 / Power<A>::unit());
    }
    tile.write(max + tile.place(), places.max, max_request);
    tile.write(log_sum + tile.place(), written, log_sum_request);
    const A exponent = squared ? 2 : 1, times = exponent * Power<A>::unit();
    A own[HELD], offset[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        own[j] = places.own_probability(data, tile, classes, j);
        offset[j] = Exponent<T>::offset(places.max[j], exponent * places.log_sum[j], times);
        if (places.class_id[j] == NO_CLASS)   // then all sums are NaN
            offset[j] = not_a_number<A>();
    }

    enum { BETWEEN = SumsOfThreads<A>::CLASSES, LANES = SumsOfThreads<A>::LANES };   // BETWEEN: two barriers
    const bool all_count = places.all_count();
    const int row = threadIdx.x / LANES, c = row / 2;
    for (int start = 0; start < classes; start += BETWEEN) {
        const int count = int(minimum(classes - start, BETWEEN));
        __syncthreads();   // the sums of the classes before are read
        if (all_count) {
            Totals<T, true> totals = {places, offset, times, of_threads.own()};
            visit_classes<4>(data, tile, classes, start, start + count, totals);
        } else {
            Totals<T, false> totals = {places, offset, times, of_threads.own()};
            visit_classes<4>(data, tile, classes, start, start + count, totals);
        }
        add_own(places, own, of_threads, start, count);
        __syncthreads();   // the sums of all threads
        const A sum = of_threads.sum(row, c < count);
        if (c < count && threadIdx.x % LANES == 0) {
            volatile ClassSums<A> *const of_class = sums + (tile.sample * classes + start + c) * tiles + tile.number;
            *(row % 2 == 0 ? &of_class->common : &of_class->total) = sum;
        }
    }
}

// What forward writes for each sample and class.
template <typename T>
struct Losses {
    typedef typename Accumulator<T>::type A;
    T *__restrict__ output;
    A *__restrict__ intersection, *__restrict__ total;
    int output_request, intersection_request, total_request;
    A smooth;

    // A warp sums up what the tiles have of a map, a class of a sample. Others may have written it in this launch.
    __device__ void sum_map(const volatile ClassSums<A> *sums, int64_t map, int64_t tiles) const
    {
        A common = 0, sum = 0;
#pragma unroll 4
        for (int64_t t = map * tiles + threadIdx.x % 32; t < (map + 1) * tiles; t += 32) {
            common += sums[t].common;
            sum += sums[t].total;
        }
        common = reduce_warp(common, Sum());
        sum = reduce_warp(sum, Sum());
        if (threadIdx.x % 32 == 0) {
            store(output, map, 1 - (2 * common + smooth) / (sum + smooth), output_request);
            store(intersection, map, common, intersection_request);
            store(total, map, sum, total_request);
        }
    }

    // A warp has written its classes' sums over a tile of a sample. The last one of all tiles sums up what these have.
    __device__ void sum_sample_once(const volatile ClassSums<A> *sums, unsigned *counts, int64_t sample, int classes,
                                    int64_t tiles) const
    {
        enum { BETWEEN = SumsOfThreads<A>::CLASSES, OF_WARP = SumsOfThreads<A>::OF_WARP };
        const int warp = threadIdx.x / 32;
        __syncwarp();   // the sums are written
        const int last = threadIdx.x % 32 == 0 && is_last_of(unsigned(tiles), counts + sample * WARPS + warp);
        if (!__shfl_sync(0xffffffffu, last, 0))
            return;
        for (int start = warp * OF_WARP; start < classes; start += BETWEEN)
            for (int c = start; c < start + OF_WARP && c < classes; ++c)
                sum_map(sums, sample * classes + c, tiles);
    }
};

// The blocks of a multiprocessor: as many as have the registers that they need.
template <typename T, typename L> struct Resident { enum { BLOCKS = sizeof(L) == 8 ? 3 : 4 }; };
template <typename L> struct Resident<__half, L> { enum { BLOCKS = 4 }; };
template <typename L> struct Resident<double, L> { enum { BLOCKS = 1 }; };

template <typename T, typename L>
__global__ void __launch_bounds__(256, Resident<T, L>::BLOCKS)
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
    unsigned *const counts = reinterpret_cast<unsigned *>(partial);   // (batch, WARPS)
    ClassSums<A> *const sums = reinterpret_cast<ClassSums<A> *>(counts + batch * WARPS);   // (batch, classes, tiles)
    const Losses<T> losses = {output, intersection, total, output_request, intersection_request, total_request,
                              A(smooth)};
    if (step == CLASSES) {
        const int64_t first = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
        for (int64_t map = first; map < batch * classes; map += int64_t(gridDim.x) * WARPS)
            losses.sum_map(sums, map, tiles);
        return;
    }
    __shared__ SumsOfThreads<A> of_threads;
    const bool packed = inner % HELD == 0 && aligned(data) && aligned(label) && aligned(max) && aligned(log_sum);
    for (int64_t t = blockIdx.x; t < batch * tiles; t += gridDim.x) {
        if (packed)
            sum_tile<true>(data, label, max, log_sum, sums, of_threads, max_request, log_sum_request, t, tiles, classes,
                           inner, ignores, ignore_label, squared != 0);
        else
            sum_tile<false>(data, label, max, log_sum, sums, of_threads, max_request, log_sum_request, t, tiles,
                            classes, inner, ignores, ignore_label, squared != 0);
        if (step == AT_ONCE)
            losses.sum_sample_once(sums, counts, quotient(t, opaque(tiles)), opaque(classes), opaque(tiles));
    }
}

// The derivative by a probability p is by_p p + constant, and `own` more at places of the class. Those of some classes
// are in shared memory.
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
        visit_classes<4>(data, tile, classes, start, start + slopes.count, means);
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
        T *const to = data_grad + tile.start(classes) + start * tile.inner;
        Gradients<T, PACKED> gradients = {tile, places, slopes, means.mean, own_mean, start, to, request};
        visit_classes<4>(data, tile, classes, start, start + slopes.count, gradients);
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
    const bool packed = inner % HELD == 0 && aligned(data) && aligned(label) && aligned(data_grad);
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
