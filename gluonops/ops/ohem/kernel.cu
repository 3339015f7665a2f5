// ohem. Forward finds the lowest loss that is kept, digit by digit of its bits from the highest: it counts the losses by
// their next digit, and looks from the top for the one with the last loss that is kept. Where losses are equal to the
// lowest and not all of them are kept, the first ones are. A selection has gridDim.y blocks. One block does it all at
// once. Several have a launch for each digit, whose last block finds the digit; one for the losses that are equal to the
// lowest; and one for the output. Backward: a thread per element.
#include "../_blocks/blocks.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
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

typedef unsigned long long Count;

// A selection, and the part of it that a block has.
template <typename T>
struct Selection {
    const OhemArgs<T> &args;
    const T *data;
    T *output;
    int64_t number, start, end;

    __device__ Selection(const OhemArgs<T> &args, int64_t number)
        : args(args), data(args.data + number * args.length), output(args.output + number * args.length), number(number)
    {
        const int64_t part_length = quotient(args.length + gridDim.y - 1, gridDim.y);
        start = minimum(blockIdx.y * part_length, args.length);
        end = minimum(start + part_length, args.length);
    }

    // How many of so many losses are kept.
    __device__ int64_t number_kept(int64_t all) const
    {
        return args.keep.given ? args.keep.value : int64_t(ceil(args.ratio * double(all)));
    }

    // Whether a loss is above the threshold, if there is one. A NaN is above every threshold.
    template <typename A>
    __device__ bool exceeds(A loss) const
    {
        return args.threshold.given && !(double(loss) <= args.threshold.value);
    }

    // Counts losses by a digit, those whose higher digits are the lowest one's.
    __device__ void count_digits(unsigned *bins, const Lowest &lowest, int place) const
    {
        const Digit<T> digit(place);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            bins[bin] = 0;
        __syncthreads();   // the bins are empty
#pragma unroll 4
        for (int64_t i = start + threadIdx.x; i < end; i += THREADS) {
            const unsigned long long key = key_of(data, i);
            const bool has_higher = place == 0 || (key ^ lowest.key) >> digit.shift >> digit.width == 0;
            if (key != 0 && has_higher)
                atomicAdd(&bins[digit.of(key)], 1u);
        }
        __syncthreads();   // the losses are counted
    }

    // The lowest loss with one digit more, from the counts of the losses by it. The first thread has the highest bins.
    template <typename N>
    __device__ Lowest with_digit(const Lowest &lowest, int place, const N *bins) const
    {
        enum { OWN = BINS / THREADS };
        __shared__ Lowest found;
        const int top = BINS - 1 - threadIdx.x * OWN;
        int64_t own = 0, all;
        for (int k = 0; k < OWN; ++k)
            own += bins[top - k];
        int64_t before = sum_before<WARPS>(own, all);
        const int64_t kept = place == 0 ? number_kept(all) : lowest.left;
        if (threadIdx.x == 0 && (kept == 0 || kept >= all)) {
            found.key = kept == 0 ? ~0ull : 1;
            found.is_found = true;
        }
        if (before < kept && kept <= before + own && kept < all) {
            int bin = top;
            for (; before + bins[bin] < kept; --bin)
                before += bins[bin];
            found.key = lowest.key | static_cast<unsigned long long>(bin) << Digit<T>(place).shift;
            found.left = kept - before;
            found.is_found = found.left == int64_t(bins[bin]);
        }
        __syncthreads();   // the digit is found
        return found;
    }

    // One of several blocks. The last one finds the digit.
    __device__ void find_digit(unsigned *own_bins, const Lowest &lowest, int place) const
    {
        const Scratch<Count> scratch(args.counts, args.bins + number * BINS);
        count_digits(own_bins, lowest, place);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            if (own_bins[bin])
                atomicAdd(const_cast<Count *>(scratch.partial) + bin, Count(own_bins[bin]));
        if (!scratch.is_last_block(number, gridDim.y))
            return;
        const Lowest found = with_digit(lowest, place, scratch.partial);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            scratch.partial[bin] = 0;   // for the next launch
        if (threadIdx.x == 0)
            args.lowest[number] = found;
    }

    // How many losses of the part are equal to the lowest one.
    __device__ int64_t count_equal(const Lowest &lowest) const
    {
        int64_t own = 0;
        for (int64_t i = start + threadIdx.x; i < end; i += THREADS)
            own += key_of(data, i) == lowest.key;
        return reduce_block(own, Sum());
    }

    // Writes the part. `left`: how many of those that are equal to the lowest one are kept, where not all are.
    __device__ void keep_losses(const Lowest &lowest, int64_t left) const
    {
        for (int64_t first = start; first < end; first += THREADS) {
            const int64_t i = first + threadIdx.x;
            const unsigned long long key = i < end ? key_of(data, i) : 0;
            const bool is_equal = key == lowest.key;
            bool is_kept = key > lowest.key || is_equal && lowest.is_found;
            if (!lowest.is_found) {
                int equal;
                __syncthreads();   // the sums of the losses before are read
                const int before = sum_before<WARPS>(int(is_equal), equal);
                is_kept |= is_equal && before < left;
                left -= equal;
            }
            if (i >= end)
                continue;
            if (is_kept || key != 0 && exceeds(load(data, i)))
                copy(output, i, data, i, args.output_request);
            else
                store(output, i, 0, args.output_request);
        }
    }
};

// A selection that has one block.
template <typename T>
__device__ void select_at_once(const Selection<T> &selection, unsigned *bins)
{
    Lowest lowest = {0, 0, false};
    for (int place = 0; place < Digit<T>::count() && !lowest.is_found; ++place) {
        selection.count_digits(bins, lowest, place);
        lowest = selection.with_digit(lowest, place, bins);
    }
    selection.keep_losses(lowest, lowest.left);
}

// A step of a selection that has several blocks.
template <typename T>
__device__ void select_in_steps(const OhemArgs<T> &args, const Selection<T> &selection, unsigned *bins)
{
    int64_t *const equal = args.equal + selection.number * gridDim.y;   // losses of each part
    Lowest lowest = {0, 0, false};
    if (args.step > 0)
        lowest = args.lowest[selection.number];
    if (args.step == args.KEEP) {
        int64_t before = 0;
        for (int other = threadIdx.x; !lowest.is_found && other < blockIdx.y; other += THREADS)
            before += equal[other];
        selection.keep_losses(lowest, lowest.left - reduce_block(before, Sum()));
    } else if (!lowest.is_found && args.step == args.EQUAL) {
        const int64_t count = selection.count_equal(lowest);
        if (threadIdx.x == 0)
            equal[blockIdx.y] = count;
    } else if (!lowest.is_found) {
        selection.find_digit(bins, lowest, int(args.step));
    }
}

template <typename T>
__device__ void forward(const OhemArgs<T> &args)
{
    __shared__ unsigned bins[BINS];
    for (int64_t number = blockIdx.x; number < args.selections; number += gridDim.x) {
        const Selection<T> selection(args, number);
        if (gridDim.y == 1)
            select_at_once(selection, bins);
        else
            select_in_steps(args, selection, bins);
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
