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

// blockDim.x threads share a row. They are one warp, and each of the blockDim.y warps strides over rows of
// its own; or they are the whole block. Either way code that branches on the row alone may reduce across it.
__device__ inline int64_t first_row() { return int64_t(blockIdx.x) * blockDim.y + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t(gridDim.x) * blockDim.y; }

// One row of an (outer, classes, inner) tensor: every inner-th element from start. This thread's are
//     for (int64_t i = row.first; i < row.end; i += row.step)
struct Row {
    int64_t start, end, first, step;

    __device__ Row(int64_t index, int64_t classes, int64_t inner)
        : start(index / inner * classes * inner + index % inner), end(start + classes * inner),
          first(start + threadIdx.x * inner), step(blockDim.x * inner) {}
};

// Reductions: every thread gets the same result, from the same order of operations every time.
struct Sum { template <typename A> __device__ A operator()(A a, A b) const { return a + b; } };
struct Largest { template <typename A> __device__ A operator()(A a, A b) const { return a > b ? a : b; } };

template <typename A, typename Combine>
__device__ A across_lanes(A value, Combine combine, int lanes)
{
    for (int step = lanes / 2; step > 0; step /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
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
    return blockDim.x == 32 ? across_lanes(value, combine, 32) : across_block(value, combine);
}

template <typename A> struct Total { A max, sum; };

// The maximum of a row and the sum of exp((x - max) * scale), reading the row once. A row with a NaN or a
// +infinity sums to NaN, a row of nothing but -infinity to 0.
template <typename T, typename A>
__device__ Total<A> total(const T *data, const Row &row, A scale)
{
    A max = lowest<A>(), sum = 0;
    for (int64_t i = row.first; i < row.end; i += row.step) {
        const A x = load(data, i);
        if (x > max) {
            sum *= exponential((max - x) * scale);
            max = x;
        }
        sum += exponential((x - max) * scale);
    }
    const A top = across_row(max, Largest());
    const Total<A> result = {top, across_row(sum * exponential((max - top) * scale), Sum())};
    return result;
}

// exp((x - max) * scale) over its sum.
template <typename T, typename A>
__device__ void probabilities(const T *data, T *output, const Row &row, A scale, int request)
{
    const Total<A> all = total(data, row, scale);
    for (int64_t i = row.first; i < row.end; i += row.step)
        store(output, i, exponential((load(data, i) - all.max) * scale) / all.sum, request);
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
