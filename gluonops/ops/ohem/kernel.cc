// ohem on the CPU. A selection is divided into blocks, which threads share. The highest bits of all losses are counted;
// the losses that have those of the lowest one that is kept are gathered, and counted by their next bits until it is
// found. Bytes moved: forward twice the losses' and the result's, backward three times.
#include "generated/ohem.h"
#include "../../native/kernel.h"

#include <math.h>

#include <algorithm>
#include <vector>

namespace gluonops {

const int64_t OHEM_BLOCK = 16384;   // losses
const int OHEM_TILE = 256;        // losses whose keys are computed at once, in vectors
const int OHEM_DIGIT_BITS = 11;   // a sign, an exponent of float and two bits more: a quarter of an octave
const int OHEM_DIGITS = 1 << OHEM_DIGIT_BITS;

namespace GLUONOPS_TARGET {
namespace {

// Unsigned integers that compare like the numbers that they are made of.
template <typename A> struct KeyOf;
template <> struct KeyOf<float> { typedef uint32_t Key; };
template <> struct KeyOf<double> { typedef uint64_t Key; };

// The key of a loss: 0 if it does not count, and that of infinity for NaN.
template <typename A>
GLUONOPS_INLINE typename KeyOf<A>::Key key_of(A loss)
{
    typedef typename KeyOf<A>::Key Key;
    const Key sign = Key(1) << (8 * sizeof(Key) - 1);
    const A ordered = loss == loss ? loss : A(INFINITY);
    Key bits;
    memcpy(&bits, &ordered, sizeof(bits));
    const Key key = bits & sign ? ~bits : bits | sign;
    return loss == 0 ? Key(0) : key;
}

// What a block of losses says of their selection.
struct BlockCounts {
    int32_t of_digit[OHEM_DIGITS];   // of the keys that count, by their highest bits
    int64_t above;                   // the threshold
};

// The losses of one selection, and those of them that are kept.
template <typename T>
class Selection {
 public:
    typedef typename Simd<T>::Scalar A;
    typedef typename KeyOf<A>::Key Key;
    enum { SHIFT = 8 * sizeof(Key) - OHEM_DIGIT_BITS };   // of the highest digit

    Selection(const OhemArgs<T> &args, int64_t index)
        : args(args), data(args.data + index * args.length), output(args.output + index * args.length),
          blocks((args.length + OHEM_BLOCK - 1) / OHEM_BLOCK) {}

    void write() const
    {
        std::vector<BlockCounts> counts(static_cast<size_t>(blocks));
        BlockCounts *of_blocks = counts.data();
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            self.count(begin, end, of_blocks + block);
        });
        int64_t of_digit[OHEM_DIGITS] = {}, count = 0, above = 0;
        for (const BlockCounts &of_block : counts) {
            above += of_block.above;
            for (int digit = 0; digit < OHEM_DIGITS; ++digit)
                of_digit[digit] += of_block.of_digit[digit];
        }
        for (const int64_t of_one : of_digit)
            count += of_one;
        const int64_t number = kept_number(count, above);
        if (number == 0)
            std::fill(output, output + args.length, T());
        else if (number == count)
            write_from(Key(1));
        else
            write_largest(number, of_digit, of_blocks);
    }

 private:
    OhemArgs<T> args;
    const T *data;
    T *output;
    int64_t blocks;

    // How many of `count` losses are kept, `above` of which are above the threshold.
    int64_t kept_number(int64_t count, int64_t above) const
    {
        const int64_t wanted = args.keep.given ? args.keep.value : int64_t(ceil(args.ratio * double(count)));
        return std::min(count, std::max(wanted, above));
    }

    GLUONOPS_INLINE Key key(int64_t i) const { return key_of(load_scalar(data + i)); }

    // Calls body(selection, block, begin, end) for every block, on several threads if it is not in a thread's loop.
    template <typename Body>
    void for_each_block(const Body &body) const
    {
        const Selection self = *this;
        parallel_for(blocks, OHEM_BLOCK * int64_t(2 * sizeof(T)), [=](int64_t first, int64_t last) {
            for (int64_t block = first; block < last; ++block)
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

    void count(int64_t begin, int64_t end, BlockCounts *counts) const
    {
        int32_t not_counted = 0, *of_digit = counts->of_digit;
        each_tile(begin, end, [&](const Key *keys, int64_t losses) GLUONOPS_LAMBDA {
            for (int64_t i = 0; i < losses; ++i)
                not_counted += keys[i] == 0;
            for (int64_t i = 0; i < losses; ++i)
                ++of_digit[keys[i] >> SHIFT];
        });
        of_digit[0] -= not_counted;
        for (int64_t i = begin; args.threshold.given && i < end; ++i) {
            const double loss = double(load_scalar(data + i));
            counts->above += key(i) != 0 && !(loss <= args.threshold.value);   // NaN is above
        }
    }

    // The digit of the `number`-th largest key, by the numbers of keys that have each digit. `number` becomes its number
    // among those that have it.
    static int digit_of(const int64_t *of_digit, int64_t &number)
    {
        int digit = OHEM_DIGITS - 1;
        for (; of_digit[digit] < number; --digit)
            number -= of_digit[digit];
        return digit;
    }

    void write_largest(int64_t number, const int64_t *of_digit, const BlockCounts *of_blocks) const
    {
        const int digit = digit_of(of_digit, number);
        std::vector<Key> keys = gather(digit, of_digit[digit], of_blocks);
        int64_t left = int64_t(keys.size());
        for (int shift = SHIFT; shift > 0;) {
            shift = std::max(shift - OHEM_DIGIT_BITS, 0);   // the last digit has bits of the one before
            left = narrow_down(keys.data(), left, shift, number);
        }
        if (left == number)
            write_from(keys[0]);
        else
            write_some(keys[0], number);
    }

    // The keys that count and have a digit. Their order does not matter.
    std::vector<Key> gather(int digit, int64_t size, const BlockCounts *of_blocks) const
    {
        std::vector<Key> keys(static_cast<size_t>(size));
        std::vector<int64_t> starts(static_cast<size_t>(blocks));
        int64_t start = 0;
        for (int64_t block = 0; block < blocks; ++block) {
            starts[size_t(block)] = start;
            start += of_blocks[block].of_digit[digit];
        }
        Key *to = keys.data();
        const int64_t *first = starts.data();
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            Key *next = to + first[block];
            self.each_tile(begin, end, [&](Key *keys, int64_t losses) GLUONOPS_LAMBDA {
                int64_t found = 0;
                for (int64_t i = 0; i < losses; ++i) {
                    const Key one = keys[i];
                    keys[found] = one;
                    found += one != 0 && int(one >> SHIFT) == digit;
                }
                memcpy(next, keys, size_t(found) * sizeof(Key));
                next += found;
            });
        });
        return keys;
    }

    // Leaves the keys that have the digit of the `number`-th largest one at a shift. Returns how many.
    static int64_t narrow_down(Key *keys, int64_t size, int shift, int64_t &number)
    {
        int64_t of_digit[OHEM_DIGITS] = {};
        for (int64_t i = 0; i < size; ++i)
            ++of_digit[(keys[i] >> shift) & (OHEM_DIGITS - 1)];
        const Key digit = Key(digit_of(of_digit, number));
        int64_t left = 0;
        for (int64_t i = 0; i < size; ++i) {
            const Key found = keys[i];
            keys[left] = found;
            left += ((found >> shift) & (OHEM_DIGITS - 1)) == digit;
        }
        return left;
    }

    // Keeps the losses whose keys are at least `lowest`.
    void write_from(Key lowest) const
    {
        for_each_block([=](const Selection &self, int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                self.output[i] = self.key(i) >= lowest ? self.data[i] : T();
        });
    }

    // Keeps the losses whose keys are above `lowest`, and the first `number` of those that are equal to it.
    void write_some(Key lowest, int64_t number) const
    {
        std::vector<int64_t> equal(static_cast<size_t>(blocks));
        int64_t *of_blocks = equal.data();
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            int64_t found = 0;
            for (int64_t i = begin; i < end; ++i)
                found += self.key(i) == lowest;
            of_blocks[block] = found;
        });
        for (int64_t block = 0; block < blocks; ++block) {   // from how many there are to how many are left to keep
            const int64_t found = of_blocks[block];
            of_blocks[block] = number;
            number -= std::min(number, found);
        }
        for_each_block([=](const Selection &self, int64_t block, int64_t begin, int64_t end) {
            int64_t left = of_blocks[block];
            for (int64_t i = begin; i < end; ++i) {
                const Key found = self.key(i);
                const bool is_kept = found > lowest || (found == lowest && left > 0);
                left -= found == lowest;
                self.output[i] = is_kept ? self.data[i] : T();
            }
        });
    }
};

template <typename T>
void forward(const OhemArgs<T> &given)
{
    const OhemArgs<T> args = given;
    parallel_for(args.selections, args.length * int64_t(3 * sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            Selection<T>(args, i).write();
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
    parallel_for((size + OHEM_BLOCK - 1) / OHEM_BLOCK, OHEM_BLOCK * int64_t(3 * sizeof(T)),
                 [=](int64_t first, int64_t last) {
        const int64_t begin = first * OHEM_BLOCK, end = std::min(size, last * OHEM_BLOCK);
        write_row(data_grad + begin, end - begin, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto kept = load(output + begin + i, mask, A(0)), zero = broadcast(A(0));
            return kept != 0 ? load(output_grad + begin + i, mask, A(0)) : zero;
        });
        store_fence();
    });
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
