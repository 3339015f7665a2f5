// Vectors as wide as the instruction set's registers, in the compiler's own vector extension. A kernel computes float16
// in float. Lanes beyond the end of a row are neither read nor written.
#pragma once

#include <stdint.h>
#include <string.h>

#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "half.h"
#include "../isa.h"

namespace gluonops::GLUONOPS_ISA {

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

// The lanes that a load or a store touches: all of them, which the compiler knows, and is meant where no mask is given;
// or the first few.
struct FullMask {};
struct PartialMask { int64_t lanes; };

GLUONOPS_INLINE Floats broadcast(float x) { return x - Floats{}; }
GLUONOPS_INLINE Doubles broadcast(double x) { return x - Doubles{}; }
GLUONOPS_INLINE Ints broadcast(int32_t x) { return x - Ints{}; }
GLUONOPS_INLINE Longs broadcast(int64_t x) { return x - Longs{}; }

// Returns a number in every lane of a V.
template <typename V> GLUONOPS_INLINE V every(double x);
template <> GLUONOPS_INLINE Floats every<Floats>(double x) { return broadcast(float(x)); }
template <> GLUONOPS_INLINE Doubles every<Doubles>(double x) { return broadcast(x); }

template <typename T>
GLUONOPS_INLINE typename Simd<T>::Indices load_indices(const typename Simd<T>::Index *from)
{
    typename Simd<T>::Indices indices;
    memcpy(&indices, from, WIDTH);
    return indices;
}

// 0, 1, 2 and so on.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Indices lane_numbers()
{
    typename Simd<T>::Indices numbers = {};
    for (int lane = 0; lane < Simd<T>::LANES; ++lane)
        numbers[lane] = lane;
    return numbers;
}

template <typename T>
GLUONOPS_INLINE typename Simd<T>::Vector load(const T *from, FullMask = {})
{
    typename Simd<T>::Vector v;
    memcpy(&v, from, WIDTH);
    return v;
}

template <typename T>
GLUONOPS_INLINE void store(T *to, typename Simd<T>::Vector v, FullMask = {}) { memcpy(to, &v, WIDTH); }

#if defined(__AVX512F__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask = {})
{
    return Floats(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask = {})
{
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to),
                        _mm512_cvtps_ph(__m512(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__F16C__) && defined(__AVX2__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask = {})
{
    return Floats(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask = {})
{
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_cvtps_ph(__m256(v), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__aarch64__)
GLUONOPS_INLINE Floats load(const Half *from, FullMask = {})
{
    return Floats(vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t *>(from))));
}
GLUONOPS_INLINE void store(Half *to, Floats v, FullMask = {})
{
    vst1_f16(reinterpret_cast<float16_t *>(to), vcvt_f16_f32(float32x4_t(v)));
}
#else
GLUONOPS_OUTLINE Floats load(const Half *from, FullMask = {})
{
    Floats v;
    for (int lane = 0; lane < WIDTH / 4; ++lane)
        v[lane] = widen(from[lane]);
    return v;
}
GLUONOPS_OUTLINE void store(Half *to, Floats v, FullMask = {})
{
    for (int lane = 0; lane < WIDTH / 4; ++lane)
        to[lane] = narrow(v[lane]);
}
#endif

// The first lanes of a vector; the others are `fill`, or 0.
template <typename T>
GLUONOPS_OUTLINE typename Simd<T>::Vector load(const T *from, PartialMask mask, typename Simd<T>::Scalar fill)
{
    enum { LANES = Simd<T>::LANES };
    T buffer[LANES] = {};
    memcpy(buffer, from, size_t(mask.lanes) * sizeof(T));
    typename Simd<T>::Vector v = load(buffer);
    for (int lane = 0; lane < LANES; ++lane)
        v[lane] = lane < mask.lanes ? v[lane] : fill;
    return v;
}

template <typename T>
GLUONOPS_OUTLINE void store(T *to, typename Simd<T>::Vector v, PartialMask mask)
{
    T buffer[Simd<T>::LANES];
    store(buffer, v);
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

template <typename T>
GLUONOPS_INLINE typename Simd<T>::Vector load(const T *from, PartialMask mask) { return load(from, mask, 0); }

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
GLUONOPS_INLINE void streaming_store(float *to, Floats v) { store(to, v); }
#endif

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

// Returns all lanes combined: one half with the other, then the quarters of what is left, and so on.
template <typename V, typename Combine>
GLUONOPS_INLINE auto fold_lanes(V v, const Combine &combine)
{
    typedef std::decay_t<decltype(v[0])> T;
    for (int step = Simd<T>::LANES / 2; step; step /= 2)
        v = combine(v, __builtin_shuffle(v, lane_numbers<T>() + step));
    return T(v[0]);
}

template <typename V>
GLUONOPS_INLINE auto reduce_max(V v)
{
    return fold_lanes(v, [](V a, V b) GLUONOPS_LAMBDA { return maximum(a, b); });
}

template <typename V>
GLUONOPS_INLINE auto reduce_sum(V v)
{
    return fold_lanes(v, [](V a, V b) GLUONOPS_LAMBDA { return a + b; });
}

template <typename A> GLUONOPS_INLINE A not_a_number() { return A(__builtin_nanf("")); }
template <typename A> GLUONOPS_INLINE A infinity() { return A(__builtin_inff()); }

// Returns the lowest finite number: unlike -infinity it can be subtracted from itself.
template <typename A> GLUONOPS_INLINE A lowest();
template <> GLUONOPS_INLINE float lowest<float>() { return -__FLT_MAX__; }
template <> GLUONOPS_INLINE double lowest<double>() { return -__DBL_MAX__; }

#if defined(__F16C__)
GLUONOPS_INLINE float load_scalar(const Half *from) { return _cvtsh_ss(from->bits); }
GLUONOPS_INLINE void store_scalar(Half *to, float x) { to->bits = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
GLUONOPS_INLINE float load_scalar(const Half *from) { return widen(*from); }
GLUONOPS_INLINE void store_scalar(Half *to, float x) { *to = narrow(x); }
#endif
GLUONOPS_INLINE float load_scalar(const float *from) { return *from; }
GLUONOPS_INLINE double load_scalar(const double *from) { return *from; }
GLUONOPS_INLINE void store_scalar(float *to, float x) { *to = x; }
GLUONOPS_INLINE void store_scalar(double *to, double x) { *to = x; }

// Number `i` of a tensor, as CUDA loads it, for the texts that both share.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Scalar load(const T *from, int64_t i) { return load_scalar(from + i); }

// A store of a whole vector, perhaps a streaming one. Kernels have these in float32 alone.
GLUONOPS_INLINE void store(float *to, Floats v, bool streaming)
{
    if (streaming)
        streaming_store(to, v);
    else
        store(to, v);
}
template <typename T>
GLUONOPS_INLINE void store(T *to, typename Simd<T>::Vector v, bool) { store(to, v); }

// Calls visit(i, mask) for so many numbers, a vector at a time, which begins at number i.
template <typename T, typename Visit>
GLUONOPS_INLINE void for_each_vector(int64_t numbers, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t i = 0;
    for (; i + N <= numbers; i += N)
        visit(i, FullMask());
    if (i < numbers)
        visit(i, PartialMask{numbers - i});
}

// Writes to[0 .. items). compute(i, mask) gives the values of the elements from i on; mask is FullMask or PartialMask.
template <typename T, typename Compute>
GLUONOPS_INLINE void write_row(T *to, int64_t items, bool streaming, const Compute &compute)
{
    enum { LANES = Simd<T>::LANES };
    int64_t i = 0;
    if (HAS_STREAMING_STORES && streaming) {   // up to an aligned address
        const int64_t misaligned = int64_t(reinterpret_cast<uintptr_t>(to) % (LANES * sizeof(T)) / sizeof(T));
        i = misaligned ? LANES - misaligned : 0;
        i = i < items ? i : items;
        if (i)
            store(to, compute(int64_t(0), PartialMask{i}), PartialMask{i});
    }
    for (; i + LANES <= items; i += LANES)
        store(to + i, compute(i, FullMask()), streaming);
    if (i < items)
        store(to + i, compute(i, PartialMask{items - i}), PartialMask{items - i});
}

}  // namespace gluonops::GLUONOPS_ISA
