// softmax. A row has 1 to 32 threads, a block, or parts with a block each. It is read once.
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

// The factor of (x - max). It is finite, so that 0 stays 0 whatever the temperature, and above 0, so that -infinity
// stays what it is.
template <typename A>
__device__ A inverse_temperature(double temperature)
{
    const A scale = 1 / A(temperature), largest = -lowest<A>();
    return Max()(scale < largest ? scale : largest, 1 / largest);
}

template <typename T>
__device__ void forward(const SoftmaxArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const A scale = inverse_temperature<A>(args.temperature);
    if (!softmax_columns(args, scale))
        softmax_rows(args, scale);
}

// The head gradients times the outputs. Both are held.
template <typename T>
struct ProductSource {
    typedef typename Accumulator<T>::type A;
    typedef PlainSum<A> Sums;
    struct Held {
        RowChunk<T> head, y;
    };

    const T *head, *output;
    const Rows<T> &rows;

    __device__ ProductSource(const T *head, const T *output, const Rows<T> &rows)
        : head(head), output(output), rows(rows) {}

    __device__ Sums none() const { return Sums(); }

    __device__ void read(Held &held, const RowPart &part, int64_t i) const
    {
        held.head.read(head, rows, part, i, 0);
        held.y.read(output, rows, part, i, 0);
    }

    __device__ Sums sum(int64_t start, int number, bool reads, Held &held) const
    {
        const RowPart part = rows.part_from(start, number, reads);
        Sums sums;
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += held.y.length()) {
            read(held, part, i);
            sums.sum = held.y.dot(held.head, sums.sum);
        }
        return sums;
    }
};

template <typename T>
struct SoftmaxGradient {
    typedef typename Accumulator<T>::type A;
    const RowChunk<T> &head;
    A dot, scale;

    __device__ SoftmaxGradient(const RowChunk<T> &head, A dot, A scale) : head(head), dot(dot), scale(scale) {}
    __device__ A operator()(A y, int number) const { return y * ((head.values[number] - dot) * scale); }
};

template <typename T>
__device__ void backward(const SoftmaxArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Exchange<PlainSum<A>::NUMBERS> exchange(args);
    const A scale = inverse_temperature<A>(args.temperature);
    const bool all_aligned = aligned(args.output_grad) && aligned(args.output) && aligned(args.data_grad);
    const Rows<T> rows(args.classes, args.inner, all_aligned);
    const ProductSource<T> source(args.output_grad, args.output, rows);
    for (RowLoop at(args.batch * args.inner); at.goes_on(); at.next()) {
        typename ProductSource<T>::Held held;
        const int64_t start = rows.start(at.row);
        const A dot = sum_row(source, at, start, at.exists, exchange, held).sum;
        const RowPart part = rows.part_from(start, at.part, at.exists);
        const bool is_held = part.length <= held.y.length();
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += held.y.length()) {
            if (!is_held)
                source.read(held, part, i);
            held.y.apply(SoftmaxGradient<T>(held.head, dot, scale));
            held.y.write(args.data_grad, rows, part, i, args.data_grad_request);
        }
    }
}
