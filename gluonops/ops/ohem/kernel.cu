// ohem. Forward finds the lowest loss that is kept, digit by digit of its key from the highest: it counts the losses by
// their next digit, and looks from the top for the one with the last loss that is kept. Where losses are equal to the
// lowest and not all of them are kept, the first ones are. A selection has gridDim.y blocks. One block does it all at
// once. Several have a launch for each digit, which counts the losses by it, and one for the output. Backward: a thread
// per element.
#include "../_order/keys.inl"

enum { OWN = 16 };   // the losses that a thread holds

// The lowest loss that is kept, as far as its digits are known, and how many are kept of those that have these digits.
// If all of them are kept, `is_certain` is true, and no other digit has to be determined.
struct Lowest {
    unsigned long long key;
    int64_t left, is_certain;
};

// A selection, and the split of it that a block has. The threads hold OWN losses each, which are all that a short split
// has.
template <typename T>
struct Selection {
    typedef typename Accumulator<T>::type A;
    typedef typename KeyOf<A>::Key Key;
    enum { DIGITS = (8 * sizeof(Key) + DIGIT_BITS - 1) / DIGIT_BITS };
    const OhemArgs<T> &args;
    const T *data;
    T *output;
    int64_t number, start, end, held_first;
    T held[OWN];

    __device__ Selection(const OhemArgs<T> &args, int64_t number)
        : args(args), data(args.data + number * args.length), output(args.output + number * args.length),
          number(number), held_first(-1)
    {
        const int64_t split_length = quotient(args.length + gridDim.y - 1, gridDim.y);
        start = minimum(blockIdx.y * split_length, args.length);
        end = minimum(start + split_length, args.length);
    }

    // Returns the lowest bit of a digit. The first digit has fewer bits than the others.
    __device__ static int shift_of(int digit_index) { return (DIGITS - 1 - digit_index) * DIGIT_BITS; }

    // Holds losses first + threadIdx.x, first + threadIdx.x + THREADS, ... Those behind the end do not count.
    __device__ void hold_losses(int64_t first)
    {
        if (first == held_first)
            return;
        held_first = first;
        const int last = int(minimum(end - first, OWN * THREADS)) - 1;
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            const int i = k * THREADS + threadIdx.x;
            const T loss = data[first + (i < last ? i : last)];
            held[k] = i <= last ? loss : T(0);
        }
    }

    // Counts losses by a digit, those whose higher digits are the lowest one's.
    __device__ void count_digits(unsigned *bins, const Lowest &lowest, int digit_index)
    {
        const Key higher = Key(lowest.key);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
            bins[bin] = 0;
        __syncthreads();   // the bins are empty
        for (int64_t first = start; first < end; first += OWN * THREADS) {
            hold_losses(first);
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                const Key key = key_of(load(held, k)), digit = (key ^ higher) >> shift_of(digit_index);
                if (key != 0 && digit < BINS)
                    atomicAdd(&bins[digit], 1u);
            }
        }
        __syncthreads();   // the losses are counted
    }

    // Returns the lowest loss with one digit more, from the counts of the losses by it. The first thread has the
    // highest bins.
    template <typename N>
    __device__ Lowest with_digit(const Lowest &lowest, int digit_index, const N *bins) const
    {
        __shared__ Lowest next_lowest;
        enum { OWN_BINS = BINS / THREADS, TOGETHER = Pack<N>::SIZE };
        const int top = BINS - 1 - threadIdx.x * OWN_BINS;
        N own = 0, all_counts;
#pragma unroll
        for (int k = 1; k <= OWN_BINS / TOGETHER; ++k) {
            const Pack<N> pack = load_pack(bins, top + 1 - k * TOGETHER);
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                own += pack.items[j];
        }
        int64_t before = sum_before<WARPS>(own, all_counts);
        const int64_t all = all_counts;
        const int64_t kept_of_all = args.keep.has_value ? args.keep.value : int64_t(ceil(args.ratio * double(all)));
        const int64_t kept = digit_index == 0 ? kept_of_all : lowest.left;
        if (threadIdx.x == 0 && (kept == 0 || kept >= all)) {
            next_lowest.key = kept == 0 ? ~0ull : 1;
            next_lowest.is_certain = true;
        }
        if (before < kept && kept <= before + own && kept < all) {
            int bin = top;
            for (; before + bins[bin] < kept; --bin)
                before += bins[bin];
            next_lowest.key = lowest.key | static_cast<unsigned long long>(bin) << shift_of(digit_index);
            next_lowest.left = kept - before;
            next_lowest.is_certain = next_lowest.left == int64_t(bins[bin]);
        }
        __syncthreads();   // the digit is found
        return next_lowest;
    }

    // Returns the counts of the losses of all blocks by a digit. Each step has counts to add to, those of the step
    // before to read, and those of the next one to clear.
    __device__ unsigned long long *bins_of(int digit_index) const
    {
        return args.bins + (number * BINS_IN_TURN + digit_index % BINS_IN_TURN) * BINS;
    }

    __device__ void clear_bins(int digit_index) const
    {
        for (int bin = blockIdx.y * THREADS + threadIdx.x; bin < BINS; bin += gridDim.y * THREADS)
            bins_of(digit_index)[bin] = 0;
    }

    // Returns the lowest loss, as far as the steps before have counted. Every block finds it; one leaves it for the
    // next step.
    __device__ Lowest find_lowest(int digit_index) const
    {
        Lowest *const steps = args.lowest + 2 * number;
        Lowest lowest = {0, 0, false};
        if (digit_index > 0)
            lowest = steps[(digit_index - 1) % 2];
        if (digit_index > 0 && !lowest.is_certain)
            lowest = with_digit(lowest, digit_index - 1, bins_of(digit_index - 1));
        if (blockIdx.y == 0 && threadIdx.x == 0)
            steps[digit_index % 2] = lowest;
        return lowest;
    }

    // Adds the counts of this block's split. By the last digit, each split leaves its own, too: one of them says how
    // many losses are equal to the lowest one.
    __device__ void add_digits(unsigned *own_bins, const Lowest &lowest, int digit_index)
    {
        count_digits(own_bins, lowest, digit_index);
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
            if (own_bins[bin] > 0)
                atomicAdd(bins_of(digit_index) + bin, static_cast<unsigned long long>(own_bins[bin]));
            if (digit_index == DIGITS - 1)
                split_bins(blockIdx.y)[bin] = own_bins[bin];
        }
    }

    __device__ unsigned *split_bins(int64_t i) const { return args.split_bins + (number * gridDim.y + i) * BINS; }

    // Returns how many of the losses that are equal to the lowest one a block keeps: those that the splits before it
    // leave.
    __device__ Lowest lowest_of_split(Lowest lowest) const
    {
        if (lowest.is_certain)
            return lowest;
        const int digit = int(lowest.key % BINS);
        int64_t before = 0;
        for (int other = threadIdx.x; other < blockIdx.y; other += THREADS)
            before += split_bins(other)[digit];
        lowest.left -= reduce_block(before, Sum());
        lowest.is_certain = lowest.left >= split_bins(blockIdx.y)[digit];
        return lowest;
    }

    // Returns the end of those losses of the split that are equal to the lowest one and kept.
    __device__ int64_t end_of_equal(const Lowest &lowest) const
    {
        __shared__ int64_t equal_end;
        int64_t left = lowest.left;
        if (threadIdx.x == 0)
            equal_end = start;
        for (int64_t first = start; first < end && left > 0; first += THREADS) {
            const int64_t i = first + threadIdx.x;
            const bool is_equal = i < end && key_of(load(data, i)) == Key(lowest.key);
            int equal;
            __syncthreads();   // the sums of the losses before are read
            if (sum_before<WARPS>(int(is_equal), equal) == left - 1 && is_equal)
                equal_end = i + 1;
            left -= equal;
        }
        __syncthreads();   // the end is found
        return equal_end;
    }

    // Writes the split.
    __device__ void keep_losses(const Lowest &lowest)
    {
        const Key above = least_key_above<A>(args.threshold), least = Key(lowest.key);
        const Key exceeding = above <= least ? above : least + 1;   // all losses from this key on are kept
        const int64_t equal_end = lowest.is_certain ? end : end_of_equal(lowest);
        for (int64_t first = start; first < end; first += OWN * THREADS) {
            hold_losses(first);
#pragma unroll
            for (int k = 0; k < OWN; ++k) {
                const int64_t i = first + k * THREADS + threadIdx.x;
                const Key key = key_of(load(held, k));
                const T kept = key >= exceeding || key == least && i < equal_end ? held[k] : T(0);
                if (i < end)
                    copy(output, i, &kept, 0, args.output_request);
            }
        }
    }
};

template <typename T>
__device__ void forward(const OhemArgs<T> &args)
{
    __shared__ Pack<unsigned> packed_bins[BINS / Pack<unsigned>::SIZE];
    unsigned *const bins = packed_bins[0].items;
    for (int64_t number = blockIdx.x; number < args.selections; number += gridDim.x) {
        Selection<T> selection(args, number);
        if (gridDim.y == 1) {
            Lowest lowest = {0, 0, false};
            for (int digit_index = 0; digit_index < Selection<T>::DIGITS && !lowest.is_certain; ++digit_index) {
                selection.count_digits(bins, lowest, digit_index);
                lowest = selection.with_digit(lowest, digit_index, bins);
            }
            selection.keep_losses(lowest);
            continue;
        }
        selection.hold_losses(selection.start);   // they come while the lowest loss is found
        const int digit_index = args.step == args.KEEP ? int(Selection<T>::DIGITS) : int(args.step);
        const Lowest lowest = selection.find_lowest(digit_index);
        selection.clear_bins(digit_index + 1);
        if (args.step == args.KEEP)
            selection.keep_losses(selection.lowest_of_split(lowest));
        else if (!lowest.is_certain)
            selection.add_digits(bins, lowest, digit_index);
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
