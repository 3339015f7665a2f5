// What every kernel.cu stands on; NVRTC gets it in front of the kernel. It includes nothing, because a
// machine may lack CUDA's headers, and it is C++03, because NVRTC 11 speaks that unless told otherwise.

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef int int32_t;
typedef long long int64_t;

// What a kernel is asked to do with a tensor that it writes; it leaves one with NOTHING alone altogether.
enum Request { NOTHING, WRITE, ADD };

// float16 is for storing only. Its conversions are single instructions, so cuda_fp16.h is not needed.
struct __half {
    unsigned short bits;

    __device__ __half() {}
    __device__ __half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    __device__ operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
};

// What a type computes and adds up in: float16 in float, every other in itself.
template <typename T> struct Accumulator { typedef T type; };
template <> struct Accumulator<__half> { typedef float type; };

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

template <typename A> __device__ A not_a_number() { return __int_as_float(0x7fc00000); }

// The lowest finite number: unlike -infinity it can be subtracted from itself.
template <typename A> __device__ A lowest();
template <> __device__ inline float lowest<float>() { return -3.402823466e+38f; }
template <> __device__ inline double lowest<double>() { return -1.7976931348623157e+308; }

template <typename T>
__device__ typename Accumulator<T>::type load(const T *from, int64_t i) { return from[i]; }

// ADD adds in the accumulator and rounds once.
template <typename T>
__device__ void store(T *to, int64_t i, typename Accumulator<T>::type value, int request)
{
    if (request != NOTHING)
        to[i] = T(request == ADD ? load(to, i) + value : value);
}

// Under WRITE no bit of the element changes, not even in a NaN.
template <typename T>
__device__ void copy(T *to, int64_t i, const T *from, int64_t j, int request)
{
    if (request == WRITE)
        to[i] = from[j];
    else
        store(to, i, load(from, j), request);
}

// 16 bytes of a tensor, the most that a thread moves at once. Their address has to be a multiple of 16.
template <typename T>
struct __align__(16) Pack {
    enum { SIZE = 16 / sizeof(T) };
    T items[SIZE];
};

template <typename T>
__device__ bool aligned(const T *address) { return reinterpret_cast<size_t>(address) % 16 == 0; }

template <typename T>
__device__ Pack<T> load_pack(const T *from, int64_t i)
{
    Pack<T> pack;
    *reinterpret_cast<uint4 *>(pack.items) = *reinterpret_cast<const uint4 *>(from + i);
    return pack;
}

// Under WRITE no bit changes, as in copy.
template <typename T>
__device__ void copy_pack(T *to, int64_t i, Pack<T> pack, int request)
{
    if (request == ADD) {
        const Pack<T> before = load_pack(to, i);
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            store(pack.items, j, load(before.items, j) + load(pack.items, j), WRITE);
    }
    if (request != NOTHING)
        *reinterpret_cast<uint4 *>(to + i) = *reinterpret_cast<const uint4 *>(pack.items);
}

template <typename T>
__device__ void store_pack(T *to, int64_t i, const typename Accumulator<T>::type *values, int request)
{
    Pack<T> pack;
    if (request == ADD)
        pack = load_pack(to, i);
#pragma unroll
    for (int j = 0; j < Pack<T>::SIZE; ++j)
        store(pack.items, j, values[j], request);
    if (request != NOTHING)
        *reinterpret_cast<uint4 *>(to + i) = *reinterpret_cast<const uint4 *>(pack.items);
}

__device__ inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Division by a number that many threads divide by: a multiplication and a comparison. Exact below 2^16.
struct Divisor {
    unsigned by, factor;

    __device__ explicit Divisor(unsigned by) : by(by), factor(0xffffffffu / by + 1) {}

    __device__ unsigned divide(unsigned x, unsigned &rest) const
    {
        const unsigned quotient = by == 1 ? x : __umulhi(x, factor);
        rest = x - quotient * by;
        return quotient;
    }
};

// One thread per item; a thread strides over the items that the grid does not reach.
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

// blockDim.x threads share a row: 1 to 32, a power of two, and each of the blockDim.y rows of the block strides over
// rows of its own; or the whole block. Either way code that branches on the row alone may reduce across it.
__device__ inline int64_t first_row() { return int64_t(blockIdx.x) * blockDim.y + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t(gridDim.x) * blockDim.y; }

// Reductions: every thread gets the same result, from the same order of operations every time.
struct Sum { template <typename A> __device__ A operator()(A a, A b) const { return a + b; } };
struct Largest { template <typename A> __device__ A operator()(A a, A b) const { return a > b ? a : b; } };

// Only the lanes that reduce together take part: another row's may be elsewhere.
template <typename A, typename Combine>
__device__ A across_lanes(A value, Combine combine, int lanes)
{
    const int lane = (threadIdx.y * blockDim.x + threadIdx.x) % 32;
    const unsigned mask = (0xffffffffu >> (32 - lanes)) << (lane & ~(lanes - 1));
    for (int step = lanes / 2; step > 0; step /= 2)
        value = combine(value, __shfl_xor_sync(mask, value, step));
    return value;
}

template <typename A, typename Combine>
__device__ A across_block(A value, Combine combine)
{
    __shared__ A partial[32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;
    value = across_lanes(value, combine, 32);
    __syncthreads();   // the reduction before this one may still be reading
    if (thread % 32 == 0)
        partial[thread / 32] = value;
    __syncthreads();
    return across_lanes(partial[thread % warps], combine, warps);
}

template <typename A, typename Combine>
__device__ A across_row(A value, Combine combine)
{
    return blockDim.x <= 32 ? across_lanes(value, combine, blockDim.x) : across_block(value, combine);
}

// One row of an (outer, classes, inner) tensor: every inner-th element from start. This thread's are
//     for (int64_t i = row.first; i < row.end; i += row.step)
struct Row {
    int64_t start, end, first, step;

    __device__ Row(int64_t index, int64_t classes, int64_t inner)
        : start(index / inner * classes * inner + index % inner), end(start + classes * inner),
          first(start + threadIdx.x * inner), step(blockDim.x * inner) {}
};

// Such a row, of which a thread takes ITEMS at a time, as much as it has in registers:
//     for (int64_t i = row.first; i < row.end; i += row.step)
//         for (int k = 0; k < WideRow<T>::ITEMS; ++k)
//             if (row.has(i, k)) ... row.at(i, k) ...
// Where the rows are packed they come in groups of 16 bytes. gridDim.y blocks share a row, and take turns.
template <typename T>
struct WideRow {
    typedef typename Accumulator<T>::type A;
    enum { ITEMS = 64 / sizeof(A), GROUP = Pack<T>::SIZE };
    bool packed;
    int64_t start, end, apart, between, first, step;

    // packed: see packed_rows
    __device__ WideRow(int64_t index, int64_t classes, int64_t inner, bool packed)
        : packed(packed), start(index / inner * classes * inner + index % inner), end(start + classes * inner),
          apart(packed ? 1 : blockDim.x * inner), between(blockDim.x * inner * GROUP),
          first(start + threadIdx.x * (packed ? int64_t(GROUP) : inner) + blockIdx.y * (blockDim.x * inner * ITEMS)),
          step(gridDim.y * (blockDim.x * inner * ITEMS)) {}

    __device__ int64_t at(int64_t i, int k) const { return i + k / GROUP * between + k % GROUP * apart; }
    __device__ bool has(int64_t i, int k) const { return at(i, k) < end; }
    // Whether its threads take it in one step.
    __device__ bool fits() const { return end - start <= step; }
};

// Whether the rows of these tensors can be read and written 16 bytes at a time.
template <typename T>
__device__ bool packed_rows(int64_t classes, int64_t inner, const T *a, const T *b, const T *c)
{
    return inner == 1 && classes % Pack<T>::SIZE == 0 && aligned(a) && aligned(b) && aligned(c);
}

// What a thread takes of a row at a time; behind the end of the row, zeros.
template <typename T>
struct Items {
    typedef typename Accumulator<T>::type A;
    A values[WideRow<T>::ITEMS];

    __device__ void read(const T *from, const WideRow<T> &row, int64_t i)
    {
        if (row.packed) {
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; k += WideRow<T>::GROUP) {
                Pack<T> pack;
                if (row.has(i, k))
                    pack = load_pack(from, row.at(i, k));
#pragma unroll
                for (int j = 0; j < WideRow<T>::GROUP; ++j)
                    values[k + j] = row.has(i, k) ? load(pack.items, j) : 0;
            }
        } else {
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                values[k] = row.has(i, k) ? load(from, row.at(i, k)) : 0;
        }
    }

    __device__ void write(T *to, const WideRow<T> &row, int64_t i, int request) const
    {
        if (row.packed) {
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; k += WideRow<T>::GROUP)
                if (row.has(i, k))
                    store_pack(to, row.at(i, k), values + k, request);
        } else {
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                if (row.has(i, k))
                    store(to, row.at(i, k), values[k], request);
        }
    }

    __device__ A largest(const WideRow<T> &row, int64_t i, A top) const
    {
#pragma unroll
        for (int k = 0; k < WideRow<T>::ITEMS; ++k)
            if (row.has(i, k))
                top = Largest()(values[k], top);
        return top;
    }

    // Turns x into exp((x - max) * scale) and returns their sum.
    __device__ A exponentials(const WideRow<T> &row, int64_t i, A max, A scale)
    {
        A sum = 0;
#pragma unroll
        for (int k = 0; k < WideRow<T>::ITEMS; ++k) {
            values[k] = exponential((values[k] - max) * scale);
            sum += row.has(i, k) ? values[k] : 0;
        }
        return sum;
    }

    __device__ void fill(A value)
    {
#pragma unroll
        for (int k = 0; k < WideRow<T>::ITEMS; ++k)
            values[k] = value;
    }

    __device__ void divide(A by)
    {
#pragma unroll
        for (int k = 0; k < WideRow<T>::ITEMS; ++k)
            values[k] /= by;
    }
};

// What the blocks that share a row tell one another, NUMBERS numbers each: step 0 of a kernel leaves them, step 1
// takes all of them. Where a row has one block there is step 1 alone, and nothing to take; see contract.Cuda.
template <int NUMBERS>
struct Shares {
    double *partial;
    int64_t step;

    __device__ bool leaving() const { return step == 0; }
    __device__ bool taking() const { return step == 1 && gridDim.y > 1; }
    __device__ double *of(int64_t row, int block) const { return partial + (row * gridDim.y + block) * NUMBERS; }
    __device__ double *own(int64_t row) const { return of(row, blockIdx.y); }
};

// The sum of a number over the blocks of a row, or over the threads of its only one.
template <typename A>
__device__ A total(A value, const Shares<1> &shares, int64_t row)
{
    if (shares.taking()) {
        value = 0;
        for (int block = threadIdx.x; block < gridDim.y; block += blockDim.x)
            value += A(*shares.of(row, block));
    }
    return across_row(value, Sum());
}

// What the blocks of a row left of their maxima and sums; a thread takes some of them. Not inlined, for its registers.
template <typename A>
__device__ __noinline__ void take(const double *left, A scale, A &max, A &sum)
{
    for (int block = threadIdx.x; block < gridDim.y; block += blockDim.x) {
        const A its_max = left[2 * block], its_sum = left[2 * block + 1], before = max;
        max = Largest()(its_max, max);
        sum = sum * exponential((before - max) * scale) + its_sum * exponential((its_max - max) * scale);
    }
}

// exp((x - max) * scale) over its sum, of row number `index`. A row that fits is read once, another twice. A row with a
// NaN or a +infinity is NaN, and so is one of nothing but -infinity.
template <typename T, typename A>
__device__ void probabilities(const T *data, T *output, const WideRow<T> &row, A scale, int request, int64_t index,
                              const Shares<2> &shares)
{
    Items<T> x;
    if (gridDim.y == 1 && row.fits()) {
        x.read(data, row, row.first);
        const A max = across_row(x.largest(row, row.first, lowest<A>()), Largest());
        x.divide(across_row(x.exponentials(row, row.first, max, scale), Sum()));
        x.write(output, row, row.first, request);
        return;
    }
    A max = lowest<A>(), sum = 0;   // of this thread's items, up to where it is
    if (shares.taking()) {
        take(shares.of(index, 0), scale, max, sum);
    } else {
        for (int64_t i = row.first; i < row.end; i += row.step) {
            x.read(data, row, i);
            const A before = max;
            max = x.largest(row, i, max);
            sum = sum * exponential((before - max) * scale) + x.exponentials(row, i, max, scale);
        }
    }
    const A top = across_row(max, Largest());
    sum = across_row(sum * exponential((max - top) * scale), Sum());
    if (shares.leaving()) {
        if (threadIdx.x == 0) {
            shares.own(index)[0] = top;
            shares.own(index)[1] = sum;
        }
        return;
    }
    for (int64_t i = row.first; i < row.end; i += row.step) {
        x.read(data, row, i);
        x.exponentials(row, i, top, scale);
        x.divide(sum);
        x.write(output, row, i, request);
    }
}

enum { NO_CLASS = -1, IGNORED = -2 };

// The class that a row's label names: 0 to classes - 1, NO_CLASS or IGNORED.
template <typename L>
__device__ int64_t class_of(const L *label, int64_t row, int64_t classes, bool ignores, int64_t ignore_label)
{
    const double value = load(label, row);   // holds every class exactly
    if (ignores && value == double(ignore_label))
        return IGNORED;
    const bool within = value >= 0 && value < double(classes);   // false for NaN
    return within && value == floor(value) ? int64_t(value) : NO_CLASS;
}
