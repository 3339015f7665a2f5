// group_norm. Forward: a row of threads per group of a sample, which reads it for its mean and variance, and again, the
// last elements first, to normalise it. Backward has steps. Of long groups:
//     EMPTY     nothing is counted, where this is not so from the launch before;
//     AT_ONCE   all gradients. A group has several blocks, which hold its parts and tell each other their sums.
// Of short ones:
//     CHANNELS  the sums of each channel of a sample, which has a row of threads;
//     GROUPS    the sums of each group, and the gradients of gamma and beta;
//     DATA      the gradient of the data, the last channels first: the cache may still hold them.
// Bytes moved: forward 2 times the data's, backward 3 times, or 5 times of short groups; fewer where the cache holds
// what is read again.
#include "../_softmax/softmax.cuh"

enum { BYTES = 64 };   // of a row, that a thread holds
enum Step { EMPTY, AT_ONCE, CHANNELS, GROUPS, DATA };

__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }

// The sizes of the data: (batch, groups, group_channels, inner).
struct Sizes {
    int64_t batch, groups, group_channels, inner;

    __device__ int64_t channels() const { return groups * group_channels; }
    __device__ int64_t group_length() const { return group_channels * inner; }
};

// The number of elements, their mean relative to the row's first element, and the sum of their squared distances from
// the mean. Sums of numbers that are near 0 keep their digits where the mean is large.
template <typename A>
struct Moments {
    A count, mean, squares;
};

// Of this thread's elements of a row; `origin` is the row's first element. `x` is the last chunk afterwards.
template <typename T>
__device__ Moments<typename Accumulator<T>::type> own_moments(const T *__restrict__ data, const Rows<T> &rows,
                                                              const RowPart &row, RowChunk<T, BYTES> &x,
                                                              typename Accumulator<T>::type origin)
{
    typedef typename Accumulator<T>::type A;
    Moments<A> moments = {0, 0, 0};
    const bool has_elements = rows.first < row.length;
    const A first = has_elements ? load(data, row.start + rows.first) : origin;
    A sum = 0;
    for (int64_t i = 0; i < row.length; i += x.length()) {
        x.read(data, rows, row, i, 0);
        moments.count += x.count;
        if (x.count < x.SIZE)
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k)
                x.values[k] = k < x.count ? x.values[k] : first;
#pragma unroll
        for (int k = 0; k < x.SIZE; ++k) {
            const A difference = x.values[k] - first;
            sum += difference;
            moments.squares += difference * difference;
        }
    }
    if (has_elements) {
        moments.mean = (first - origin) + sum / moments.count;
        moments.squares -= sum * (sum / moments.count);
    }
    return moments;
}

// Of a row, from those of its threads.
template <typename A>
__device__ Moments<A> row_moments(const Moments<A> &own, int64_t length)
{
    Moments<A> moments = {A(length), 0, 0};
    moments.mean = reduce_row(own.count * own.mean, Sum()) / A(length);
    const A distance = own.mean - moments.mean;
    moments.squares = reduce_row(own.squares + own.count * distance * distance, Sum());
    return moments;
}

// Normalises elements of a group, and scales and shifts them by what their channels have.
template <typename T>
struct Normalized {
    typedef typename Accumulator<T>::type A;
    const T *gamma, *beta;   // of the group's first channel
    int64_t inner;
    A origin, mean, by_deviation;

    // The chunk at the i-th element of the group.
    __device__ void apply(RowChunk<T, BYTES> &x, const Rows<T> &rows, int64_t i) const
    {
        enum { GROUP = RowChunk<T, BYTES>::GROUP, SIZE = RowChunk<T, BYTES>::SIZE };
        if (rows.packed && inner >= GROUP)
            return inner % GROUP ? apply_to_packs<true>(x, rows, i) : apply_to_packs<false>(x, rows, i);
        const int64_t step = rows.packed ? 1 : rows.step;   // from an element to the thread's next one
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP) {
            if (k >= x.count)
                continue;
            const int64_t place = i + rows.offset(k);
            int64_t channel = quotient(place, inner), within = place - channel * inner;
            A factor = load(gamma, channel), shift = load(beta, channel);
#pragma unroll
            for (int j = k; j < k + GROUP; ++j) {
                if (j > k && j < x.count) {
                    within += step;
                    const int64_t passed = step == 1 ? int64_t(within == inner) : quotient(within, inner);
                    channel += passed;
                    within -= passed * inner;
                    factor = load(gamma, channel);
                    shift = load(beta, channel);
                }
                x.values[j] = (x.values[j] - origin - mean) * by_deviation * factor + shift;
            }
        }
    }

    // The packs of a chunk. With BORDERS a pack may have elements of two channels, else it has those of one.
    template <bool BORDERS>
    __device__ void apply_to_packs(RowChunk<T, BYTES> &x, const Rows<T> &rows, int64_t i) const
    {
        enum { GROUP = RowChunk<T, BYTES>::GROUP, SIZE = RowChunk<T, BYTES>::SIZE };
#pragma unroll
        for (int k = 0; k < SIZE; k += GROUP) {
            if (k >= x.count)
                continue;
            const int64_t place = i + rows.offset(k), channel = quotient(place, inner);
            const A scale = by_deviation * load(gamma, channel), shift = load(beta, channel);
            const int of_channel = BORDERS ? int(minimum((channel + 1) * inner - place, int64_t(GROUP))) : GROUP;
            const int64_t next = of_channel < GROUP ? channel + 1 : channel;
            const A next_scale = BORDERS ? by_deviation * load(gamma, next) : scale;
            const A next_shift = BORDERS ? load(beta, next) : shift;
#pragma unroll
            for (int j = 0; j < GROUP; ++j) {
                const bool is_first = !BORDERS || j < of_channel;
                const A distance = x.values[k + j] - origin - mean;
                x.values[k + j] = distance * (is_first ? scale : next_scale) + (is_first ? shift : next_shift);
            }
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 3 : 2)
group_norm_forward(const T *__restrict__ data, const T *__restrict__ gamma, const T *__restrict__ beta,
                   T *__restrict__ output, typename Accumulator<T>::type *__restrict__ mean,
                   typename Accumulator<T>::type *__restrict__ inverse, double *__restrict__ partial,
                   int output_request, int mean_request, int inverse_request, int64_t step, int64_t batch,
                   int64_t groups, int64_t group_channels, int64_t inner, double eps)
{
    typedef typename Accumulator<T>::type A;
    const Sizes sizes = {batch, groups, group_channels, inner};
    const int64_t length = sizes.group_length(), chunk = RowChunk<T, BYTES>::length();
    const Rows<T> rows(length, 1, aligned(data) && aligned(output));
    for (int64_t group = first_row(); group < batch * groups; group += row_step()) {
        const RowPart row = rows.part(group, 0);
        const A origin = load(data, row.start);
        RowChunk<T, BYTES> x;
        const Moments<A> moments = row_moments(own_moments(data, rows, row, x, origin), length);
        const A by_deviation = 1 / square_root(moments.squares / A(length) + A(eps));
        if (threadIdx.x == 0) {
            store(mean, group, origin + moments.mean, mean_request);
            store(inverse, group, by_deviation, inverse_request);
        }
        const int64_t first_channel = (group - quotient(group, groups) * groups) * group_channels;
        const Normalized<T> normalized = {gamma + first_channel, beta + first_channel, inner, origin, moments.mean,
                                          by_deviation};
        const int64_t last = quotient(length - 1, chunk) * chunk;   // the chunk that is held
        for (int64_t i = last; i >= 0; i -= chunk) {
            if (i < last)
                x.read(data, rows, row, i, 0);
            normalized.apply(x, rows, i);
            x.write(output, rows, row, i, output_request);
        }
    }
}

// The sums over elements: of the head gradient, and of its product with the normalised data.
struct Sums {
    double head, unit;
};

// The same in the accumulator's type, as they are reduced over a row; the data are less their mean.
template <typename A>
struct RowSums {
    enum { NUMBERS = 2 };
    A head, centered;

    __device__ void add(const RowSums &other)
    {
        head += other.head;
        centered += other.centered;
    }

    __device__ void reduce(const OverLanes &over)
    {
        head = over(head, Sum());
        centered = over(centered, Sum());
    }

    __device__ A &number(int i) { return i == 0 ? head : centered; }
};

// CHANNELS: the sums of each channel of a sample.
template <typename T, typename A>
__device__ void sum_channels(const T *__restrict__ output_grad, const T *__restrict__ data,
                             const A *__restrict__ mean, const A *__restrict__ inverse,
                             Sums *__restrict__ channel_sums, const Sizes &sizes)
{
    const int64_t group_channels = sizes.group_channels;
    const Rows<T> rows(sizes.inner, 1, aligned(output_grad) && aligned(data));
    for (RowLoop at(sizes.batch * sizes.channels()); at.goes_on(); at.next()) {
        const RowPart row = rows.part(at.row, 0, at.exists);
        const int64_t group = quotient(at.row, group_channels);
        const A center = mean[group];
        RowChunk<T, BYTES> x, head;
        RowSums<A> sums = {0, 0};
        for (int64_t i = 0; i < row.length; i += x.length()) {
            x.read(data, rows, row, i, 0);
            head.read(output_grad, rows, row, i, 0);
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                sums.head += head.values[k];   // 0 behind the end
                sums.centered += head.values[k] * (x.values[k] - center);
            }
        }
        reduce_sums<A>(sums);
        if (at.is_first_thread()) {
            channel_sums[at.row].head = sums.head;
            channel_sums[at.row].unit = sums.centered * inverse[group];
        }
    }
}

// GROUPS: the sums over a group of gamma times the sums of its channels.
template <typename T>
__device__ void sum_groups(const T *__restrict__ gamma, const Sums *__restrict__ channel_sums,
                           Sums *__restrict__ group_sums, const Sizes &sizes)
{
    const int64_t group_channels = sizes.group_channels;
    for (int64_t group = first_row(); group < sizes.batch * sizes.groups; group += row_step()) {
        const int64_t first_channel = (group - quotient(group, sizes.groups) * sizes.groups) * group_channels;
        double head = 0, unit = 0;
        for (int64_t c = threadIdx.x; c < group_channels; c += blockDim.x) {
            const double factor = load(gamma, first_channel + c);
            head += factor * channel_sums[group * group_channels + c].head;
            unit += factor * channel_sums[group * group_channels + c].unit;
        }
        head = reduce_row(head, Sum());
        unit = reduce_row(unit, Sum());
        if (threadIdx.x == 0) {
            group_sums[group].head = head;
            group_sums[group].unit = unit;
        }
    }
}

// GROUPS: the gradients of gamma and beta, the sums over the samples. A row of threads takes a channel.
template <typename T>
__device__ void sum_samples(const Sums *__restrict__ channel_sums, T *__restrict__ gamma_grad,
                            T *__restrict__ beta_grad, int gamma_request, int beta_request, const Sizes &sizes)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t c = first_row(); c < sizes.channels(); c += row_step()) {
        double head = 0, unit = 0;
        for (int64_t sample = threadIdx.x; sample < sizes.batch; sample += blockDim.x) {
            head += channel_sums[sample * sizes.channels() + c].head;
            unit += channel_sums[sample * sizes.channels() + c].unit;
        }
        head = reduce_row(head, Sum());
        unit = reduce_row(unit, Sum());
        if (threadIdx.x == 0) {
            store(gamma_grad, c, A(unit), gamma_request);
            store(beta_grad, c, A(head), beta_request);
        }
    }
}

// DATA: the gradient of the data, channel by channel.
template <typename T, typename A>
__device__ void data_gradient(const T *__restrict__ output_grad, const T *__restrict__ data,
                              const T *__restrict__ gamma, const A *__restrict__ mean, const A *__restrict__ inverse,
                              T *__restrict__ data_grad, int request, const Sums *__restrict__ group_sums,
                              const Sizes &sizes, double eps)
{
    const int64_t group_channels = sizes.group_channels, channels = sizes.channels();
    const A length = A(sizes.group_length());
    const bool is_pair = sizes.group_length() <= 2;   // or a single element
    const Rows<T> rows(sizes.inner, 1, aligned(output_grad) && aligned(data) && aligned(data_grad));
    for (int64_t left = sizes.batch * channels - first_row(); left > 0; left -= row_step()) {
        const int64_t r = left - 1;
        const RowPart row = rows.part(r, 0);
        const int64_t group = quotient(r, group_channels), channel = r - quotient(r, channels) * channels;
        const A center = mean[group], by_deviation = inverse[group], factor = load(gamma, channel);
        const A head_mean = A(group_sums[group].head) / length;
        // What differs from the mean of a pair is a multiple of its normalised data. There the difference would cancel:
        // 1 - unit^2 is eps * inverse^2.
        const A unit_mean = is_pair ? 0 : A(group_sums[group].unit) / length;
        const A own = length == 1 ? 0 : is_pair ? A(eps) * by_deviation * by_deviation : 1;
        for (int64_t i = 0; i < row.length; i += RowChunk<T, BYTES>::length()) {
            RowChunk<T, BYTES> x, head;
            x.read(data, rows, row, i, 0);
            head.read(output_grad, rows, row, i, 0);
#pragma unroll
            for (int k = 0; k < x.SIZE; ++k) {
                const A unit = (x.values[k] - center) * by_deviation, by_unit = head.values[k] * factor;
                x.values[k] = ((by_unit - head_mean) * own - unit * unit_mean) * by_deviation;
            }
            x.write(data_grad, rows, row, i, request);
        }
    }
}

// Backward of long groups. A part of a group, which a block has, is some of its channels. A team of lanes has every
// `teams`-th of them, and reads a channel in chunks, of which each thread has a piece.
template <typename T>
struct Single {
    enum { SIZE = 1 };
    T items[1];
};

template <typename T>
__device__ void read_unit(Pack<T> &unit, const T *from) { unit = load_pack(from, 0); }
template <typename T>
__device__ void read_unit(Single<T> &unit, const T *from) { unit.items[0] = *from; }

template <typename T, typename A>
__device__ void write_unit(const Pack<T> *, T *to, const A *values, int request) { store_pack(to, 0, values, request); }
template <typename T, typename A>
__device__ void write_unit(const Single<T> *, T *to, const A *values, int request) { store(to, 0, *values, request); }

// The compiler forgets what it has computed of a unit: it would hold that in place of the unit. Only of float16 it is
// larger.
template <typename Unit>
__device__ void forget(Unit &) {}
__device__ inline void forget(Pack<__half> &unit)
{
    uint4 &words = *reinterpret_cast<uint4 *>(unit.items);
    asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
}

// Where a thread's piece is: the element of the group with which it begins, and how many units there are from it to the
// end of its channel, 0 or fewer where there is nothing.
struct PiecePlace {
    int offset, units;
    int channel;    // of the group
    bool is_last;   // of its channel, for all threads of a block
};

// The elements of a piece, of the data and of the head gradient, as they are in memory.
template <typename T, typename Unit>
struct Piece {
    typedef typename Accumulator<T>::type A;
    enum { WIDTH = Unit::SIZE, LOADS = WIDTH == 1 ? 8 : 2, SIZE = WIDTH * LOADS };
    PiecePlace place;
    Unit x[LOADS], head[LOADS];
    T factor;   // gamma of the channel

    // From a group's first elements and factors. Behind the end nothing is read, and single elements are 0. The factor
    // is read with them, so that nobody waits for it.
    __device__ void read(const T *data, const T *output_grad, const T *gamma, int64_t step)
    {
        if (place.units > 0)
            factor = gamma[place.channel];
        const T zero = T(A(0)), *from = data + place.offset, *head_from = output_grad + place.offset;
#pragma unroll
        for (int k = 0; k < LOADS; ++k, from += step, head_from += step)
            if (k < place.units) {
                read_unit(x[k], from);
                read_unit(head[k], head_from);
            } else if (WIDTH == 1) {
                x[k].items[0] = head[k].items[0] = zero;
            }
    }

    __device__ void forget_values()
    {
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            forget(x[k]);
            forget(head[k]);
        }
    }

    __device__ A x_value(int i) const { return load(x[i / WIDTH].items, i % WIDTH); }
    __device__ A head_value(int i) const { return load(head[i / WIDTH].items, i % WIDTH); }
};

// The pieces of a part, one after the other: chunks of a channel of each team, then those of the teams' next channels.
struct Walk {
    int channel, chunk;   // channel: of the group, that the first team has

    __device__ bool operator!=(const Walk &other) const { return channel != other.channel || chunk != other.chunk; }
};

// How the channels of a part are divided among the threads of a block: a power of two of them are a team.
template <typename T, typename Unit>
struct Teams {
    enum { WIDTH = Unit::SIZE, LOG_WIDTH = WIDTH == 1 ? 0 : WIDTH == 2 ? 1 : WIDTH == 4 ? 2 : 3 };
    enum { LOG_SIZE = LOG_WIDTH + (WIDTH == 1 ? 3 : 1), LOG_THREADS = 8 };   // of a piece, and of a block
    int inner, group_channels, channels, log_lanes, chunks;   // channels: of a part

    // See held_channels in the contract.
    __device__ Teams(int group_channels, int inner)
        : inner(inner), group_channels(group_channels), channels(unsigned(group_channels + gridDim.y - 1) / gridDim.y)
    {
        log_lanes = inner <= 1 << LOG_SIZE ? 0 : 32 - __clz((inner - 1) >> LOG_SIZE);
        log_lanes = log_lanes > LOG_THREADS ? int(LOG_THREADS) : log_lanes;
        chunks = ((inner - 1) >> (log_lanes + LOG_SIZE)) + 1;
    }

    __device__ int lane() const { return threadIdx.x & ((1 << log_lanes) - 1); }
    __device__ int team() const { return threadIdx.x >> log_lanes; }
    __device__ int64_t step() const { return opaque(int64_t(WIDTH) << log_lanes); }   // between a thread's units

    // The channels of a part of the group: the pieces begin at the first one, and end in front of `end`.
    __device__ Walk begin(int part) const
    {
        const Walk walk = {part * channels, 0};
        return walk;
    }

    __device__ int end(int part) const
    {
        const int next = (part + 1) * channels;
        return next < group_channels ? next : group_channels;
    }

    // The thread's piece, and then the next one.
    __device__ PiecePlace place(int end, Walk &walk) const
    {
        PiecePlace place;
        const int first = (walk.chunk << (log_lanes + LOG_SIZE)) + lane() * WIDTH;
        place.channel = walk.channel + team();
        place.offset = place.channel * inner + first;
        place.units = place.channel < end ? (inner - first + (WIDTH << log_lanes) - 1) >> (log_lanes + LOG_WIDTH) : 0;
        const bool ends = walk.chunk == chunks - 1;
        place.is_last = ends && walk.channel < end;
        walk.channel += ends ? 1 << (LOG_THREADS - log_lanes) : 0;
        walk.chunk = ends ? 0 : walk.chunk + 1;
        return place;
    }

    __device__ bool is_first_of_team() const { return lane() == 0; }

    // Gives the first thread of each team the sums of all its threads. All threads of the block call it.
    template <typename A>
    __device__ void reduce(RowSums<A> &sums) const
    {
        if (log_lanes < 5) {
            const OverLanes in_team = {1 << log_lanes};
            sums.reduce(in_team);
        } else if (log_lanes == 5) {
            const OverLanes in_warp = {32};
            sums.reduce(in_warp);
        } else {
            reduce_warps(sums, log_lanes - 5);
        }
    }

    // Gives the first thread of the block the sums that the first ones of the teams have.
    template <typename A>
    __device__ void reduce_teams(RowSums<A> &sums) const
    {
        if (log_lanes < LOG_THREADS)
            reduce_warps(sums, LOG_THREADS - 5);
    }

    // Gives the first of some neighbouring warps the sums of all these warps' threads.
    template <typename A>
    __device__ void reduce_warps(RowSums<A> &sums, int log_warps) const
    {
        enum { WARPS = (1 << LOG_THREADS) / 32, NUMBERS = RowSums<A>::NUMBERS };
        __shared__ A numbers[NUMBERS][WARPS];
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const bool upper = lane >= 16;   // half of the lanes sum one number, and half the other
        A sum = upper ? sums.centered : sums.head;
        sum += __shfl_xor_sync(0xffffffffu, upper ? sums.head : sums.centered, 16);
#pragma unroll
        for (int step = 8; step > 0; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        __syncthreads();   // the sums of the warps before
        if (lane % 16 == 0)
            numbers[upper][warp] = sum;
        __syncthreads();   // the sums of all warps
        if ((warp & ((1 << log_warps) - 1)) != 0)
            return;
        const int other = warp + (lane & ((1 << log_warps) - 1));
        const OverLanes over_warps = {1 << log_warps};
        sums.head = numbers[0][other];
        sums.centered = numbers[1][other];
        sums.reduce(over_warps);
    }
};

// A group of a sample: the sums of gamma times what RowSums has, and the data's gradient.
template <typename T, typename Unit>
struct GroupSource {
    typedef typename Accumulator<T>::type A;
    typedef RowSums<A> Sums;
    enum { PIECES = 2, NONE = -1, WIDTH = Unit::SIZE, LEAST = WIDTH == 1 ? 4 : 1 };   // LEAST: units summed at once
    struct Held {   // the last pieces
        Piece<T, Unit> pieces[PIECES];
        Walk walk;   // to them
    };

    const T *output_grad, *data, *gamma;   // of the group
    const Teams<T, Unit> &teams;
    int64_t row;   // the group among those of all samples
    int part;
    A center, by_deviation;
    volatile A *channel_sums;   // two of each channel of the group

    __device__ Sums none() const
    {
        const Sums sums = {0, 0};
        return sums;
    }

    __device__ void read(Held &held, int end, Walk &walk) const
    {
        const int64_t step = teams.step();
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            held.pieces[p].place = teams.place(end, walk);
            held.pieces[p].read(data, output_grad, gamma, step);
        }
    }

    // Those of a part, which the first thread of the block gets.
    __device__ Sums sum(int number, Held &held) const
    {
        Sums sums = none(), of_channel = none();
        Walk walk = teams.begin(number);
        const int end = teams.end(number);
#pragma unroll 1
        while (walk.channel < end) {   // every part has channels
            held.walk = walk;
            read(held, end, walk);
#pragma unroll
            for (int p = 0; p < PIECES; ++p) {
                const Piece<T, Unit> &piece = held.pieces[p];
#pragma unroll
                for (int i = 0; i < Piece<T, Unit>::SIZE; ++i) {
                    if (i % (LEAST * WIDTH) == 0 && i / WIDTH >= piece.place.units)
                        break;
                    const A head = piece.head_value(i);
                    of_channel.head += head;
                    of_channel.centered = fma(head, piece.x_value(i) - center, of_channel.centered);
                }
                if (!piece.place.is_last)
                    continue;
                teams.reduce(of_channel);
                const int channel = piece.place.channel;
                if (piece.place.units > 0 && teams.is_first_of_team()) {
                    const A factor = piece.factor;
                    sums.head += factor * of_channel.head;
                    sums.centered += factor * of_channel.centered;
                    if (number == part) {
                        channel_sums[2 * channel] = of_channel.head;
                        channel_sums[2 * channel + 1] = of_channel.centered * by_deviation;
                    }
                }
                of_channel = none();
            }
        }
        teams.reduce_teams(sums);
        return sums;
    }

    // Those of the group, which all threads get where they are wanted. `held` is of this block's part afterwards. As in
    // sum_row, a block computes what is missing itself: the part's block may not even have started.
    __device__ Sums sum_group(const Exchange<Sums::NUMBERS> &exchange, bool wanted, Held &held) const
    {
        const bool tells = wanted && gridDim.y > 1;
        __shared__ A whole[Sums::NUMBERS];
        __shared__ int next;
        for (int computed = part;;) {
            Sums sums = sum(computed, held);
            int missing = NONE;
            if (threadIdx.x == 0 && tells)
                exchange.put(row, computed, sums);
            if (threadIdx.x < 32 && tells) {
                sums = none();
                missing = exchange.collect(row, part, sums);
            }
            if (threadIdx.x == 0) {
                next = missing;
#pragma unroll
                for (int i = 0; i < Sums::NUMBERS; ++i)
                    whole[i] = sums.number(i);
            }
            __syncthreads();   // the sums of the group
            missing = next;
            if (missing == NONE && computed == part)
                break;
            computed = missing == NONE ? part : missing;
        }
        if (tells)
            exchange.leave(row);
        const Sums sums = {whole[0], whole[1]};
        return sums;
    }

    // The data's gradient of the part. `held` is what `sum` has left.
    __device__ void write(T *data_grad, int request, Held &held, const Sums &sums, A by_length) const
    {
        const A shift = -sums.head * by_length * by_deviation;
        const A slope = -sums.centered * by_length * by_deviation * by_deviation * by_deviation;
#pragma unroll
        for (int p = 0; p < PIECES; ++p)
            held.pieces[p].forget_values();
        Walk walk = teams.begin(part);
#pragma unroll 1
        for (;;) {
            write_held(data_grad, request, held, shift, slope);
            if (!(walk != held.walk))
                break;
            read(held, teams.end(part), walk);
        }
    }

    __device__ void write_held(T *data_grad, int request, const Held &held, A shift, A slope) const
    {
        const int64_t step = teams.step();
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            const Piece<T, Unit> &piece = held.pieces[p];
            if (piece.place.units <= 0)
                continue;
            const A factor = A(piece.factor) * by_deviation;
            T *to = data_grad + piece.place.offset;
#pragma unroll
            for (int k = 0; k < Piece<T, Unit>::LOADS; ++k, to += step) {
                if (k >= piece.place.units)
                    continue;
                A values[WIDTH];
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) {
                    const A x = piece.x_value(k * WIDTH + j) - center;
                    values[j] = fma(x, slope, fma(piece.head_value(k * WIDTH + j), factor, shift));
                }
                write_unit(piece.x, to, values, request);
            }
        }
    }
};

// The gradients of gamma and beta of a part's channels, by the last block of it that comes: a warp takes a channel. The
// block has met at a barrier since it summed its channels.
template <typename T, typename A>
__device__ void sum_samples_once(unsigned *count, volatile A *channel_sums, int64_t first, int64_t end, T *gamma_grad,
                                 T *beta_grad, int gamma_request, int beta_request, const Sizes &sizes)
{
    __shared__ bool is_last;
    if (threadIdx.x == 0)
        is_last = is_last_of(unsigned(sizes.batch), count);
    __syncthreads();   // the block of a part is counted
    if (!is_last)
        return;
    const int thread = int(opaque(threadIdx.x));   // what follows from it is not computed by other blocks
    for (int64_t c = first + thread / 32; c < end; c += blockDim.x / 32) {
        double head = 0, unit = 0;
#pragma unroll (sizeof(T) == 2 ? 1 : 4)   // in float16 there are no registers for more
        for (int64_t sample = thread % 32; sample < sizes.batch; sample += 32) {
            head += channel_sums[2 * (sample * sizes.channels() + c)];
            unit += channel_sums[2 * (sample * sizes.channels() + c) + 1];
        }
        head = reduce_warp(head, Sum());
        unit = reduce_warp(unit, Sum());
        if (thread % 32 == 0) {
            store(gamma_grad, c, A(unit), gamma_request);
            store(beta_grad, c, A(head), beta_request);
        }
    }
}

// AT_ONCE. `partial` has what the blocks of a group tell each other, the counts of parts, and the sums of channels.
// Groups are long, so that 32 bits number those of all samples.
template <typename T, typename Unit, typename A>
__device__ void backward_at_once(const T *__restrict__ output_grad, const T *__restrict__ data,
                                 const T *__restrict__ gamma, const A *__restrict__ mean,
                                 const A *__restrict__ inverse, T *__restrict__ data_grad, T *__restrict__ gamma_grad,
                                 T *__restrict__ beta_grad, double *__restrict__ partial, int data_grad_request,
                                 int gamma_request, int beta_request, const Sizes &all_sizes)
{
    const unsigned count = unsigned(all_sizes.batch * all_sizes.groups), block = blockIdx.y * gridDim.x + blockIdx.x;
    const int part = block % gridDim.y;
    const Exchange<2> exchange(partial, count);
    for (unsigned row = block / gridDim.y; row < count; row += gridDim.x) {
        // What follows from the sizes is not held from row to row: there are no registers for it.
        const Sizes sizes = {opaque(all_sizes.batch), opaque(all_sizes.groups), opaque(all_sizes.group_channels),
                             opaque(all_sizes.inner)};
        const int group_channels = int(sizes.group_channels), length = group_channels * int(sizes.inner);
        const int64_t start = int64_t(row) * length;
        const Teams<T, Unit> teams(group_channels, int(sizes.inner));
        double *const counts = partial + int64_t(count) * (1 + 2 * gridDim.y);
        A *const channel_sums = reinterpret_cast<A *>(counts + sizes.groups * gridDim.y);
        const int64_t group = row % unsigned(sizes.groups), channel = group * group_channels;
        const GroupSource<T, Unit> source = {output_grad + start, data + start, gamma + channel, teams, row, part,
                                             mean[row], inverse[row],
                                             channel_sums + 2 * int64_t(row) * group_channels};
        typename GroupSource<T, Unit>::Held held;
        const RowSums<A> sums = source.sum_group(exchange, data_grad_request != NOTHING, held);
        if (data_grad_request != NOTHING)
            source.write(data_grad + start, data_grad_request, held, sums, A(1) / A(length));
        const int64_t first = channel + teams.begin(part).channel, end = channel + teams.end(part);
        sum_samples_once(reinterpret_cast<unsigned *>(counts + group * gridDim.y + part), channel_sums, first, end,
                         gamma_grad, beta_grad, gamma_request, beta_request, sizes);
    }
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 2 : 1)
group_norm_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const T *__restrict__ gamma,
                    const typename Accumulator<T>::type *__restrict__ mean,
                    const typename Accumulator<T>::type *__restrict__ inverse, T *__restrict__ data_grad,
                    T *__restrict__ gamma_grad, T *__restrict__ beta_grad, double *__restrict__ partial,
                    int data_grad_request, int gamma_grad_request, int beta_grad_request, int64_t step, int64_t batch,
                    int64_t groups, int64_t group_channels, int64_t inner, double eps)
{
    const Sizes sizes = {batch, groups, group_channels, inner};
    Sums *const channel_sums = reinterpret_cast<Sums *>(partial);
    Sums *const group_sums = channel_sums + batch * sizes.channels();
    const bool is_packed = inner % Pack<T>::SIZE == 0 && aligned(output_grad) && aligned(data) && aligned(data_grad);
    if (step == AT_ONCE && is_packed) {
        backward_at_once<T, Pack<T> >(output_grad, data, gamma, mean, inverse, data_grad, gamma_grad, beta_grad,
                                      partial, data_grad_request, gamma_grad_request, beta_grad_request, sizes);
    } else if (step == AT_ONCE) {
        backward_at_once<T, Single<T> >(output_grad, data, gamma, mean, inverse, data_grad, gamma_grad, beta_grad,
                                        partial, data_grad_request, gamma_grad_request, beta_grad_request, sizes);
    } else if (step == EMPTY) {
        set_zeros(partial, batch * groups * (1 + 2 * gridDim.y) + groups * gridDim.y);
    } else if (step == CHANNELS) {
        sum_channels(output_grad, data, mean, inverse, channel_sums, sizes);
    } else if (step == GROUPS) {
        sum_groups(gamma, channel_sums, group_sums, sizes);
        sum_samples(channel_sums, gamma_grad, beta_grad, gamma_grad_request, beta_grad_request, sizes);
    } else if (data_grad_request != NOTHING) {
        data_gradient(output_grad, data, gamma, mean, inverse, data_grad, data_grad_request, group_sums, sizes,
                      eps);
    }
}
