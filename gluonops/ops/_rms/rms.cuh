// Rows of a (outer, length, inner) tensor, divided by the root of the sum of their squares times `share`, plus eps, and
// scaled. A row has up to 32 threads or a block.

__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }

// Whether rows consist of packs in all three tensors.
template <typename T>
__device__ bool packed_rows(int64_t length, int64_t inner, const T *a, const T *b, const T *c)
{
    return inner == 1 && length % Pack<T>::SIZE == 0 && aligned(a) && aligned(b) && aligned(c);
}

// This thread's elements of a row: packs of 16 bytes, or single elements.
//     for (int64_t i = row.first; i < row.end; i += row.step)
// Where the row is not packed, the first of `values` counts, and the others are 0.
template <typename T>
struct PackedRow {
    typedef typename Accumulator<T>::type A;
    enum { SIZE = Pack<T>::SIZE };
    bool packed;
    int64_t start, end, inner, first, step;

    __device__ PackedRow(int64_t index, int64_t length, int64_t inner, bool packed)
        : packed(packed), start(index / inner * length * inner + index % inner), end(start + length * inner),
          inner(inner), first(start + threadIdx.x * (packed ? int64_t(SIZE) : inner)),
          step(blockDim.x * (packed ? int64_t(SIZE) : inner)) {}

    __device__ void read(const T *from, int64_t i, A *values) const { read_at(from, i, values); }
    // What is at the same place along the axis.
    __device__ void read_scale(const T *scale, int64_t i, A *values) const { read_at(scale, (i - start) / inner, values); }

    __device__ void write(T *to, int64_t i, const A *values, int request) const
    {
        if (packed)
            store_pack(to, i, values, request);
        else
            store(to, i, values[0], request);
    }

 private:
    __device__ void read_at(const T *from, int64_t place, A *values) const
    {
        Pack<T> pack;
        if (packed)
            pack = load_pack(from, place);
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            values[j] = packed ? load(pack.items, j) : 0;
        if (!packed)
            values[0] = load(from, place);
    }
};

template <typename T, typename A>
__device__ void scale_rows(const T *__restrict__ data, const T *__restrict__ scale, T *__restrict__ output,
                           A *__restrict__ inverse, int output_request, int inverse_request, int64_t outer,
                           int64_t length, int64_t inner, double share, double eps)
{
    enum { SIZE = Pack<T>::SIZE };
    const bool packed = packed_rows(length, inner, data, scale, output);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const PackedRow<T> row(r, length, inner, packed);
        A x[SIZE], factor[SIZE], squares = 0;
        for (int64_t i = row.first; i < row.end; i += row.step) {
            row.read(data, i, x);
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                squares += x[j] * x[j];
        }
        squares = reduce_row(squares, Sum());
        const A by_root = 1 / square_root(squares * A(share) + A(eps));
        if (threadIdx.x == 0)
            store(inverse, r, by_root, inverse_request);
        for (int64_t i = row.first; i < row.end; i += row.step) {
            row.read(data, i, x);
            row.read_scale(scale, i, factor);
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                x[j] *= by_root * factor[j];
            row.write(output, i, x, output_request);
        }
    }
}

template <typename T, typename A>
__device__ void data_gradient(const T *__restrict__ output_grad, const T *__restrict__ data,
                              const T *__restrict__ scale, const A *__restrict__ inverse, T *__restrict__ data_grad,
                              int request, int64_t r, const PackedRow<T> &row, double share, double eps, bool single)
{
    enum { SIZE = Pack<T>::SIZE };
    const A by_root = inverse[r];
    A x[SIZE], head[SIZE], factor[SIZE], dot = 0;   // of the data and the gradient of the row before it is scaled
    for (int64_t i = row.first; i < row.end; i += row.step) {
        row.read(data, i, x);
        row.read(output_grad, i, head);
        row.read_scale(scale, i, factor);
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            dot += head[j] * factor[j] * x[j];
    }
    dot = single ? 0 : reduce_row(dot, Sum()) * by_root * by_root * A(share);
    const A own = single ? A(eps) * by_root * by_root : 1;   // 1 - u^2 * share, without a difference that cancels
    for (int64_t i = row.first; i < row.end; i += row.step) {
        row.read(data, i, x);
        row.read(output_grad, i, head);
        row.read_scale(scale, i, factor);
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            x[j] = (head[j] * factor[j] * own - x[j] * dot) * by_root;
        row.write(data_grad, i, x, request);
    }
}

// The gradient of the scale, summed over a slice of the samples: this thread's channels. The elements of a sample are
// neighbours.
template <typename T, typename A>
__device__ void scale_partials(const T *__restrict__ output_grad, const T *__restrict__ data,
                               const A *__restrict__ inverse, double *__restrict__ partial, int64_t outer,
                               int64_t length)
{
    const int64_t threads = int64_t(blockDim.x) * blockDim.y;
    const int64_t thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int64_t c = blockIdx.x * threads + thread; c < length; c += gridDim.x * threads) {
        A sum = 0;
        for (int64_t o = blockIdx.y; o < outer; o += gridDim.y)
            sum += load(output_grad, o * length + c) * load(data, o * length + c) * inverse[o];
        partial[blockIdx.y * length + c] = sum;
    }
}

// The same where the elements of a channel are neighbours: the threads of a row take a channel.
template <typename T, typename A>
__device__ void channel_partials(const T *__restrict__ output_grad, const T *__restrict__ data,
                                 const A *__restrict__ inverse, double *__restrict__ partial, int64_t outer,
                                 int64_t length, int64_t inner)
{
    for (int64_t c = first_row(); c < length; c += row_step()) {
        A sum = 0;
        for (int64_t o = blockIdx.y; o < outer; o += gridDim.y) {
            const int64_t start = (o * length + c) * inner;
            for (int64_t k = threadIdx.x; k < inner; k += blockDim.x)
                sum += load(output_grad, start + k) * load(data, start + k) * inverse[o * inner + k];
        }
        sum = reduce_row(sum, Sum());
        if (threadIdx.x == 0)
            partial[blockIdx.y * length + c] = sum;
    }
}

// The write pass computes the partials of the scale's gradient; gridDim.y is the number of slices. The combine pass adds
// them up, and its blocks divide the rows of the data.
template <typename T, typename A>
__device__ void scale_rows_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                    const T *__restrict__ scale, const A *__restrict__ inverse,
                                    T *__restrict__ data_grad, T *__restrict__ scale_grad,
                                    double *__restrict__ partial, int data_grad_request, int scale_grad_request,
                                    int64_t step, int64_t outer, int64_t length, int64_t inner, double share,
                                    double eps)
{
    if (step == 0 && inner == 1) {
        scale_partials(output_grad, data, inverse, partial, outer, length);
        return;
    }
    if (step == 0) {
        channel_partials(output_grad, data, inverse, partial, outer, length, inner);
        return;
    }

    const int slices = outer * inner ? gridDim.y : 0;
    for (int64_t c = first_row() * blockDim.x + threadIdx.x; blockIdx.y == 0 && c < length;
         c += row_step() * blockDim.x) {
        double sum = 0;
        for (int slice = 0; slice < slices; ++slice)
            sum += partial[slice * length + c];
        store(scale_grad, c, A(sum), scale_grad_request);
    }

    if (data_grad_request == NOTHING)
        return;
    const bool packed = packed_rows(length, inner, output_grad, data, data_grad) && aligned(scale);
    for (int64_t r = first_row() + blockIdx.y * row_step(); r < outer * inner; r += row_step() * gridDim.y) {
        const PackedRow<T> row(r, length, inner, packed);
        data_gradient(output_grad, data, scale, inverse, data_grad, data_grad_request, r, row, share, eps,
                      length == 1);
    }
}
