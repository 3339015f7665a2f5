// Softmax along the rows of an (outer, length, inner) tensor; a row holds the logits of all classes.

// Turns each x of a chunk into exp((x - max) * scale) and returns their sum.
template <typename T, typename A>
__device__ A exponentials(RowChunk<T> &chunk, const ChunkedRow<T> &row, int64_t i, A max, A scale)
{
    A sum = 0;
#pragma unroll
    for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k) {
        chunk.values[k] = exponential((chunk.values[k] - max) * scale);
        sum += row.contains(i, k) ? chunk.values[k] : 0;
    }
    return sum;
}

// Combines the maxima and sums that the blocks of a row wrote; a thread takes some of them. Not inlined, because it
// would cost registers.
template <typename A>
__device__ __noinline__ void combine_max_and_sum(const double *partials, A scale, A &max, A &sum)
{
    for (int block = threadIdx.x; block < gridDim.y; block += blockDim.x) {
        const A block_max = partials[2 * block], block_sum = partials[2 * block + 1], previous_max = max;
        max = Max()(block_max, max);
        sum = sum * exponential((previous_max - max) * scale) + block_sum * exponential((block_max - max) * scale);
    }
}

// Softmax of row number `index`: exp((x - max) * scale) over its sum. A row that fits into one chunk is read once, any
// other twice. A row with a NaN or a +infinity is NaN, and so is a row of nothing but -infinity.
template <typename T, typename A>
__device__ void softmax_row(const T *data, T *output, const ChunkedRow<T> &row, A scale, int request, int64_t index,
                            const Partials<2> &partials)
{
    RowChunk<T> x;
    if (gridDim.y == 1 && row.fits()) {
        x.read(data, row, row.first);
        const A max = reduce_row(x.largest(row, row.first, lowest<A>()), Max());
        x.divide(reduce_row(exponentials(x, row, row.first, max, scale), Sum()));
        x.write(output, row, row.first, request);
        return;
    }

    A thread_max = lowest<A>(), sum = 0;   // over the elements that this thread has seen so far
    if (partials.combine_pass()) {
        combine_max_and_sum(partials.of_block(index, 0), scale, thread_max, sum);
    } else {
        for (int64_t i = row.first; i < row.end; i += row.step) {
            x.read(data, row, i);
            const A previous_max = thread_max;
            thread_max = x.largest(row, i, thread_max);
            const A rescale = exponential((previous_max - thread_max) * scale);
            sum = sum * rescale + exponentials(x, row, i, thread_max, scale);
        }
    }
    const A max = reduce_row(thread_max, Max());
    sum = reduce_row(sum * exponential((thread_max - max) * scale), Sum());

    if (partials.write_pass()) {
        if (threadIdx.x == 0) {
            partials.own(index)[0] = max;
            partials.own(index)[1] = sum;
        }
        return;
    }
    for (int64_t i = row.first; i < row.end; i += row.step) {
        x.read(data, row, i);
        exponentials(x, row, i, max, scale);
        x.divide(sum);
        x.write(output, row, i, request);
    }
}
