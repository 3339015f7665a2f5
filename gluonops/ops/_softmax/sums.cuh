// Sums over a row of classes. The threads of a row have some each, which reduce_sums adds up; the blocks of a row leave
// theirs in scratch memory, where the last one adds them up.
//
//     NUMBERS, number(i)   the numbers of the sums, which go from warp to warp and from block to block
//     add(other)           adds the sums of another split of the row
//     reduce(lanes)        adds up those of so many neighbouring lanes; all lanes of a warp do the same
#include "../_shared_rows/shared_rows.cuh"

// If one of two is NaN, it returns the other one.
struct Largest { template <typename A> __device__ A operator()(A a, A b) const { return larger(a, b); } };

// exp((x - max) * scale - log_sum). The factor is finite, so that 0 stays 0 whatever the scale.
template <typename T>
struct Exponential {
    typedef typename Accumulator<T>::type A;
    A max, factor, log_sum;

    __device__ Exponential() {}
    __device__ explicit Exponential(A max, A scale = 1, A log_sum = 0)
        : max(max), factor(smaller(scale * ExponentialOf<T>::unit(), -lowest<A>())),
          log_sum(log_sum * ExponentialOf<T>::unit()) {}
    __device__ A operator()(A x) const { return ExponentialOf<T>::of(fma(x - max, factor, -log_sum)); }
};

// The sums of a row's threads become those of the row, or of the split that a block has. All numbers go from warp to
// warp at once.
template <typename A, typename Sums>
__device__ void reduce_sums(Sums &sums)
{
    if (blockDim.x == 1)
        return;
    if (blockDim.x < 32)
        return sums.reduce(blockDim.x);
    sums.reduce(32);   // a constant, for which there is no branch
    if (blockDim.x == 32)
        return;
    __shared__ A numbers[Sums::NUMBERS][32];
    __syncthreads();   // the sums before these may still be read
    if (threadIdx.x % 32 == 0)
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            numbers[i][threadIdx.x / 32] = sums.number(i);
    __syncthreads();   // the warps have left theirs
    const int warps = blockDim.x / 32;   // a power of two
#pragma unroll
    for (int i = 0; i < Sums::NUMBERS; ++i)
        sums.number(i) = numbers[i][threadIdx.x & (warps - 1)];
    sums.reduce(warps);
}

// A sum over a row.
template <typename A>
struct PlainSum {
    enum { NUMBERS = 1 };
    A sum = 0;

    __device__ void add(const PlainSum &other) { sum += other.sum; }
    __device__ void reduce(int lanes) { sum = reduce_warp(sum, Sum(), lanes); }
    __device__ A &number(int) { return sum; }
};

// The largest x, and the sum of exp((x - max) * scale). A NaN or a +infinity makes the sum NaN. Nothing but -infinity
// makes it 0.
template <typename T>
struct SoftmaxSums {
    enum { NUMBERS = 2 };
    typedef typename Accumulator<T>::type A;
    A scale, max, exponentials;

    __device__ explicit SoftmaxSums(A scale = 1) : scale(scale), max(lowest<A>()), exponentials(0) {}

    // Returns what turns exponentials relative to a maximum into those relative to this one.
    __device__ A factor_from(A other_max) const { return Exponential<T>(max, scale)(other_max); }
    __device__ A log_sum() const { return ExponentialOf<T>::log(exponentials); }

    // An ignored row counts as a row of zeros, whatever it holds.
    __device__ void set_zeros(int64_t classes)
    {
        max = 0;
        exponentials = A(classes);
    }

    __device__ void raise_max(A to)
    {
        const A before = max;
        max = to;
        exponentials *= factor_from(before);
    }

    // Adds a chunk, and turns its elements into exp((x - max) * scale).
    template <typename Chunk>
    __device__ void add_chunk(Chunk &x)
    {
        raise_max(x.fold(max, Largest()));
        exponentials = x.apply_and_sum(Exponential<T>(max, scale), exponentials);
    }

    __device__ void add(SoftmaxSums other)
    {
        raise_max(larger(other.max, max));
        other.raise_max(max);
        exponentials += other.exponentials;
    }

    __device__ void reduce(int lanes)
    {
        raise_max(reduce_warp(max, Largest(), lanes));
        exponentials = reduce_warp(exponentials, Sum(), lanes);
    }

    __device__ A &number(int i) { return i == 0 ? max : exponentials; }
};

// The sums of the splits of rows, in scratch memory.
template <typename A>
struct SplitSums {
    const PartialResults<A> scratch;

    __device__ SplitSums(unsigned *counts, A *sums) : scratch(counts, sums) {}

    template <typename Sums>
    __device__ void put(int64_t row, int split, Sums &sums) const
    {
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            scratch.partial[(row * gridDim.y + split) * Sums::NUMBERS + i] = sums.number(i);
    }

    // `none` are sums of nothing.
    template <typename Sums>
    __device__ Sums get(int64_t row, int split, const Sums &none) const
    {
        Sums sums = none;
#pragma unroll
        for (int i = 0; i < Sums::NUMBERS; ++i)
            sums.number(i) = scratch.partial[(row * gridDim.y + split) * Sums::NUMBERS + i];
        return sums;
    }

    // Makes the sums of this thread those of the row if this is the last block of the row, and returns whether it is. A
    // loop, as two copies of reduce_sums need more registers.
    template <typename Sums>
    __device__ bool gather(int64_t row, int split, Sums &sums, const Sums &none) const
    {
        for (bool are_of_row = gridDim.y == 1;; are_of_row = true) {
            reduce_sums<A>(sums);
            if (are_of_row)
                return true;
            if (threadIdx.x == 0)
                put(row, split, sums);
            if (!scratch.is_last_block(row, gridDim.y))
                return false;
            sums = none;
            for (int other = threadIdx.x; other < gridDim.y; other += blockDim.x)
                sums.add(get(row, other, none));
        }
    }
};
