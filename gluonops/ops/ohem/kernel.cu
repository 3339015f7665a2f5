// ohem. Forward finds the lowest loss that is kept, digit by digit of its bits from the highest: it counts the losses
// by their next digit, and looks from the top for the one with the last loss that is kept. Where losses are equal to the
// lowest and not all of them are kept, the first ones are. A selection is one block's or, where it is long, that of
// gridDim.y blocks, which have a part each. Then forward has steps:
//     CLEAR     the counts become 0;
//     DIGITS    and those behind it, one for each digit: the counts of the losses;
//     EQUALS    how many losses of each part are equal to the lowest that is kept;
//     KEEP      the output.
// Backward: a thread per element.

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { DIGIT_BITS = 11, BINS = 1 << DIGIT_BITS, MOST_DIGITS = 6 };
enum Step { CLEAR, DIGITS, EQUALS = DIGITS + MOST_DIGITS, KEEP };

typedef unsigned long long Count;

// Keys in the order of the losses. A NaN counts as infinity. The bits of a loss are those of an unsigned number.
template <typename T> struct Bits;
template <> struct Bits<__half> { typedef unsigned short Key; enum { SIZE = 16 }; };
template <> struct Bits<float> { typedef unsigned Key; enum { SIZE = 32 }; };
template <> struct Bits<double> { typedef unsigned long long Key; enum { SIZE = 64 }; };

__device__ inline unsigned short infinite_bits(const __half *) { return 0x7c00; }
__device__ inline unsigned infinite_bits(const float *) { return 0x7f800000; }
__device__ inline unsigned long long infinite_bits(const double *) { return 0x7ff0000000000000ull; }

// The bits of a digit of a key.
template <typename T>
struct Digit {
    int width, shift;

    __device__ explicit Digit(int number)
        : width(int(minimum(DIGIT_BITS, Bits<T>::SIZE - DIGIT_BITS * number))),
          shift(Bits<T>::SIZE - DIGIT_BITS * number - width) {}

    __device__ static int count() { return (Bits<T>::SIZE + DIGIT_BITS - 1) / DIGIT_BITS; }
};

// The losses that a block has: a part of a selection.
template <typename T>
struct Losses {
    typedef typename Accumulator<T>::type A;
    typedef typename Bits<T>::Key Key;
    const T *data;
    int64_t first, end;   // this thread's first place, and that behind the last one

    __device__ Losses(const T *data, int64_t length) : data(data)
    {
        const int64_t part_length = quotient(length + gridDim.y - 1, gridDim.y), start = blockIdx.y * part_length;
        first = start + threadIdx.x;
        end = minimum(start + part_length, length);
    }

    // 0 for a loss that does not count; no other has this key.
    __device__ Key key(int64_t i) const
    {
        const Key sign = Key(1) << (Bits<T>::SIZE - 1), infinite = infinite_bits(data);
        Key bits = reinterpret_cast<const Key *>(data)[i];
        const Key magnitude = bits & Key(~sign);
        if (magnitude == 0)
            return 0;
        bits = magnitude > infinite ? infinite : bits;
        return bits & sign ? Key(~bits) : Key(bits | sign);
    }
};

// How many losses are kept.
struct Wanted {
    int64_t counts, keep;
    double ratio;
    int64_t bounded;
    double threshold;

    __device__ int64_t number(int64_t count, int64_t above) const
    {
        const int64_t wanted = counts ? keep : int64_t(ceil(ratio * double(count)));
        return bounded ? Max()(above, wanted) : wanted;
    }
};

// The lowest loss that is kept, as far as its digits are known, and how many are kept of those that are equal to it.
struct Lowest {
    enum { ALL = -1 };
    unsigned long long key;
    int64_t left;        // or ALL
    int64_t is_known;    // whether no digit is left to be found

    __device__ static Lowest of(unsigned long long key, int64_t left, bool is_known)
    {
        const Lowest lowest = {key, left, is_known};
        return lowest;
    }
};

// The sum of what the threads in front of this one have, and that of all.
__device__ inline int64_t sum_before(int64_t own, int64_t &total)
{
    __shared__ int64_t of_warps[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t sum = own;
    for (int step = 1; step < 32; step *= 2) {
        const int64_t other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        of_warps[warp] = sum;
    __syncthreads();   // the sums of all warps
    int64_t before = sum - own;
    total = 0;
    for (int other = 0; other < WARPS; ++other) {
        before += other < warp ? of_warps[other] : 0;
        total += of_warps[other];
    }
    return before;
}

// Counts a block's losses by a digit, those whose higher digits are the lowest one's.
template <typename T>
__device__ void count_digits(unsigned *bins, const Losses<T> &losses, const Lowest &lowest, int number)
{
    typedef typename Losses<T>::Key Key;
    const Digit<T> digit(number);
    const Key higher = number ? Key(lowest.key >> digit.shift >> digit.width) : Key(0);
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
        bins[bin] = 0;
    __syncthreads();   // the bins are empty
#pragma unroll 4
    for (int64_t i = losses.first; i < losses.end; i += THREADS) {
        const Key key = losses.key(i);
        const Key digits = key >> digit.shift;
        const bool belongs = number == 0 || Key(digits >> digit.width) == higher;
        if (key != 0 && belongs)
            atomicAdd(&bins[digits & ((1 << digit.width) - 1)], 1u);
    }
    __syncthreads();   // the losses are counted
}

// The same number with one digit more, from the counts of its losses.
template <typename T, typename N>
__device__ Lowest with_digit(const Lowest &lowest, int number, const N *bins, const Wanted &wanted, int64_t above)
{
    enum { OWN = BINS / THREADS };
    __shared__ Lowest found;
    const int top = BINS - 1 - threadIdx.x * OWN;   // of this thread's bins
    int64_t own = 0, total;
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        own += bins[top - k];
    int64_t before = sum_before(own, total);
    const int64_t kept = number ? lowest.left : wanted.number(total, above);
    if (number == 0 && kept == 0)
        return Lowest::of(~0ull, 0, true);
    if (number == 0 && kept >= total)
        return Lowest::of(0, 0, true);
    if (before < kept && kept <= before + own) {
        int bin = top;
        for (; before + int64_t(bins[bin]) < kept; --bin)
            before += bins[bin];
        const bool is_last = number == Digit<T>::count() - 1, all = kept - before == int64_t(bins[bin]);
        const unsigned long long key = lowest.key | (unsigned long long)(bin) << Digit<T>(number).shift;
        found = Lowest::of(key, is_last && all ? int64_t(Lowest::ALL) : kept - before, is_last);
    }
    __syncthreads();   // the bin is found
    return found;
}

template <typename T>
__device__ int64_t count_above(const Losses<T> &losses, const Wanted &wanted)
{
    typedef typename Losses<T>::A A;
    int64_t found = 0;
    for (int64_t i = losses.first; wanted.bounded && i < losses.end; i += THREADS) {
        const A loss = load(losses.data, i);
        const bool is_above = !(loss <= wanted.threshold);   // so is a NaN
        found += loss != 0 && is_above;
    }
    return reduce_block(found, Sum());
}

template <typename T>
__device__ int64_t count_equal(const Losses<T> &losses, const Lowest &lowest)
{
    int64_t found = 0;
    for (int64_t i = losses.first; i < losses.end; i += THREADS)
        found += losses.key(i) == lowest.key;
    return reduce_block(found, Sum());
}

// The place behind the n-th of a block's losses that are equal to the lowest one. There are more of them.
template <typename T>
__device__ int64_t place_behind(const Losses<T> &losses, const Lowest &lowest, int64_t n)
{
    __shared__ int64_t found;
    const int64_t start = losses.first - threadIdx.x, share = (losses.end - start + THREADS - 1) / THREADS;
    const int64_t first = start + threadIdx.x * share, end = minimum(first + share, losses.end);
    int64_t own = 0, total;
    for (int64_t i = first; i < end; ++i)
        own += losses.key(i) == lowest.key;
    int64_t before = sum_before(own, total);
    if (before < n && n <= before + own) {
        int64_t i = first;
        for (; before < n; ++i)
            before += losses.key(i) == lowest.key;
        found = i;
    }
    __syncthreads();   // the place is found
    return found;
}

// Writes a block's losses; `left` of those that are equal to the lowest one are kept.
template <typename T>
__device__ void keep_losses(const Losses<T> &losses, const Lowest &lowest, int64_t left, T *output, int request)
{
    typedef typename Losses<T>::Key Key;
    int64_t equal_end = lowest.left == Lowest::ALL ? losses.end : 0;   // the place behind the last equal one that is kept
    if (left > 0)
        equal_end = count_equal(losses, lowest) <= left ? losses.end : place_behind(losses, lowest, left);
#pragma unroll 4
    for (int64_t i = losses.first; i < losses.end; i += THREADS) {
        const Key key = losses.key(i);
        const bool is_kept = key > lowest.key || (key == lowest.key && i < equal_end);
        if (is_kept && key != 0)
            copy(output, i, losses.data, i, request);
        else
            store(output, i, 0, request);
    }
}

// What the blocks of a selection share.
struct Shared {
    Count *bins;        // of each digit
    Lowest *lowest;     // as it is before each digit, and behind the last one
    Count *above;       // losses above the threshold
    int64_t *equals;    // of each part

    enum { LOWEST_SIZE = sizeof(Lowest) / sizeof(Count) };

    __device__ Shared(double *partial, int64_t selection)
    {
        bins = reinterpret_cast<Count *>(partial) + selection * (size() + gridDim.y);
        lowest = reinterpret_cast<Lowest *>(bins + MOST_DIGITS * BINS);
        above = reinterpret_cast<Count *>(lowest + MOST_DIGITS + 1);
        equals = reinterpret_cast<int64_t *>(above + 1);
    }

    // Without `equals`.
    __device__ static int64_t size() { return MOST_DIGITS * BINS + (MOST_DIGITS + 1) * LOWEST_SIZE + 1; }

    __device__ void clear() const
    {
        for (int64_t i = blockIdx.y * THREADS + threadIdx.x; i < size(); i += gridDim.y * THREADS)
            bins[i] = 0;
    }

    // The lowest loss before a digit. The first block tells those of later steps.
    template <typename T>
    __device__ Lowest before_digit(int number, const Wanted &wanted) const
    {
        if (number == 0)
            return lowest[0];
        Lowest now = lowest[number - 1];
        if (!now.is_known)
            now = with_digit<T>(now, number - 1, bins + (number - 1) * BINS, wanted, int64_t(*above));
        if (blockIdx.y == 0 && threadIdx.x == 0)
            lowest[number] = now;
        return now;
    }
};

// A step of a selection that has several blocks.
template <typename T>
__device__ void select_in_steps(int step, const Losses<T> &losses, const Shared &shared, const Wanted &wanted,
                                unsigned *bins, T *output, int request)
{
    const int digits = Digit<T>::count(), number = step - DIGITS;
    if (step == CLEAR) {
        shared.clear();
    } else if (step == KEEP) {
        const Lowest lowest = shared.lowest[digits];
        int64_t left = lowest.left;
        for (int part = 0; left > 0 && part < blockIdx.y; ++part)
            left -= shared.equals[part];
        keep_losses(losses, lowest, left, output, request);
    } else if (step == EQUALS) {
        const Lowest lowest = shared.before_digit<T>(digits, wanted);
        if (lowest.left <= 0)
            return;
        const int64_t equal = count_equal(losses, lowest);
        if (threadIdx.x == 0)
            shared.equals[blockIdx.y] = equal;
    } else if (number < digits) {
        const Lowest lowest = shared.before_digit<T>(number, wanted);
        if (lowest.is_known)
            return;
        if (number == 0 && wanted.bounded) {
            const int64_t above = count_above(losses, wanted);
            if (threadIdx.x == 0)
                atomicAdd(shared.above, Count(above));
        }
        count_digits(bins, losses, lowest, number);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            if (bins[bin])
                atomicAdd(&shared.bins[number * BINS + bin], Count(bins[bin]));
    }
}

// A selection that has one block.
template <typename T>
__device__ void select_at_once(const Losses<T> &losses, const Wanted &wanted, unsigned *bins, T *output, int request)
{
    Lowest lowest = Lowest::of(0, 0, false);
    const int64_t above = count_above(losses, wanted);
    for (int number = 0; number < Digit<T>::count() && !lowest.is_known; ++number) {
        count_digits(bins, losses, lowest, number);
        lowest = with_digit<T>(lowest, number, bins, wanted, above);
    }
    keep_losses(losses, lowest, lowest.left, output, request);
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 2 ? 3 : 4)
ohem_forward(const T *__restrict__ data, T *__restrict__ output, double *__restrict__ partial, int output_request,
             int64_t step, int64_t selections, int64_t length, int64_t counts, int64_t keep, double ratio,
             int64_t bounded, double threshold)
{
    __shared__ unsigned bins[BINS];
    const Wanted wanted = {counts, keep, ratio, bounded, threshold};
    for (int64_t selection = blockIdx.x; selection < selections; selection += gridDim.x) {
        const Losses<T> losses(data + selection * length, length);
        T *const kept = output + selection * length;
        if (gridDim.y == 1)
            select_at_once(losses, wanted, bins, kept, output_request);
        else
            select_in_steps(int(step), losses, Shared(partial, selection), wanted, bins, kept, output_request);
    }
}

template <typename T>
__global__ void ohem_backward(const T *__restrict__ output_grad, const T *__restrict__ output,
                              T *__restrict__ data_grad, double *__restrict__ partial, int data_grad_request,
                              int64_t step, int64_t selections, int64_t length, int64_t counts, int64_t keep,
                              double ratio, int64_t bounded, double threshold)
{
    for (int64_t i = first_item(); i < selections * length; i += item_step()) {
        const bool is_kept = load(output, i) != 0;   // true for NaN
        if (is_kept)
            copy(data_grad, i, output_grad, i, data_grad_request);
        else
            store(data_grad, i, 0, data_grad_request);
    }
}
