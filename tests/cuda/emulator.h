// CUDA on a CPU, for tests: what kernel.cu may use of the language. cuda_emulator.py puts this in front of a kernel's
// source, and a table of its kernels behind; emulator.cc launches them.
#ifndef GLUONOPS_EMULATOR_H
#define GLUONOPS_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)   // cuda_emulator.py checks it

struct dim3 {
    unsigned x, y, z;
};
#define VECTOR(T, name)                                                                                        \
    struct __align__(2 * sizeof(T)) name##2 { T x, y; };                                                       \
    struct __align__(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };                           \
    inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                                          \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
VECTOR(int, int)
VECTOR(unsigned, uint)
VECTOR(float, float)
VECTOR(double, double)
VECTOR(long long, longlong)
#undef VECTOR

namespace emulator {

enum { WARP = 32 };

struct Place {
    const char *file;
    int line;
    bool operator!=(const Place &other) const { return line != other.line || strcmp(file, other.file) != 0; }
};

// Where the thread that runs is; emulator.cc keeps it.
struct Current {
    dim3 grid, block, block_index, thread;
    int index;   // which thread of its block it is
};
extern Current current;

void barrier(Place place, int number);   // cuda_emulator.py numbers the barriers of a source
uint64_t meet(Place place, unsigned mask, uint64_t value, int source);   // the value of lane `source`
int new_site();
void *shared_memory(int site, size_t bytes);

struct Shuffle {
    Place place;

    template <typename T>
    T meet(unsigned mask, T value, int source) const
    {
        static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8), "no such shuffle in CUDA");
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof value);
        bits = emulator::meet(place, mask, bits, source);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    static int lane() { return current.index % WARP; }
    static int first(int width) { return lane() & ~(width - 1); }   // the first lane of the lane's segment

    template <typename T>
    T index(unsigned mask, T value, int source, int width = WARP) const
    {
        return meet(mask, value, first(width) + (source & (width - 1)));
    }
    template <typename T>
    T up(unsigned mask, T value, int by, int width = WARP) const
    {
        return meet(mask, value, lane() - by < first(width) ? lane() : lane() - by);
    }
    template <typename T>
    T down(unsigned mask, T value, int by, int width = WARP) const
    {
        return meet(mask, value, lane() + by >= first(width) + width ? lane() : lane() + by);
    }
    template <typename T>
    T across(unsigned mask, T value, int by, int width = WARP) const
    {
        return meet(mask, value, (lane() ^ by) >= first(width) + width ? lane() : lane() ^ by);
    }
    void none(unsigned mask = 0xffffffffu) const { emulator::meet(place, mask, 0, lane()); }
};

// A __shared__ array; `site` is its declaration in an instance of a template.
template <typename T>
T &shared(int site) { return *reinterpret_cast<T *>(shared_memory(site, sizeof(T))); }

// -- the table of kernels ---------------------------------------------------------------------------------------------
struct Kernel {
    const char *name;
    void (*run)(void **arguments);
    const char *const *declared;   // the types of its arguments
    int count;
};
extern const Kernel *kernels;
extern const int kernel_count;

template <typename T> struct Spelled;   // CUDA's name of an argument's type
#define SPELLED(type, text)                                                      \
    template <> struct emulator::Spelled<type> { static constexpr const char *name = text; }; \
    template <> struct emulator::Spelled<type *> { static constexpr const char *name = text " *"; }; \
    template <> struct emulator::Spelled<const type *> { static constexpr const char *name = "const " text " *"; };

template <auto kernel> struct Entry;
template <typename... P, void (*kernel)(P...)> struct Entry<kernel> {
    static constexpr const char *declared[] = {Spelled<P>::name...};

    template <size_t... i>
    static void call(void **values, std::index_sequence<i...>) { kernel(*(P *)values[i]...); }
    static void run(void **values) { call(values, std::index_sequence_for<P...>()); }
    static constexpr Kernel named(const char *name) { return Kernel{name, run, declared, int(sizeof...(P))}; }
};

}  // namespace emulator

SPELLED(float, "float")
SPELLED(double, "double")
SPELLED(int, "int")
SPELLED(signed char, "int8_t")
SPELLED(unsigned char, "uint8_t")
SPELLED(long long, "int64_t")

// -- names of CUDA ----------------------------------------------------------------------------------------------------
#define threadIdx (emulator::current.thread)
#define blockIdx (emulator::current.block_index)
#define blockDim (emulator::current.block)
#define gridDim (emulator::current.grid)
#define HERE (emulator::Place{__FILE__, __LINE__})
#define __syncthreads(number) emulator::barrier(HERE, number)
#define __shfl_sync emulator::Shuffle{HERE}.index
#define __shfl_up_sync emulator::Shuffle{HERE}.up
#define __shfl_down_sync emulator::Shuffle{HERE}.down
#define __shfl_xor_sync emulator::Shuffle{HERE}.across
#define __syncwarp emulator::Shuffle{HERE}.none

template <typename T>
T __ldg(const T *from) { return *from; }

template <typename T>
T atomicAdd(T *to, T value)   // fibers give way at barriers and shuffles only
{
    const T before = *to;
    *to += value;
    return before;
}

inline unsigned atomicInc(unsigned *to, unsigned most)
{
    const unsigned before = *to;
    *to = before >= most ? 0 : before + 1;
    return before;
}

inline void __threadfence() {}   // one thread runs at a time

// CUDA's, which newer C libraries have as well.
#define cospi emulated_cospi
#define cospif emulated_cospi
#define sinpi emulated_sinpi
#define sinpif emulated_sinpi
inline float emulated_cospi(float x) { return float(cos(M_PI * x)); }
inline double emulated_cospi(double x) { return cos(M_PI * x); }
inline float emulated_sinpi(float x) { return float(sin(M_PI * x)); }
inline double emulated_sinpi(double x) { return sin(M_PI * x); }

inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }

inline float __int_as_float(int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline long long __double_as_longlong(double value)
{
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline double __longlong_as_double(long long bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// float16, as cvt.rn.f16.f32 and cvt.f32.f16 convert it.
inline float half_to_float(unsigned short half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                            : exponent ? ldexpf(float(1024 + fraction), exponent - 25) : ldexpf(float(fraction), -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

inline unsigned short float_to_half(float value)
{
    const unsigned short sign = signbit(value) ? 0x8000 : 0;
    const float magnitude = fabsf(value);
    if (isnan(value))
        return 0x7fff;
    if (magnitude >= 65520.f)
        return sign | 0x7c00;
    int exponent = 0;
    frexpf(magnitude, &exponent);   // magnitude = [0.5, 1) * 2^exponent
    const int unit = magnitude < 0x1p-14f ? -24 : exponent - 11;
    const int fraction = int(rintf(ldexpf(magnitude, -unit)));   // in units of the last place, ties to even
    return (unsigned short)(sign + (unit == -24 ? fraction : ((unit + 24) << 10) + fraction));
}

#endif
