// Softmax of rows: exp((x - max) * scale) over its sum. What the threads of a row hold is read once.
#include "../_softmax/rows.cuh"
#include "../_softmax/sums.cuh"

// Returns whether this launch reads rows for their sums.
template <typename Args>
__device__ bool finds_sums(const Args &args) { return gridDim.y == 1 || args.step == args.SUMS; }

// A kernel that needs the sums of a row in front of its elements has two launches where rows have splits: that of step
// SUMS leaves the sums in scratch memory, in the place of the first split, and that of step ROWS finds them there.
// The sums of this thread become those of the row. Returns whether what needs them follows in this launch.
template <typename Args, typename Sums>
__device__ bool share_sums(const Args &args, const RowLoop &at, Sums &sums, const Sums &none)
{
    typedef typename Args::A A;
    const SplitSums<A> splits(args.counts, args.sums);
    if (!finds_sums(args)) {
        sums = splits.get(at.row(), 0, none);
        return true;
    }
    const bool has_sums = splits.gather(opaque(at.row()), at.split, sums, none);
    if (has_sums && gridDim.y > 1 && threadIdx.x == 0)
        splits.put(at.row(), 0, sums);
    return gridDim.y == 1;
}

// Returns whether a thread has two rows at a time: neighbours in memory, which need half the loads.
__device__ inline bool in_pairs(int64_t inner, bool aligned_tensors)
{
    return blockDim.x == 1 && gridDim.y == 1 && inner % 2 == 0 && aligned_tensors;
}

// A row with a NaN or a +infinity is NaN, and so is a row of nothing but -infinity. The chunk that is read last for the
// sums is written first.
template <int ROWS, typename Args>
__device__ void softmax_of_rows(const Args &args, typename Args::A scale)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    typedef RowChunk<T, HELD_BYTES> Chunk;
    const SoftmaxSums<T> none(scale);
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.output));
    for (RowLoop at(args.batch * args.inner / ROWS); at.goes_on(); at.next()) {
        const RowSplit split = rows.split(at.row() * ROWS, at.split, at.exists());
        Chunk x[2];
        SoftmaxSums<T> sums[2] = {none, none};
        int64_t held = -1;   // the chunk that is held, as exponentials
        for (int64_t i = 0; finds_sums(args) && i < split.length; i += Chunk::length()) {
            if (ROWS == 1)
                x[0].read(args.data, rows, split, i, -infinity<A>());
            else
                Chunk::read_pair(x[0], x[1], args.data, rows, split, i, -infinity<A>());
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                sums[r].add_chunk(x[r]);
            held = i;
        }
        const A held_max[2] = {sums[0].max, sums[1].max};
        if (ROWS == 1 && !share_sums(args, at, sums[0], none))
            continue;
        for (int64_t i = split.last_chunk(Chunk::length()); i >= 0; i -= Chunk::length()) {
            if (ROWS > 1 && i != held)
                Chunk::read_pair(x[0], x[1], args.data, rows, split, i, 0);
            else if (i != held)
                x[0].read(args.data, rows, split, i, 0);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                A factor = 1 / sums[r].exponentials;
                if (i == held)
                    factor *= sums[r].factor_from(held_max[r]);
                else
                    x[r].apply(Exponential<T>(sums[r].max, scale));
                x[r].apply([&](A exponential) { return exponential * factor; });
            }
            if (ROWS == 1)
                x[0].write(args.output, rows, split, i, args.output_request);
            else
                Chunk::write_pair(x[0], x[1], args.output, rows, split, i, args.output_request);
        }
    }
}

template <typename Args>
__device__ void softmax_rows(const Args &args, typename Args::A scale)
{
    if (in_pairs(args.inner, aligned(args.data) && aligned(args.output)))
        softmax_of_rows<2>(args, scale);
    else
        softmax_of_rows<1>(args, scale);
}
