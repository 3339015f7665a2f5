// Squares of numbers in vectors, which are transposed: neighbours in memory become neighbours among vectors.
#ifndef GLUONOPS_NATIVE_SQUARES_H_
#define GLUONOPS_NATIVE_SQUARES_H_

#include <utility>

#include "vectors.h"

namespace gluonops {
namespace GLUONOPS_TARGET {

// The pieces of 16 bytes that make up a vector, `step` bytes apart in memory.
#if defined(__AVX512F__)
GLUONOPS_INLINE __m128 load_piece(const char *from) { return _mm_loadu_ps(reinterpret_cast<const float *>(from)); }
GLUONOPS_INLINE Floats load_pieces(const char *from, int64_t step)
{
    __m512 v = _mm512_castps128_ps512(load_piece(from));
    v = _mm512_insertf32x4(v, load_piece(from + step), 1);
    v = _mm512_insertf32x4(v, load_piece(from + 2 * step), 2);
    return Floats(_mm512_insertf32x4(v, load_piece(from + 3 * step), 3));
}
GLUONOPS_INLINE void store_piece(char *to, __m128 piece) { _mm_storeu_ps(reinterpret_cast<float *>(to), piece); }
GLUONOPS_INLINE void store_pieces(char *to, Floats v, int64_t step)
{
    store_piece(to, _mm512_castps512_ps128(__m512(v)));
    store_piece(to + step, _mm512_extractf32x4_ps(__m512(v), 1));
    store_piece(to + 2 * step, _mm512_extractf32x4_ps(__m512(v), 2));
    store_piece(to + 3 * step, _mm512_extractf32x4_ps(__m512(v), 3));
}
#elif defined(__AVX2__)
GLUONOPS_INLINE Floats load_pieces(const char *from, int64_t step)
{
    return Floats(_mm256_loadu2_m128(reinterpret_cast<const float *>(from + step), reinterpret_cast<const float *>(from)));
}
GLUONOPS_INLINE void store_pieces(char *to, Floats v, int64_t step)
{
    _mm256_storeu2_m128(reinterpret_cast<float *>(to + step), reinterpret_cast<float *>(to), __m256(v));
}
#else
GLUONOPS_INLINE Floats load_pieces(const char *from, int64_t)
{
    Floats v;
    memcpy(&v, from, WIDTH);
    return v;
}
GLUONOPS_INLINE void store_pieces(char *to, Floats v, int64_t) { memcpy(to, &v, WIDTH); }
#endif

// Squares of numbers side by side, as many as vectors have 16 bytes. The side of a square fills 16 bytes.
template <typename Word>
struct Squares {
    enum { SIDE = 16 / int(sizeof(Word)), NUMBERS = WIDTH / int(sizeof(Word)) };
    typedef Word Vector __attribute__((vector_size(WIDTH)));
    Vector vectors[SIDE];

    // Numbers of two vectors in turn, within each square: their first halves, or their second halves.
    template <int... I>
    static GLUONOPS_INLINE Vector in_turn(Vector a, Vector b, int half, std::integer_sequence<int, I...>)
    {
        const Vector first = {Word(I / SIDE * SIDE + I % SIDE / 2 + I % 2 * NUMBERS)...};
        const Vector second = {Word(I / SIDE * SIDE + I % SIDE / 2 + I % 2 * NUMBERS + SIDE / 2)...};
        return __builtin_shuffle(a, b, half ? second : first);
    }

    // Each round shuffles the bits of a number's place by one; after all rounds row and column have changed places.
    GLUONOPS_INLINE void transpose()
    {
        const std::make_integer_sequence<int, NUMBERS> numbers;
        for (int round = 1; round < SIDE; round *= 2) {
            const Squares before = *this;
            for (int i = 0; i < SIDE; ++i)
                vectors[i] = in_turn(before.vectors[i / 2], before.vectors[i / 2 + SIDE / 2], i % 2, numbers);
        }
    }
};

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_SQUARES_H_
