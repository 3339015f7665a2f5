// Softmax of rows: exp((x - max) * scale) over its sum. What the threads of a row hold is read once.
#include "../_softmax/rows.cuh"
#include "../_softmax/sums.cuh"

// A kernel that needs the sums of a row in front of its elements has two launches where rows have parts: that of step
// SUMS leaves the sums in scratch memory, in the place of the first part, and that of step ROWS finds them there.
// Returns whether the sums are those of the row now.
template <typename Args, typename Sums>
__device__ bool share_sums(const Args &args, const RowLoop &at, Sums &sums, const Sums &none)
{
    typedef typename Args::A A;
    const PartSums<A> parts(args.counts, args.sums);
    if (args.step == args.ROWS) {
        if (gridDim.y > 1)
            sums = parts.get(at.row, 0, none);
        return true;
    }
    if (parts.gather(at.row, at.part, sums, none) && threadIdx.x == 0)
        parts.put(at.row, 0, sums);
    return false;
}

// Whether this launch reads rows for their sums.
template <typename Args>
__device__ bool finds_sums(const Args &args) { return gridDim.y == 1 || args.step == args.SUMS; }

// A row with a NaN or a +infinity is NaN, and so is a row of nothing but -infinity. The chunk that is read last for the
// sums is written first.
template <typename Args>
__device__ void softmax_rows(const Args &args, typename Args::A scale)
{
    typedef typename Args::Data T;
    typedef typename Args::A A;
    const SoftmaxSums<T> none(scale);
    const Rows<T> rows(args.classes, args.inner, aligned(args.data) && aligned(args.output));
    for (RowLoop at(args.batch * args.inner); at.goes_on(); at.next()) {
        const RowPart part = rows.part(at.row, at.part, at.exists);
        RowChunk<T> x;
        SoftmaxSums<T> sums = none;
        int64_t held = -1;   // the chunk that is held, as exponentials
        for (int64_t i = 0; finds_sums(args) && i < part.length; i += x.length()) {
            x.read(args.data, rows, part, i, -infinity<A>());
            sums.add_chunk(x);
            held = i;
        }
        const A held_max = sums.max;
        reduce_sums<A>(sums);
        if (!share_sums(args, at, sums, none))
            continue;
        const Exponential<T> exponentials(sums.max, scale);
        for (int64_t i = part.last_chunk(x.length()); i >= 0; i -= x.length()) {
            A factor = 1 / sums.exponentials;
            if (i == held) {
                factor *= sums.factor_from(held_max);
            } else {
                x.read(args.data, rows, part, i, 0);
                x.apply(exponentials);
            }
            x.apply([&](A exponential) { return exponential * factor; });
            x.write(args.output, rows, part, i, args.output_request);
        }
    }
}
