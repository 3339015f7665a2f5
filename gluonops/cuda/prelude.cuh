// The primitives of every kernel.cu: float16, loads and stores, loops, reductions. NVRTC gets this file in front of the
// kernel. It includes nothing of CUDA's, because a machine may lack its headers. It is C++14, see rtc.py.
#include "../cuda/types.cuh"
#include "../cuda/record.inl"
#include "../cuda/math.cuh"

// How a kernel writes a tensor. It leaves a tensor with NOTHING untouched.
enum Request { NOTHING, WRITE, ADD };

// float16 is a storage type only. Its conversions are single instructions, so cuda_fp16.h is not needed.
struct __half {
    unsigned short bits;

    __device__ __half() {}
    __device__ __half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    __device__ operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
};

template <> struct Accumulator<__half> { typedef float type; };

template <typename T>
__device__ typename Accumulator<T>::type load(const T *from, int64_t i) { return from[i]; }

// ADD adds in the accumulator's type and rounds once.
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

// The type whose loads and stores move so many elements at once: one of them, or 4, 8 or 16 bytes.
template <int BYTES> struct Bytes;
template <> struct Bytes<4> { typedef unsigned type; };
template <> struct Bytes<8> { typedef uint2 type; };
template <> struct Bytes<16> { typedef uint4 type; };
template <typename T, int COUNT> struct Word { typedef typename Bytes<COUNT * sizeof(T)>::type type; };
template <typename T> struct Word<T, 1> { typedef T type; };

// Elements of a tensor that a thread moves at once, at most 16 bytes. Their address has to be a multiple of their size.
template <typename T, int COUNT = 16 / sizeof(T)>
struct __align__(COUNT * sizeof(T)) Pack {
    enum { SIZE = COUNT };
    typedef typename Word<T, COUNT>::type Whole;
    T items[SIZE];

    __device__ void read(const T *from) { *reinterpret_cast<Whole *>(items) = *reinterpret_cast<const Whole *>(from); }
    __device__ void write(T *to) const { *reinterpret_cast<Whole *>(to) = *reinterpret_cast<const Whole *>(items); }

    __device__ void fill(const T &value)
    {
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            items[j] = value;
    }
};

// Returns whether packs of 16 bytes begin at each of the addresses.
__device__ inline bool aligned() { return true; }

template <typename T, typename... Others>
__device__ bool aligned(const T *address, const Others *... others)
{
    return reinterpret_cast<size_t>(address) % 16 == 0 && aligned(others...);
}

template <typename T, int COUNT = Pack<T>::SIZE>
__device__ Pack<T, COUNT> load_pack(const T *from, int64_t i)
{
    Pack<T, COUNT> pack;
    pack.read(from + i);
    return pack;
}

// Under WRITE no bit changes, as in copy.
template <typename T, int COUNT>
__device__ void copy_pack(T *to, int64_t i, Pack<T, COUNT> pack, int request)
{
    if (request == ADD) {
        const Pack<T, COUNT> before = load_pack<T, COUNT>(to, i);
#pragma unroll
        for (int j = 0; j < COUNT; ++j)
            store(pack.items, j, load(before.items, j) + load(pack.items, j), WRITE);
    }
    if (request != NOTHING)
        pack.write(to + i);
}

template <typename T, int COUNT = Pack<T>::SIZE>
__device__ void store_pack(T *to, int64_t i, const typename Accumulator<T>::type *values, int request)
{
    if (COUNT == 1)
        return store(to, i, values[0], request);
    Pack<T, COUNT> pack;
    if (request == ADD)
        pack = load_pack<T, COUNT>(to, i);
#pragma unroll
    for (int j = 0; j < COUNT; ++j)
        store(pack.items, j, values[j], request);
    if (request != NOTHING)
        pack.write(to + i);
}

__device__ inline int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns the same number, of which the compiler knows nothing. Otherwise it computes all multiples of a step in front
// of a loop, and has no registers left for them.
__device__ inline int64_t opaque(int64_t x)
{
    asm volatile("" : "+l"(x));
    return x;
}

// Returns the address so many bytes behind another. The compiler knows nothing of the distance: otherwise it computes
// all multiples of it in front of a loop, and has no registers left for them.
template <typename T>
__device__ T *behind(T *address, int64_t bytes)
{
    return reinterpret_cast<T *>(const_cast<char *>(reinterpret_cast<const char *>(address)) + opaque(bytes));
}

// Returns the quotient. Where 32 bits suffice it is computed in these: a division of 64 bits takes about 70
// instructions.
__device__ inline int64_t quotient(int64_t a, int64_t b)
{
    const bool narrow = ((a | b) >> 32) == 0;
    return narrow ? int64_t(unsigned(a) / unsigned(b)) : a / b;
}

// One thread per item; a thread strides over the items that the grid does not reach.
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

// Calls visit(pack, i) for groups of neighbours among `size` elements; i is the first one of a group. Groups are packs
// of 16 bytes, if tensors can be moved in such, and the other elements one by one. `pack` is empty, but of the group's
// size.
template <typename T, typename Visit>
__device__ void for_packs(int64_t size, bool in_packs, const Visit &visit)
{
    enum { SIZE = Pack<T>::SIZE };
    const int64_t packed = in_packs ? size / SIZE * SIZE : 0;
    // The elements come first: what they need takes no register during the loop over packs. A thread has few of both.
#pragma unroll 1
    for (int64_t i = packed + first_item(); i < size; i += item_step())
        visit(Pack<T, 1>(), i);
#pragma unroll 1
    for (int64_t i = first_item() * SIZE; i < packed; i += item_step() * SIZE)
        visit(Pack<T>(), i);
}

// Stores formula(i, x, ...) in each element i; x, ... are those of the tensors `from`.
template <typename T, typename Formula, typename... Tensors>
__device__ void map_elements(T *to, int request, int64_t size, const Formula &formula, const Tensors *... from)
{
    for_packs<T>(size, aligned(from..., to), [&](auto group, int64_t i) {
        enum { SIZE = decltype(group)::SIZE };
        const auto map_packs = [&](const auto &... packs) {
            typename Accumulator<T>::type values[SIZE];
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                values[j] = formula(i + j, load(packs.items, j)...);
            store_pack<T, SIZE>(to, i, values, request);
        };
        map_packs(load_pack<T, SIZE>(from, i)...);
    });
}

// blockDim.x threads share a row. They are the whole block; or they are a power of two from 1 to 32, and the block
// has blockDim.y rows. Threads of one row never diverge from each other, so code that branches on the row may reduce
// over it.
__device__ inline int64_t first_row() { return int64_t(blockIdx.x) * blockDim.y + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t(gridDim.x) * blockDim.y; }

// Returns the number of a thread in its block.
__device__ inline int thread_number() { return threadIdx.y * blockDim.x + threadIdx.x; }

// Reductions: every thread gets the same result, from the same order of operations every time.
struct Sum { template <typename A> __device__ A operator()(A a, A b) const { return a + b; } };
struct Max { template <typename A> __device__ A operator()(A a, A b) const { return a > b ? a : b; } };

// It reduces groups of neighbouring lanes. All lanes of the warp take part, which is faster than reduce_lanes.
template <typename A, typename Combine>
__device__ A reduce_warp(A value, Combine combine, int lanes = 32)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        if (step < lanes)
            value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

// Returns the sums of four numbers over groups of at least four neighbouring lanes. A lane gets that of the number lane
// % 4, so lanes exchange less than for four sums.
template <typename A>
__device__ A sum_four(const A *numbers, int lanes = 32)
{
    const unsigned all = 0xffffffffu;
    const bool odd = threadIdx.x % 2 == 1, high = threadIdx.x % 4 >= 2;
    const A first = (odd ? numbers[1] : numbers[0]) + __shfl_xor_sync(all, odd ? numbers[0] : numbers[1], 1);
    const A second = (odd ? numbers[3] : numbers[2]) + __shfl_xor_sync(all, odd ? numbers[2] : numbers[3], 1);
    A sum = (high ? second : first) + __shfl_xor_sync(all, high ? first : second, 2);
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
        if (step < lanes)
            sum += __shfl_xor_sync(all, sum, step);
    return sum;
}

// Only the lanes that reduce together take part: the lanes of another row may be elsewhere.
template <typename A, typename Combine>
__device__ A reduce_lanes(A value, Combine combine, int lanes)
{
    if (lanes == 32)
        return reduce_warp(value, combine);
    const int lane = thread_number() % 32;
    const unsigned mask = (0xffffffffu >> (32 - lanes)) << (lane & ~(lanes - 1));
    for (int step = lanes / 2; step > 0; step /= 2)
        value = combine(value, __shfl_xor_sync(mask, value, step));
    return value;
}

template <typename A, typename Combine>
__device__ A reduce_block(A value, Combine combine)
{
    __shared__ A partial[32];
    const int thread = thread_number(), warps = blockDim.x * blockDim.y / 32;
    value = reduce_warp(value, combine);
    __syncthreads();   // the reduction before this one may still be reading
    if (thread % 32 == 0)
        partial[thread / 32] = value;
    __syncthreads();
    return reduce_warp(partial[thread % warps], combine, warps);
}

template <typename A, typename Combine>
__device__ A reduce_row(A value, Combine combine)
{
    return blockDim.x <= 32 ? reduce_lanes(value, combine, blockDim.x) : reduce_block(value, combine);
}

// Returns the sum of what the threads in front of this one have, and that of all WARPS warps of the block.
template <int WARPS, typename N>
__device__ N sum_before(N own, N &of_all)
{
    __shared__ N of_warps[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    N sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const N other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? other : N(0);
    }
    if (lane == 31)
        of_warps[warp] = sum;
    __syncthreads();   // what all warps have
    N before = sum - own;
    of_all = 0;
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
        before += other < warp ? of_warps[other] : N(0);
        of_all += of_warps[other];
    }
    return before;
}
