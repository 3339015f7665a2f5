// ohem. Forward finds the lowest loss that is kept, digit by digit of its bits from the highest: it counts the losses
// by their next digit, and looks from the top for the one with the last loss that is kept. Where losses are equal to
// the lowest and not all of them are kept, the first ones are. A selection is one block's, which holds its losses if it
// can, or, where it is long, that of gridDim.y blocks, which have a part each. Then forward has steps:
//     CLEAR     the counts become 0, where they are not so from the launch before;
//     DIGITS    and those behind it, one for each digit: the counts of the losses;
//     KEEP      the output.
// Backward: a thread per element.

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { DIGIT_BITS = 11, BINS = 1 << DIGIT_BITS, MOST_DIGITS = 6, LAST_BINS = 1024 };   // LAST_BINS: of the last digit
enum { HELD = 16 };   // losses that a thread holds
enum Step { CLEAR, DIGITS, KEEP = DIGITS + MOST_DIGITS };

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

// Keys of losses, and back.
template <typename T>
struct Keys {
    typedef typename Bits<T>::Key Key;

    __device__ static Key sign() { return Key(1) << (Bits<T>::SIZE - 1); }
    __device__ static Key infinite_bits_of() { return infinite_bits(static_cast<const T *>(0)); }
    __device__ static Key infinite() { return infinite_bits_of() | sign(); }

    // All bits are 1 where the highest one is, or 0.
    __device__ static Key ones_if_negative(Key bits) { return Key(-Key(bits >> (Bits<T>::SIZE - 1))); }

    // 0 for a loss that does not count; no other has this key.
    __device__ static Key of(Key bits)
    {
        const Key magnitude = bits & Key(~sign());
        bits = magnitude > infinite_bits_of() ? infinite_bits_of() : bits;
        return magnitude == 0 ? Key(0) : Key(bits ^ (ones_if_negative(bits) | sign()));
    }

    // Infinity for a NaN.
    __device__ static T loss(Key key)
    {
        const Key bits = key ^ (Key(~ones_if_negative(key)) | sign());
        return *reinterpret_cast<const T *>(&bits);
    }
};

template <typename T> struct Keeper;

// The losses that a block has, a part of a selection. The threads hold their keys, or read them in chunks.
template <typename T>
struct Losses {
    typedef typename Bits<T>::Key Key;
    enum { CHUNK = HELD * THREADS };
    const T *data;
    int64_t start, end;
    bool is_held;
    Key keys[HELD];

    __device__ Losses(const T *data, int64_t length) : data(data)
    {
        const int64_t part_length = quotient(length + gridDim.y - 1, gridDim.y);
        start = minimum(blockIdx.y * part_length, length);
        end = minimum(start + part_length, length);
        is_held = end - start <= CHUNK;
        if (is_held)
            read(start);
    }

    __device__ Key key(int64_t i) const { return Keys<T>::of(reinterpret_cast<const Key *>(data)[i]); }

    // The chunk that begins there; 0 behind the end.
    __device__ void read(int64_t first)
    {
        const Key *const from = reinterpret_cast<const Key *>(data) + first + threadIdx.x;
        const int left = int(minimum(end - first, CHUNK)) - int(threadIdx.x);
        if (end - first >= CHUNK) {
#pragma unroll
            for (int k = 0; k < HELD; ++k)
                keys[k] = from[k * THREADS];
        } else {
#pragma unroll
            for (int k = 0; k < HELD; ++k)
                keys[k] = k * THREADS < left ? from[k * THREADS] : Key(0);
        }
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            keys[k] = Keys<T>::of(keys[k]);
    }

    template <typename Visitor>
    __device__ void see_chunk(Visitor &visitor) const
    {
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            visitor.see(keys[k], threadIdx.x + k * THREADS);
    }

    __device__ void see_chunk(Keeper<T> &keeper) const
    {
        if (keeper.is_simple()) {
#pragma unroll
            for (int k = 0; k < HELD; ++k)
                keeper.see_simply(keys[k], threadIdx.x + k * THREADS);
        } else {
#pragma unroll 1
            for (int i = threadIdx.x; i < keeper.left; i += THREADS)
                keeper.see(key(keeper.first + i), i);   // no place in `keys` is computed, so these are registers
        }
    }

    // Shows all keys of a thread, and their places in a chunk. Behind the end there may be keys of 0.
    template <typename Visitor>
    __device__ void show(Visitor &visitor)
    {
#pragma unroll 1
        for (int64_t first = start; first < end; first += CHUNK) {
            if (!is_held)
                read(first);
            visitor.begin(first);
            see_chunk(visitor);
        }
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
    int64_t is_known;    // whether no digit is left to be found: all losses that have those known are kept, say

    __device__ static Lowest of(unsigned long long key, int64_t left, bool is_known)
    {
        const Lowest lowest = {key, left, is_known};
        return lowest;
    }
};

// Counts losses by their first digit.
template <typename T>
struct FirstDigitCounter {
    typedef typename Bits<T>::Key Key;
    enum { SHIFT = Bits<T>::SIZE - DIGIT_BITS };
    unsigned *bins;

    __device__ void begin(int64_t) const {}

    __device__ void see(Key key, int) const
    {
        if (key != 0)
            atomicAdd(&bins[key >> SHIFT], 1u);
    }
};

// Counts losses by another digit, those whose higher digits are the lowest one's.
template <typename T>
struct DigitCounter {
    typedef typename Bits<T>::Key Key;
    unsigned *bins;
    Digit<T> digit;
    int above;
    Key higher;

    __device__ DigitCounter(unsigned *bins, const Lowest &lowest, int number)
        : bins(bins), digit(number), above(digit.shift + digit.width), higher(Key(lowest.key) >> above) {}

    __device__ void begin(int64_t) const {}

    // Only in float64 may the first digit of a loss be 0.
    __device__ void see(Key key, int) const
    {
        if (Key(key >> above) == higher && (sizeof(T) < 8 || key != 0))
            atomicAdd(&bins[(key >> digit.shift) & ((1 << digit.width) - 1)], 1u);
    }
};

template <typename T>
__device__ void count_digits(unsigned *bins, Losses<T> &losses, const Lowest &lowest, int number)
{
    uint4 zeros;
    zeros.x = zeros.y = zeros.z = zeros.w = 0;
#pragma unroll
    for (int bin = 0; bin < BINS; bin += 4 * THREADS)
        reinterpret_cast<uint4 *>(bins + bin)[threadIdx.x] = zeros;
    __syncthreads();   // the bins are empty
    if (number == 0) {
        FirstDigitCounter<T> counter = {bins};
        losses.show(counter);
    } else {
        DigitCounter<T> counter(bins, lowest, number);
        losses.show(counter);
    }
    __syncthreads();   // the losses are counted
}

// The same number with one digit more, from the counts of its losses. The first thread has the highest bins.
template <typename T, typename N>
__device__ Lowest with_digit(const Lowest &lowest, int number, const N *bins, const Wanted &wanted, int64_t above)
{
    enum { OWN = BINS / THREADS };
    __shared__ Lowest found;
    const int top = BINS - OWN - threadIdx.x * OWN;   // the lowest of this thread's bins
    __align__(16) N counts[OWN];
    N own = 0, total;
#pragma unroll
    for (int k = 0; k < OWN; k += 16 / sizeof(N))
        *reinterpret_cast<uint4 *>(counts + k) = *reinterpret_cast<const uint4 *>(bins + top + k);
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        own += counts[k];
    N before = sum_before<WARPS>(own, total);
    const int64_t kept = number ? lowest.left : wanted.number(int64_t(total), above);
    if (number == 0 && kept == 0)
        return Lowest::of(~0ull - 1, 0, true);
    if (number == 0 && kept >= int64_t(total))
        return Lowest::of(1, Lowest::ALL, true);
    if (int64_t(before) < kept && kept <= int64_t(before + own)) {
        int bin = OWN - 1;
#pragma unroll
        for (int k = OWN - 1; k > 0; --k)
            if (bin == k && int64_t(before + counts[k]) < kept) {
                before += counts[k];
                bin = k - 1;
            }
        const int64_t left = kept - int64_t(before);
        const bool all = left == int64_t(bins[top + bin]), is_last = number == Digit<T>::count() - 1;
        const unsigned long long digit = top + bin, key = lowest.key | digit << Digit<T>(number).shift;
        found = Lowest::of(key, all ? int64_t(Lowest::ALL) : left, all || is_last);
    }
    __syncthreads();   // the bin is found
    return found;
}

template <typename T>
struct AboveCounter {
    double threshold;
    int64_t found;

    __device__ void begin(int64_t) const {}

    __device__ void see(typename Bits<T>::Key key, int)
    {
        const T loss = Keys<T>::loss(key);
        found += key != 0 && load(&loss, 0) > threshold;
    }
};

template <typename T>
__device__ int64_t count_above(Losses<T> &losses, const Wanted &wanted)
{
    if (!wanted.bounded)
        return 0;
    AboveCounter<T> counter = {wanted.threshold, 0};
    losses.show(counter);
    return reduce_block(counter.found, Sum());
}

template <typename T>
struct EqualCounter {
    typename Bits<T>::Key lowest;
    int64_t found;

    __device__ void begin(int64_t) const {}
    __device__ void see(typename Bits<T>::Key key, int) { found += key == lowest; }
};

// The place behind the n-th of a block's losses that are equal to the lowest one. There are more of them.
template <typename T>
__device__ int64_t place_behind(const Losses<T> &losses, const Lowest &lowest, int64_t n)
{
    __shared__ int64_t found;
    const int64_t start = losses.start, share = (losses.end - start + THREADS - 1) / THREADS;
    const int64_t first = start + threadIdx.x * share, end = minimum(first + share, losses.end);
    int64_t own = 0, total;
#pragma unroll 1
    for (int64_t i = first; i < end; ++i)
        own += losses.key(i) == lowest.key;
    int64_t before = sum_before<WARPS>(own, total);
    if (before < n && n <= before + own) {
        int64_t i = first;
#pragma unroll 1
        for (; before < n; ++i)
            before += losses.key(i) == lowest.key;
        found = i;
    }
    __syncthreads();   // the place is found
    return found;
}

// Writes losses: from the key `least` on in front of a place, and those above it behind.
template <typename T>
struct Keeper {
    typedef typename Bits<T>::Key Key;
    const T *data;
    T *output;
    int request;
    Key least;
    int64_t equal_end, end;
    int64_t first;
    int equal_left, left;   // the same places in the chunk that begins at `first`

    __device__ void begin(int64_t chunk)
    {
        first = chunk;
        equal_left = int(Max()(minimum(equal_end - chunk, Losses<T>::CHUNK), int64_t(0)));
        left = int(minimum(end - chunk, Losses<T>::CHUNK));
    }

    // Whether `see_simply` suffices, in which all threads of a block do the same.
    __device__ bool is_simple() const
    {
        const bool has_one_least = equal_left == 0 || equal_left == left;
        return request == WRITE && left == Losses<T>::CHUNK && has_one_least;
    }

    __device__ void see_simply(Key key, int i) const
    {
        const bool is_kept = key >= Key(least + (equal_left == 0));
        T loss = Keys<T>::loss(is_kept ? key : Keys<T>::sign());
        if (is_kept && key == Keys<T>::infinite())
            loss = data[first + i];   // which may be a NaN
        output[first + i] = loss;
    }

    __device__ void see(Key key, int i) const
    {
        if (key >= (i < equal_left ? least : Key(least + 1)))
            copy(output, first + i, data, first + i, request);
        else
            store(output, first + i, 0, request);
    }
};

// Writes a block's losses; `left` of those that are equal to the lowest one are kept.
template <typename T>
__device__ void keep_losses(Losses<T> &losses, const Lowest &lowest, int64_t left, T *output, int request)
{
    typedef typename Bits<T>::Key Key;
    int64_t equal_end = lowest.left == Lowest::ALL ? losses.end : 0;   // behind the last equal one that is kept
    if (left > 0) {
        EqualCounter<T> counter = {Key(lowest.key), 0};
        losses.show(counter);
        const int64_t equal = reduce_block(counter.found, Sum());
        equal_end = equal <= left ? losses.end : place_behind<T>(losses, lowest, left);
    }
    Keeper<T> keeper;
    keeper.data = losses.data;
    keeper.output = output;
    keeper.request = request;
    keeper.least = Key(lowest.key);
    keeper.equal_end = equal_end;
    keeper.end = losses.end;
    losses.show(keeper);
}

// What the blocks of a selection share.
struct Shared {
    Count *bins;                 // of each digit
    Lowest *lowest;              // as it is before each digit
    Count *above;                // losses above the threshold
    unsigned short *of_parts;    // the last digit's bins of each part

    enum { LOWEST_SIZE = sizeof(Lowest) / sizeof(Count), PART_SIZE = LAST_BINS * sizeof(short) / sizeof(Count) };

    __device__ Shared(double *partial, int64_t selection)
    {
        bins = reinterpret_cast<Count *>(partial) + selection * (size() + gridDim.y * PART_SIZE);
        lowest = reinterpret_cast<Lowest *>(bins + MOST_DIGITS * BINS);
        above = reinterpret_cast<Count *>(lowest + MOST_DIGITS);
        of_parts = reinterpret_cast<unsigned short *>(bins + size());
    }

    // Without `of_parts`. A multiple of 16 bytes.
    __device__ static int64_t size() { return (MOST_DIGITS * BINS + MOST_DIGITS * LOWEST_SIZE + 1 + 1) / 2 * 2; }

    __device__ void clear(Count *from, int64_t count) const
    {
#pragma unroll 1
        for (int64_t i = blockIdx.y * THREADS + threadIdx.x; i < count; i += gridDim.y * THREADS)
            from[i] = 0;
    }

    // What the first digit's step needs.
    __device__ void clear_first() const
    {
        clear(bins, BINS);
        clear(above, 1);
    }

    // The lowest loss before a digit. The first block tells those of later steps.
    template <typename T>
    __device__ Lowest before_digit(int number, const Wanted &wanted) const
    {
        if (number == 0)
            return Lowest::of(0, 0, false);
        Lowest now = number == 1 ? Lowest::of(0, 0, false) : lowest[number - 1];
        if (!now.is_known)
            now = with_digit<T>(now, number - 1, bins + (number - 1) * BINS, wanted, int64_t(*above));
        if (number < MOST_DIGITS && blockIdx.y == 0 && threadIdx.x == 0)
            lowest[number] = now;
        return now;
    }
};

// A step of a selection that has several blocks. The counts of the first digit are 0 before its step, and those of the
// others after it.
template <typename T>
__device__ void select_in_steps(int step, Losses<T> &losses, const Shared &shared, const Wanted &wanted,
                                unsigned *bins, T *output, int request)
{
    const int digits = Digit<T>::count(), number = step - DIGITS;
    if (step == KEEP) {
        const Lowest lowest = shared.before_digit<T>(digits, wanted);
        int64_t before = 0;   // those equal to the lowest one in the parts in front
        if (lowest.left > 0) {
            const int bin = int(lowest.key & ((1 << Digit<T>(digits - 1).width) - 1));
#pragma unroll 1
            for (int part = threadIdx.x; part < blockIdx.y; part += THREADS)
                before += shared.of_parts[part * LAST_BINS + bin];
            before = reduce_block(before, Sum());
        }
        keep_losses<T>(losses, lowest, lowest.left - before, output, request);
        shared.clear_first();
    } else {
        const Lowest lowest = shared.before_digit<T>(number, wanted);
        if (number == 0)
            shared.clear(shared.bins + BINS, (digits - 1) * BINS);
        if (lowest.is_known)
            return;
        if (number == 0 && wanted.bounded) {
            const int64_t above = count_above<T>(losses, wanted);
            if (threadIdx.x == 0)
                atomicAdd(shared.above, Count(above));
        }
        count_digits<T>(bins, losses, lowest, number);
        const int used = 1 << Digit<T>(number).width;
#pragma unroll 1
        for (int bin = threadIdx.x; bin < used; bin += THREADS) {
            if (bins[bin])
                atomicAdd(&shared.bins[number * BINS + bin], Count(bins[bin]));
            if (number == digits - 1)
                shared.of_parts[blockIdx.y * LAST_BINS + bin] = bins[bin];
        }
    }
}

// A selection that has one block.
template <typename T>
__device__ void select_at_once(Losses<T> &losses, const Wanted &wanted, unsigned *bins, T *output, int request)
{
    Lowest lowest = Lowest::of(0, 0, false);
    const int64_t above = count_above<T>(losses, wanted);
#pragma unroll 1
    for (int number = 0; number < Digit<T>::count() && !lowest.is_known; ++number) {
        count_digits<T>(bins, losses, lowest, number);
        lowest = with_digit<T>(lowest, number, bins, wanted, above);
    }
    keep_losses<T>(losses, lowest, lowest.left, output, request);
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 4 ? 3 : 2)
ohem_forward(const T *__restrict__ data, T *__restrict__ output, double *__restrict__ partial, int output_request,
             int64_t step, int64_t selections, int64_t length, int64_t counts, int64_t keep, double ratio,
             int64_t bounded, double threshold)
{
    __shared__ uint4 aligned_bins[BINS / 4];
    unsigned *const bins = reinterpret_cast<unsigned *>(aligned_bins);
    for (int64_t selection = blockIdx.x; selection < selections; selection += gridDim.x) {
        if (gridDim.y > 1 && step == CLEAR) {
            Shared(partial, selection).clear_first();
            continue;
        }
        // What follows from the numbers is not held from selection to selection: there are no registers for it.
        const Wanted wanted = {opaque(counts), keep, ratio, opaque(bounded), threshold};
        T *const kept = output + selection * length;
        Losses<T> losses(data + selection * length, opaque(length));
        if (gridDim.y == 1)
            select_at_once<T>(losses, wanted, bins, kept, output_request);
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
