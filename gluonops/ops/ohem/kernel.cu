// ohem. Forward finds the lowest loss that is kept, digit by digit of its bits from the highest: it counts the losses by
// their next digit, and looks from the top for the one with the last loss that is kept. Where losses are equal to the
// lowest and not all of them are kept, the first ones are. A short selection is one block's. A long one has gridDim.y
// blocks, and a launch for each digit, whose last block finds the digit. Backward: a thread per element.
#include "../_blocks/blocks.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { OWN = 4, CHUNK = OWN * THREADS };   // losses that a thread, and a block, reads together
enum { DIGIT_BITS = 11 };   // BINS are 2^11

template <typename T> struct Bits;
template <> struct Bits<__half> { typedef unsigned short Key; enum { SIZE = 16, INFINITE = 0x7c00 }; };
template <> struct Bits<float> { typedef unsigned Key; enum { SIZE = 32, INFINITE = 0x7f800000 }; };
template <> struct Bits<double>
{
    typedef unsigned long long Key;
    enum { SIZE = 64 };
    static const Key INFINITE = 0x7ff0000000000000ull;
};

// A number in the order of the losses. A NaN counts as infinity. It is 0 for a loss that does not count, and for no other.
template <typename T>
__device__ typename Bits<T>::Key key_of(const T *data, int64_t i)
{
    typedef typename Bits<T>::Key Key;
    const Key bits = reinterpret_cast<const Key *>(data)[i], sign = Key(1) << (Bits<T>::SIZE - 1);
    const Key magnitude = bits & Key(~sign);
    if (magnitude == 0)
        return 0;
    if (magnitude > Key(Bits<T>::INFINITE))
        return Key(Bits<T>::INFINITE) | sign;
    return bits & sign ? Key(~bits) : Key(bits | sign);
}

// The bits of a digit of a key.
template <typename T>
struct Digit {
    int width, shift;

    __device__ explicit Digit(int number)
        : width(int(minimum(DIGIT_BITS, Bits<T>::SIZE - DIGIT_BITS * number))),
          shift(Bits<T>::SIZE - DIGIT_BITS * number - width) {}

    __device__ static int count() { return (Bits<T>::SIZE + DIGIT_BITS - 1) / DIGIT_BITS; }
    __device__ int of(unsigned long long key) const { return int(key >> shift) & ((1 << width) - 1); }
};

// The lowest loss that is kept, as far as its digits are known, and how many are kept of those that have these digits.
// Where all of them are, no other digit has to be found.
struct Lowest {
    unsigned long long key;
    int64_t left, is_found;
};

// The losses that a block has, a part of a selection.
template <typename T>
struct Part {
    const T *data;
    int64_t start, end;

    __device__ Part(const T *data, int64_t length, int64_t part_length)
        : data(data), start(minimum(blockIdx.y * part_length, length)), end(minimum(start + part_length, length)) {}

    // This thread's keys of the chunk that begins at `first`, THREADS apart; 0 behind the end.
    __device__ void read(unsigned long long *keys, int64_t first) const
    {
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            const int64_t i = first + k * THREADS + threadIdx.x;
            keys[k] = i < end ? key_of(data, i) : 0;
        }
    }

    // Counts losses by a digit, those whose higher digits are the lowest one's.
    __device__ void count_digits(unsigned *bins, const Lowest &lowest, int number) const
    {
        const Digit<T> digit(number);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            bins[bin] = 0;
        __syncthreads();   // the bins are empty
        for (int64_t first = start; first < end; first += CHUNK) {
            unsigned long long keys[OWN];
            read(keys, first);
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                const bool has_higher = number == 0 || (keys[k] ^ lowest.key) >> digit.shift >> digit.width == 0;
                if (keys[k] != 0 && has_higher)
                    atomicAdd(&bins[digit.of(keys[k])], 1u);
            }
        }
        __syncthreads();   // the losses are counted
    }
};

// How many of so many losses are kept.
template <typename Args>
__device__ int64_t number_kept(const Args &args, int64_t all)
{
    return args.keep.given ? args.keep.value : int64_t(ceil(args.ratio * double(all)));
}

// Whether a loss is above the threshold, if there is one. A NaN is above every threshold.
template <typename Args, typename A>
__device__ bool exceeds(const Args &args, A loss)
{
    return args.threshold.given && !(double(loss) <= args.threshold.value);
}

// The lowest loss with one digit more, from the counts of the losses by it. The first thread has the highest bins.
template <typename T, typename N>
__device__ Lowest with_digit(const OhemArgs<T> &args, const Lowest &lowest, int number, const N *bins)
{
    enum { OWN = BINS / THREADS };
    __shared__ Lowest found;
    const int top = BINS - 1 - threadIdx.x * OWN;
    int64_t own = 0, all;
    for (int k = 0; k < OWN; ++k)
        own += bins[top - k];
    int64_t before = sum_before<WARPS>(own, all);
    const int64_t kept = number == 0 ? number_kept(args, all) : lowest.left;
    if (threadIdx.x == 0 && kept == 0)
        found.key = ~0ull;
    if (threadIdx.x == 0 && kept >= all)
        found.key = 1;
    if (threadIdx.x == 0 && (kept == 0 || kept >= all))
        found.is_found = true;
    if (before < kept && kept <= before + own && kept < all) {
        int bin = top;
        for (; before + bins[bin] < kept; --bin)
            before += bins[bin];
        found.key = lowest.key | static_cast<unsigned long long>(bin) << Digit<T>(number).shift;
        found.left = kept - before;
        found.is_found = found.left == int64_t(bins[bin]);
    }
    __syncthreads();   // the digit is found
    return found;
}

// Writes a block's losses. `left`: how many of those that are equal to the lowest one are kept, where not all are.
template <typename T>
__device__ void keep_losses(const OhemArgs<T> &args, const Part<T> &part, const Lowest &lowest, int64_t left, T *output)
{
    for (int64_t first = part.start; first < part.end; first += THREADS) {
        const int64_t i = first + threadIdx.x;
        const unsigned long long key = i < part.end ? key_of(part.data, i) : 0;
        const bool is_equal = key == lowest.key;
        bool is_kept = key > lowest.key || is_equal && lowest.is_found;
        if (!lowest.is_found) {
            int equal;
            __syncthreads();   // the sums of the losses before are read
            const int before = sum_before<WARPS>(int(is_equal), equal);
            is_kept |= is_equal && before < left;
            left -= equal;
        }
        if (i >= part.end)
            continue;
        if (is_kept || key != 0 && exceeds(args, load(part.data, i)))
            copy(output, i, part.data, i, args.output_request);
        else
            store(output, i, 0, args.output_request);
    }
}

// A selection that has one block.
template <typename T>
__device__ void select_at_once(const OhemArgs<T> &args, const Part<T> &part, unsigned *bins, T *output)
{
    Lowest lowest = {0, 0, false};
    for (int number = 0; number < Digit<T>::count() && !lowest.is_found; ++number) {
        part.count_digits(bins, lowest, number);
        lowest = with_digit(args, lowest, number, bins);
    }
    keep_losses(args, part, lowest, lowest.left, output);
}

typedef unsigned long long Count;

// What the blocks of a selection share: the counts of a digit, which are 0 between launches; the lowest loss; and the
// last digit's counts in each part.
struct Selection {
    volatile Count *bins;
    volatile Lowest *lowest;
    volatile unsigned short *of_parts;

    template <typename T>
    __device__ Selection(const OhemArgs<T> &args, int64_t number)
        : bins(args.bins + number * BINS), lowest(args.lowest + number),
          of_parts(args.of_parts + number * gridDim.y * LAST_BINS) {}

    __device__ Lowest known() const
    {
        const Lowest known = {lowest->key, lowest->left, lowest->is_found};
        return known;
    }

    __device__ void tell(const Lowest &now) const
    {
        lowest->key = now.key;
        lowest->left = now.left;
        lowest->is_found = now.is_found;
    }
};

// A digit of a selection that has several blocks.
template <typename T>
__device__ void find_digit(const OhemArgs<T> &args, const Part<T> &part, int number, int64_t selection, unsigned *bins)
{
    const Selection shared(args, selection);
    const Scratch<Count> scratch(args.counts, 0);
    Lowest lowest = {0, 0, false};
    if (number > 0)
        lowest = shared.known();
    if (lowest.is_found)
        return;
    part.count_digits(bins, lowest, number);
    for (int bin = threadIdx.x; bin < 1 << Digit<T>(number).width; bin += THREADS) {
        if (bins[bin])
            atomicAdd(const_cast<Count *>(shared.bins) + bin, Count(bins[bin]));
        if (number == Digit<T>::count() - 1)
            shared.of_parts[blockIdx.y * LAST_BINS + bin] = bins[bin];
    }
    if (!scratch.is_last_block(selection, gridDim.y))
        return;
    const Lowest now = with_digit(args, lowest, number, shared.bins);
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
        shared.bins[bin] = 0;
    if (threadIdx.x == 0)
        shared.tell(now);
}

// The output of a selection that has several blocks.
template <typename T>
__device__ void keep_part(const OhemArgs<T> &args, const Part<T> &part, int64_t selection, T *output)
{
    const Selection shared(args, selection);
    const Lowest lowest = shared.known();
    int64_t before = 0;   // those equal to the lowest one in the parts in front
    if (!lowest.is_found) {
        const int bin = Digit<T>(Digit<T>::count() - 1).of(lowest.key);
        for (int other = threadIdx.x; other < blockIdx.y; other += THREADS)
            before += shared.of_parts[other * LAST_BINS + bin];
        before = reduce_block(before, Sum());
    }
    keep_losses(args, part, lowest, lowest.left - before, output);
}

template <typename T>
__device__ void forward(const OhemArgs<T> &args)
{
    __shared__ unsigned bins[BINS];
    const int64_t length = args.length, part_length = quotient(length + gridDim.y - 1, gridDim.y);
    for (int64_t selection = blockIdx.x; selection < args.selections; selection += gridDim.x) {
        const Part<T> part(args.data + selection * length, length, part_length);
        if (gridDim.y == 1)
            select_at_once(args, part, bins, args.output + selection * length);
        else if (args.step == args.KEEP)
            keep_part(args, part, selection, args.output + selection * length);
        else
            find_digit(args, part, int(args.step), selection, bins);
    }
}

template <typename T>
__device__ void backward(const OhemArgs<T> &args)
{
    for (int64_t i = first_item(); i < args.size; i += item_step()) {
        const bool is_kept = load(args.output, i) != 0;   // true for NaN
        if (is_kept)
            copy(args.data_grad, i, args.output_grad, i, args.data_grad_request);
        else
            store(args.data_grad, i, 0, args.data_grad_request);
    }
}
