// ohem on the CPU. A selection is divided into blocks, which threads share. The highest bits of all losses are counted;
// the losses that have those of the lowest one that is kept are gathered, and halved bit by bit until it is found.
// Bytes moved: forward twice the losses' and the result's, backward three times.
#include "generated/ohem.h"
#include "../../native/kernel.h"

#include <math.h>

#include <algorithm>
#include <vector>

namespace gluonops::GLUONOPS_ISA {
namespace {

const int64_t OHEM_BLOCK = 16384;   // losses
const int OHEM_TILE = 256;          // losses whose keys are computed at once, in vectors

#include "../_order/keys.inl"

// The number of keys that count in a block of losses, by their highest bits.
struct BlockCounts {
    int32_t of_digit[BINS];
};

// The losses of one selection, and those of them that are kept.
template <typename T>
class Selection {
 public:
    typedef typename Simd<T>::Scalar A;
    typedef typename KeyOf<A>::Key Key;
    enum { SHIFT = 8 * sizeof(Key) - DIGIT_BITS };   // The highest digit begins at this bit.

    Selection(const OhemArgs<T> &args, int64_t index)
        : args(args), data(args.data + index * args.length), output(args.output + index * args.length),
          blocks((args.length + OHEM_BLOCK - 1) / OHEM_BLOCK) {}

    void write() const
    {
        Lowest lowest = find_lowest();
        const Key above = least_key_above<A>(args.threshold);
        if (above <= lowest.key)
            lowest = {above, args.length};
        for_each_block([=](const Selection &self, int64_t, int64_t begin, int64_t end) {
            const int64_t middle = std::max(begin, std::min(end, lowest.end));
            self.write_from(lowest.key, begin, middle);
            self.write_from(lowest.key + 1, middle, end);
        });
    }

 private:
    // The key of the lowest loss that is kept. Of those that are equal to it, the ones in front of `end` are kept.
    struct Lowest {
        Key key;
        int64_t end;
    };

    OhemArgs<T> args;
    const T *data;
    T *output;
    int64_t blocks;

    GLUONOPS_INLINE Key key(int64_t i) const { return key_of(load_scalar(data + i)); }

    // Calls body(selection, block, begin, end) for every block, on several threads if it is not in a thread's loop.
    template <typename Body>
    void for_each_block(const Body &body) const
    {
        const Selection self = *this;
        parallel_for_each(blocks, OHEM_BLOCK * int64_t(2 * sizeof(T)), [=](int64_t block) {
            body(self, block, block * OHEM_BLOCK, std::min(self.args.length, (block + 1) * OHEM_BLOCK));
        });
    }

    // Calls visit(keys, losses) for the keys of a tile of losses after the other.
    template <typename Visit>
    GLUONOPS_INLINE void each_tile(int64_t begin, int64_t end, const Visit &visit) const
    {
        Key keys[OHEM_TILE];
        for (int64_t first = begin; first < end; first += OHEM_TILE) {
            const int64_t losses = std::min(end - first, int64_t(OHEM_TILE));
            for (int64_t i = 0; i < losses; ++i)
                keys[i] = key(first + i);
            visit(keys, losses);
        }
    }

    // Finds the lowest loss that is kept, without regard to the threshold.
    Lowest find_lowest() const
    {
        std::vector<BlockCounts> counts(static_cast<size_t>(blocks));
        BlockCounts *of_blocks = counts.data();
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            self.count(begin, end, of_blocks[block].of_digit);
        });
        int64_t of_digit[BINS] = {}, all = 0;
        for (const BlockCounts &of_block : counts)
            for (int digit = 0; digit < BINS; ++digit)
                of_digit[digit] += of_block.of_digit[digit];
        for (const int64_t of_one : of_digit)
            all += of_one;
        int64_t number = std::min(all, args.keep.has_value ? args.keep.value : int64_t(ceil(args.ratio * double(all))));
        if (number == 0)
            return {~Key(0), args.length};
        int digit = BINS - 1;
        for (; of_digit[digit] < number; --digit)
            number -= of_digit[digit];
        return lowest_of(gather(digit, of_digit[digit], of_blocks), number);
    }

    void count(int64_t begin, int64_t end, int32_t *of_digit) const
    {
        int32_t not_counted = 0;
        each_tile(begin, end, [&](const Key *keys, int64_t losses) GLUONOPS_LAMBDA {
            for (int64_t i = 0; i < losses; ++i)
                not_counted += keys[i] == 0;
            for (int64_t i = 0; i < losses; ++i)
                ++of_digit[keys[i] >> SHIFT];
        });
        of_digit[0] -= not_counted;
    }

    // Returns the keys that count and have a digit. Their order does not matter.
    std::vector<Key> gather(int digit, int64_t size, const BlockCounts *of_blocks) const
    {
        std::vector<Key> keys(static_cast<size_t>(size));
        std::vector<int64_t> starts(static_cast<size_t>(blocks));
        int64_t start = 0;
        for (int64_t block = 0; block < blocks; ++block) {
            starts[size_t(block)] = start;
            start += of_blocks[block].of_digit[digit];
        }
        const Key least = std::max(Key(1), Key(digit) << SHIFT), most = (Key(digit + 1) << SHIFT) - 1;
        Key *to = keys.data();
        const int64_t *first = starts.data();
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            Key *next = to + first[block];
            self.each_tile(begin, end, [&](Key *keys, int64_t losses) GLUONOPS_LAMBDA {
                const int64_t wanted = leave(keys, losses, [=](Key key) GLUONOPS_LAMBDA {
                    return key - least <= most - least;   // from `least` to `most`, in one comparison
                });
                memcpy(next, keys, size_t(wanted) * sizeof(Key));
                next += wanted;
            });
        });
        return keys;
    }

    // Leaves the keys that are wanted in the array, and returns how many there are.
    template <typename IsWanted>
    GLUONOPS_INLINE static int64_t leave(Key *keys, int64_t size, const IsWanted &is_wanted)
    {
        int64_t left = 0;
        for (int64_t i = 0; i < size; ++i) {
            const Key key = keys[i];
            keys[left] = key;
            left += is_wanted(key);
        }
        return left;
    }

    // Returns the `number`-th largest of the keys that have the digit of the lowest one.
    Lowest lowest_of(std::vector<Key> keys, int64_t number) const
    {
        int64_t size = int64_t(keys.size());
        for (Key bit = Key(1) << (SHIFT - 1); bit; bit >>= 1) {
            int64_t ones = 0;
            for (int64_t i = 0; i < size; ++i)
                ones += (keys[size_t(i)] & bit) != 0;
            const Key wanted = number <= ones ? bit : 0;
            number -= wanted ? 0 : ones;
            if (ones > 0 && ones < size)
                size = leave(keys.data(), size, [=](Key key) GLUONOPS_LAMBDA { return (key & bit) == wanted; });
        }
        return {keys[0], number == size ? args.length : end_of(keys[0], number)};
    }

    // Returns where the first `number` losses with a key end.
    int64_t end_of(Key equal, int64_t number) const
    {
        int64_t end = 0;
        for (; number > 0; ++end)
            number -= key(end) == equal;
        return end;
    }

    // Writes the losses from `begin` to `end` whose keys are at least `least`, and 0 for the others.
    void write_from(Key least, int64_t begin, int64_t end) const
    {
        for (int64_t i = begin; i < end; ++i)
            output[i] = key(i) >= least ? data[i] : T();
    }
};

template <typename T>
void forward(const OhemArgs<T> &args)
{
    parallel_for_each(args.selections, args.length * int64_t(3 * sizeof(T)), [=](int64_t selection) {
        Selection<T>(args, selection).write();
    });
}

template <typename T>
void backward(const OhemArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const T *output_grad = args.output_grad, *output = args.output;
    T *data_grad = args.data_grad;
    const int64_t size = args.selections * args.length;
    const bool streaming = streams<T>(size);
    parallel_units(size, 1, 3 * sizeof(T), [=](int64_t begin, int64_t items) {
        write_row(data_grad + begin, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto kept = load(output + begin + i, mask), zero = broadcast(A(0));
            return kept != 0 ? load(output_grad + begin + i, mask) : zero;
        });
    });
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
