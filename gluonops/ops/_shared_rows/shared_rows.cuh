// Thread blocks that share a row. Each block leaves partial results in scratch memory, and the last one to come
// finishes the row. It combines them in the order of the blocks, so the result does not depend on which block comes
// last.

// Counts this thread, and returns whether it is the last one of `all`. If it is, the count is 0 again, as the next
// launch needs it, and this thread sees what the others had written before they were counted.
__device__ inline bool is_last_of(unsigned all, unsigned *count)
{
    __threadfence();
    const bool last = atomicInc(count, all - 1) == all - 1;
    __threadfence();
    return last;
}

// A count for each row, which is 0 before a launch and after it, and the partial results. Other blocks write these
// during a launch, so they are volatile.
template <typename A>
struct PartialResults {
    unsigned *counts;
    volatile A *partial;

    __device__ PartialResults(unsigned *counts, A *partial) : counts(counts), partial(partial) {}

    // Returns whether this block is the last of those that share the row. All its threads call it.
    __device__ bool is_last_block(int64_t row, int64_t blocks) const
    {
        __shared__ bool is_last;
        __syncthreads();   // the block has left its partial results
        if (threadIdx.x == 0 && threadIdx.y == 0)
            is_last = is_last_of(unsigned(blocks), counts + row);
        __syncthreads();   // the block has been counted
        return is_last;
    }

    // Returns the sum of `count` partial results, `step` places apart.
    __device__ A sum(int64_t first, int64_t count, int64_t step) const
    {
        A sum = 0;
#pragma unroll 4
        for (int64_t i = 0; i < count; ++i)
            sum += partial[first + i * step];
        return sum;
    }
};
