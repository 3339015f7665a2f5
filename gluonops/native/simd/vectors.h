// Vectors as wide as the target's registers, in the compiler's own vector extension. A kernel computes float16 in
// float. Lanes beyond the end of a row are neither read nor written.
#ifndef GLUONOPS_NATIVE_VECTORS_H_
#define GLUONOPS_NATIVE_VECTORS_H_

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "half.h"
#include "../target.h"

namespace gluonops {
namespace GLUONOPS_TARGET {

#if defined(__AVX512F__)
enum { WIDTH = 64 };
#elif defined(__AVX2__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif

typedef float Floats __attribute__((vector_size(WIDTH)));
typedef int32_t Ints __attribute__((vector_size(WIDTH)));
typedef uint32_t Words __attribute__((vector_size(WIDTH)));
typedef double Doubles __attribute__((vector_size(WIDTH)));
typedef int64_t Longs __attribute__((vector_size(WIDTH)));
typedef uint64_t LongWords __attribute__((vector_size(WIDTH)));

// What a stored type computes in, and that type's vectors and integers of its size.
template <typename T> struct Simd;
template <> struct Simd<float> {
    typedef float Scalar;
    typedef Floats Vector;
    typedef int32_t Index;
    typedef Ints Indices;
    enum { LANES = WIDTH / 4 };
};
template <> struct Simd<Half> : Simd<float> {};
template <> struct Simd<double> {
    typedef double Scalar;
    typedef Doubles Vector;
    typedef int64_t Index;
    typedef Longs Indices;
    enum { LANES = WIDTH / 8 };
};

// The lanes that a load or a store touches: all of them, which the compiler knows, or the first few.
struct FullMask {};
struct PartialMask { int64_t lanes; };

GLUONOPS_INLINE Floats broadcast(float x) { return x - Floats{}; }
GLUONOPS_INLINE Doubles broadcast(double x) { return x - Doubles{}; }
GLUONOPS_INLINE Ints broadcast(int32_t x) { return x - Ints{}; }
GLUONOPS_INLINE Longs broadcast(int64_t x) { return x - Longs{}; }

// A number in every lane of a V.
template <typename V> GLUONOPS_INLINE V every(double x);
template <> GLUONOPS_INLINE Floats every<Floats>(double x) { return broadcast(float(x)); }
template <> GLUONOPS_INLINE Doubles every<Doubles>(double x) { return broadcast(x); }

// 0, 1, 2 and so on.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Indices lane_numbers()
{
    typename Simd<T>::Indices numbers = {};
    for (int lane = 0; lane < Simd<T>::LANES; ++lane)
        numbers[lane] = lane;
    return numbers;
}

GLUONOPS_INLINE Floats load(const float *from, FullMask)
{
    Floats v;
    memcpy(&v, from, WIDTH);
    return v;
}

GLUONOPS_INLINE Doubles load(const double *from, FullMask)
{
    Doubles v;
    memcpy(&v, from, WIDTH);
    return v;
}

GLUONOPS_INLINE void store(float *to, Floats v, FullMask) { memcpy(to, &v, WIDTH); }
GLUONOPS_INLINE void store(double *to, Doubles v, FullMask) { memcpy(to, &v, WIDTH); }

#if defined(__AVX512F__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask)
{
    return Floats(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask)
{
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to),
                        _mm512_cvtps_ph(__m512(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__F16C__) && defined(__AVX2__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask)
{
    return Floats(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask)
{
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_cvtps_ph(__m256(v), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__aarch64__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask)
{
    return Floats(vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask)
{
    vst1_f16(reinterpret_cast<float16_t *>(to), vcvt_f16_f32(float32x4_t(v)));
}
#else
GLUONOPS_OUTLINE Floats load(const Half *from, FullMask)
{
    Floats v;
    for (int lane = 0; lane < WIDTH / 4; ++lane)
        v[lane] = widen(from[lane]);
    return v;
}
GLUONOPS_OUTLINE void store(Half *to, Floats v, FullMask)
{
    for (int lane = 0; lane < WIDTH / 4; ++lane)
        to[lane] = narrow(v[lane]);
}
#endif

// The first lanes of a vector; the others are `fill`.
template <typename T>
GLUONOPS_OUTLINE typename Simd<T>::Vector load(const T *from, PartialMask mask, typename Simd<T>::Scalar fill)
{
    enum { LANES = Simd<T>::LANES };
    T buffer[LANES] = {};
    memcpy(buffer, from, size_t(mask.lanes) * sizeof(T));
    typename Simd<T>::Vector v = load(buffer, FullMask());
    for (int lane = 0; lane < LANES; ++lane)
        v[lane] = lane < mask.lanes ? v[lane] : fill;
    return v;
}

template <typename T>
GLUONOPS_OUTLINE void store(T *to, typename Simd<T>::Vector v, PartialMask mask)
{
    T buffer[Simd<T>::LANES];
    store(buffer, v, FullMask());
    memcpy(to, buffer, size_t(mask.lanes) * sizeof(T));
}

#if defined(__AVX512F__)
GLUONOPS_INLINE Floats load(const float *from, PartialMask mask, float fill)
{
    return Floats(_mm512_mask_loadu_ps(__m512(broadcast(fill)), __mmask16((1u << mask.lanes) - 1), from));
}
GLUONOPS_INLINE Doubles load(const double *from, PartialMask mask, double fill)
{
    return Doubles(_mm512_mask_loadu_pd(__m512d(broadcast(fill)), __mmask8((1u << mask.lanes) - 1), from));
}
GLUONOPS_INLINE void store(float *to, Floats v, PartialMask mask)
{
    _mm512_mask_storeu_ps(to, __mmask16((1u << mask.lanes) - 1), __m512(v));
}
GLUONOPS_INLINE void store(double *to, Doubles v, PartialMask mask)
{
    _mm512_mask_storeu_pd(to, __mmask8((1u << mask.lanes) - 1), __m512d(v));
}
#elif defined(__AVX2__)
GLUONOPS_INLINE Ints lane_flags(PartialMask mask)
{
    const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return lane < int32_t(mask.lanes);
}
GLUONOPS_INLINE Floats load(const float *from, PartialMask mask, float fill)
{
    const Ints flags = lane_flags(mask);
    return flags ? Floats(_mm256_maskload_ps(from, __m256i(flags))) : broadcast(fill);
}
GLUONOPS_INLINE void store(float *to, Floats v, PartialMask mask)
{
    _mm256_maskstore_ps(to, __m256i(lane_flags(mask)), __m256(v));
}
#endif

template <typename T>
GLUONOPS_INLINE typename Simd<T>::Vector load(const T *from, FullMask mask, typename Simd<T>::Scalar)
{
    return load(from, mask);
}

// A streaming store bypasses the caches, and its address is aligned. It pays for results much larger than the caches:
// an ordinary store first reads the line that it overwrites. Call store_fence() before another thread reads.
#if defined(__AVX2__)
enum { HAS_STREAMING_STORES = true };
GLUONOPS_INLINE void streaming_store(float *to, Floats v)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(to, __m512(v));
#else
    _mm256_stream_ps(to, __m256(v));
#endif
}
#else
enum { HAS_STREAMING_STORES = false };
#endif

template <typename T, typename V>
GLUONOPS_INLINE void streaming_store(T *to, V v) { store(to, v, FullMask()); }

GLUONOPS_INLINE void store_fence()
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

// a > b ? a : b, so the result is b where one of them is NaN. The processor has an instruction for exactly this; the
// compiler does not find it by itself.
GLUONOPS_INLINE Floats maximum(Floats a, Floats b)
{
#if defined(__AVX512F__)
    return Floats(_mm512_max_ps(__m512(a), __m512(b)));
#elif defined(__AVX2__)
    return Floats(_mm256_max_ps(__m256(a), __m256(b)));
#else
    return a > b ? a : b;
#endif
}

GLUONOPS_INLINE Doubles maximum(Doubles a, Doubles b)
{
#if defined(__AVX512F__)
    return Doubles(_mm512_max_pd(__m512d(a), __m512d(b)));
#elif defined(__AVX2__)
    return Doubles(_mm256_max_pd(__m256d(a), __m256d(b)));
#else
    return a > b ? a : b;
#endif
}

// All lanes combined: one half with the other, then the quarters of what is left, and so on.
template <typename T, typename Combine>
GLUONOPS_INLINE T fold_lanes(typename Simd<T>::Vector v, const Combine &combine)
{
    for (int step = Simd<T>::LANES / 2; step; step /= 2)
        v = combine(v, __builtin_shuffle(v, lane_numbers<T>() + step));
    return v[0];
}

GLUONOPS_INLINE float reduce_max(Floats v)
{
    return fold_lanes<float>(v, [](Floats a, Floats b) GLUONOPS_LAMBDA { return maximum(a, b); });
}

GLUONOPS_INLINE double reduce_max(Doubles v)
{
    return fold_lanes<double>(v, [](Doubles a, Doubles b) GLUONOPS_LAMBDA { return maximum(a, b); });
}

GLUONOPS_INLINE float reduce_sum(Floats v)
{
    return fold_lanes<float>(v, [](Floats a, Floats b) GLUONOPS_LAMBDA { return a + b; });
}

GLUONOPS_INLINE double reduce_sum(Doubles v)
{
    return fold_lanes<double>(v, [](Doubles a, Doubles b) GLUONOPS_LAMBDA { return a + b; });
}

// exp(x) for x up to 40, to about one unit in the last place; subnormal results and NaN are right too.
#if defined(__AVX512F__)
// The method: x = k ln 2 + r, where k is a multiple of 1/16. Two registers hold 2^0, 2^(1/16), ...: the numbers, and
// their rounding errors. Three terms of a polynomial give exp(r) - 1.
GLUONOPS_INLINE Floats exponential(Floats x)
{
    const __m512 powers = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                           1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                           1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                           1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
    const __m512 powers_low = {0.0f,             4.83347016e-08f,  -1.30775399e-08f, 5.38622231e-08f,
                               3.79763527e-08f,  4.4968381e-08f,   -4.01899953e-08f, -1.01233493e-08f,
                               2.4203235e-08f,   -4.50089885e-08f, 8.07090483e-09f,  9.83621717e-09f,
                               -2.47553267e-08f, -9.23577037e-09f, -1.1239278e-08f,  9.84532811e-09f};
    x = maximum(broadcast(-104.0f), x);   // exp(-104) is 0; NaN stays
    const float magic = 786432.0f;        // 1.5 * 2^19: adding it rounds to sixteenths, found in the low bits
    const Floats shifted = x * 1.44269504088896341f + magic;
    const Floats k = shifted - magic;
    const Floats r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    const Floats p = (r * 0.16667026f + 0.5000162f) * (r * r) + r;
    const __m512i sixteenth = __m512i(shifted);   // its low four bits count
    const Floats power = Floats(_mm512_permutexvar_ps(sixteenth, powers));
    const Floats power_low = Floats(_mm512_permutexvar_ps(sixteenth, powers_low));
    return Floats(_mm512_scalef_ps(__m512((power * p + power_low) + power), __m512(k)));   // 2^floor(k)
}
#else
// The method: x = k ln 2 + r, and a polynomial gives exp(r). 2^k is multiplied in two factors, so that neither
// underflows.
GLUONOPS_INLINE Floats exponential(Floats x)
{
    x = maximum(broadcast(-104.0f), x);
    const float magic = 12582912.0f;   // 1.5 * 2^23: adding it rounds to a whole number, found in the low bits
    const Floats shifted = x * 1.44269504088896341f + magic;
    const Floats k = shifted - magic;
    const Floats r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * Floats((Words(shifted) + (127u + 64u)) << 23) * 5.42101086242752217e-20f;   // 2^(k + 64) 2^-64
}
#endif

// As above, of whole numbers k.
GLUONOPS_INLINE Doubles exponential(Doubles x)
{
    x = maximum(broadcast(-746.0), x);
    const double magic = 6755399441055744.0;   // 1.5 * 2^52
    const Doubles shifted = x * 1.4426950408889634074 + magic;
    const Doubles k = shifted - magic;
    const Doubles r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    Doubles p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    return p * Doubles((LongWords(shifted) + (1023u + 128u)) << 52) * 2.93873587705571877e-39;   // 2^(k + 128) 2^-128
}

// arctan(x), to about one unit in the last place; NaN stays. The method is that of the Cephes library: tan(pi / 8) and
// tan(3 pi / 8) separate three intervals, and a polynomial is used near 0.
GLUONOPS_INLINE Floats arctangent(Floats x)
{
    const Floats size = x < 0 ? -x : x, zero = {};
    const Ints is_large = size > 2.414213562373095f, is_middle = size > 0.4142135623730950f;
    const Floats middle = is_middle ? (size - 1) / (size + 1) : size;
    const Floats r = is_large ? -1 / size : middle;
    const Floats offset = is_middle ? broadcast(0.7853981633974483f) : zero;
    const Floats start = is_large ? broadcast(1.570796326794897f) : offset;
    const Floats z = r * r;
    Floats p = z * 8.05374449538e-2f - 1.38776856032e-1f;
    p = p * z + 1.99777106478e-1f;
    p = p * z - 3.33329491539e-1f;
    const Floats angle = start + (p * z * r + r);
    return x < 0 ? -angle : angle;
}

GLUONOPS_INLINE Doubles arctangent(Doubles x)
{
    const Doubles size = x < 0 ? -x : x, zero = {};
    const Longs is_large = size > 2.41421356237309504880, is_middle = size > 0.66;
    const Doubles middle = is_middle ? (size - 1) / (size + 1) : size;
    const Doubles r = is_large ? -1 / size : middle;
    const Doubles offset = is_middle ? broadcast(0.78539816339744830962) : zero;
    const Doubles start = is_large ? broadcast(1.57079632679489661923) : offset;
    const Doubles z = r * r;
    Doubles p = z * -8.750608600031904122785e-1 - 1.615753718733365076637e1;
    p = p * z - 7.500855792314704667340e1;
    p = p * z - 1.228866684490136173410e2;
    p = p * z - 6.485021904942025371773e1;
    Doubles q = z + 2.485846490142306297962e1;
    q = q * z + 1.650270098316988542046e2;
    q = q * z + 4.328810604912902668951e2;
    q = q * z + 4.853903996359136964868e2;
    q = q * z + 1.945506571482613964425e2;
    const Doubles angle = start + (r * (z * p / q) + r);
    return x < 0 ? -angle : angle;
}

GLUONOPS_INLINE float logarithm(float x) { return __builtin_logf(x); }
GLUONOPS_INLINE double logarithm(double x) { return __builtin_log(x); }

// A product that GCC does not fuse with a sum. Otherwise it fuses some copies of a kernel's loop and not others, where
// the sum is behind a condition, and the bits of a column depend on its neighbours. Clang fuses within a statement only.
template <typename V>
GLUONOPS_INLINE V rounded(V product)
{
#if __GNUC__ >= 12
    return __builtin_assoc_barrier(product);
#else
    return product;
#endif
}

template <typename A> GLUONOPS_INLINE A not_a_number() { return A(__builtin_nanf("")); }

// The lowest finite number: unlike -infinity it can be subtracted from itself.
template <typename A> GLUONOPS_INLINE A lowest();
template <> GLUONOPS_INLINE float lowest<float>() { return -__FLT_MAX__; }
template <> GLUONOPS_INLINE double lowest<double>() { return -__DBL_MAX__; }

GLUONOPS_INLINE float load_scalar(const Half *from) { return widen(*from); }
GLUONOPS_INLINE float load_scalar(const float *from) { return *from; }
GLUONOPS_INLINE double load_scalar(const double *from) { return *from; }
GLUONOPS_INLINE void store_scalar(Half *to, float x) { *to = narrow(x); }
GLUONOPS_INLINE void store_scalar(float *to, float x) { *to = x; }
GLUONOPS_INLINE void store_scalar(double *to, double x) { *to = x; }

// Writes to[0 .. items). compute(i, mask) gives the values of the elements from i on; mask is FullMask or PartialMask.
template <bool STREAMING, typename T, typename Compute>
GLUONOPS_INLINE void write_row(T *to, int64_t items, const Compute &compute)
{
    enum { LANES = Simd<T>::LANES };
    int64_t i = 0;
    if (STREAMING) {
        const int64_t misalignment = int64_t(reinterpret_cast<uintptr_t>(to) % (LANES * sizeof(T)) / sizeof(T));
        i = misalignment ? LANES - misalignment : 0;
        i = i < items ? i : items;
        if (i)
            store(to, compute(int64_t(0), PartialMask{i}), PartialMask{i});
    }
    for (; i + LANES <= items; i += LANES) {
        if (STREAMING)
            streaming_store(to + i, compute(i, FullMask()));
        else
            store(to + i, compute(i, FullMask()), FullMask());
    }
    if (i < items)
        store(to + i, compute(i, PartialMask{items - i}), PartialMask{items - i});
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_VECTORS_H_
