// Sums of many numbers. The rounding error of a plain loop grows with the number of its terms: 100,000 floats of few
// bits, whose sums are all rounded the same way, lose three digits. So terms are added one after the other in blocks of
// a fixed size, and the blocks' sums in pairs. A sum of a single block is what a plain loop gives. Infinities stay what
// they are, which they would not with a compensated sum.
#pragma once

#include <stdint.h>

#include "../isa.h"

namespace gluonops::GLUONOPS_ISA {

const int64_t SUM_BLOCK = 256;   // The terms of a lane that are added one after the other.

// The sums of blocks, COUNT of each, added in pairs, in pairs of pairs, and so on.
template <typename V, int COUNT>
class PairwiseSums {
  public:
    // Changes what it is given.
    GLUONOPS_INLINE void add(V (&block)[COUNT])
    {
        int level = 0;
        for (uint64_t full = blocks++; full & 1; full >>= 1, ++level)
            for (int n = 0; n < COUNT; ++n)
                block[n] = sums[level][n] + block[n];
        for (int n = 0; n < COUNT; ++n)
            sums[level][n] = block[n];
    }

    GLUONOPS_INLINE void add_up(V (&to)[COUNT]) const
    {
        for (V &sum : to)
            sum = V{};
        int level = 0;
        for (uint64_t left = blocks; left; left >>= 1, ++level)
            for (int n = 0; n < COUNT && left & 1; ++n)
                to[n] = sums[level][n] + to[n];
    }

  private:
    enum { LEVELS = 48 };   // no tensor has more blocks than 2^48
    uint64_t blocks = 0;
    V sums[LEVELS][COUNT];   // of 2^level blocks, where that bit of `blocks` is set
};

// The sums of `count` terms. add(begin, end, sums) adds those from begin to end, in blocks of BLOCK.
template <int64_t BLOCK = SUM_BLOCK, typename V, int COUNT, typename Add>
GLUONOPS_INLINE void sum_in_blocks(int64_t count, V (&sums)[COUNT], const Add &add)
{
    PairwiseSums<V, COUNT> totals;
    for (int64_t begin = 0, end = 0; begin == 0 || end < count; begin = end) {
        end = begin + BLOCK < count ? begin + BLOCK : count;
        V block[COUNT] = {};   // in registers, where `sums` may be in memory
        add(begin, end, block);
        if (count <= BLOCK) {   // nothing waits for memory
            for (int n = 0; n < COUNT; ++n)
                sums[n] = block[n];
            return;
        }
        totals.add(block);
    }
    totals.add_up(sums);
}

// A sum whose terms come one at a time.
template <typename V>
class GrowingSum {
  public:
    GLUONOPS_INLINE void add(V term)
    {
        block[0] += term;
        if (++terms % SUM_BLOCK)
            return;
        totals.add(block);
        block[0] = V{};
    }

    GLUONOPS_INLINE V result() const
    {
        if (terms < SUM_BLOCK)
            return block[0];
        V sum[1];
        totals.add_up(sum);
        return sum[0] + block[0];
    }

  private:
    V block[1] = {};
    int64_t terms = 0;
    PairwiseSums<V, 1> totals;
};

}  // namespace gluonops::GLUONOPS_ISA
