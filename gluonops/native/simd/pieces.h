// Copies of short columns into a matrix, side by side, and back: see columns.h.
#pragma once

#include <utility>

#include "vectors.h"

namespace gluonops::GLUONOPS_ISA {

// The inner neighbours of one (outer, class) are a piece. How many bytes lie between the pieces of two neighbours along
// outer, and of two lines.
struct PieceSteps { int64_t outer, line; };

// Copies pieces of `bytes` bytes, for each of `outers` and a range of lines: the first PART bytes and the last ones,
// which may overlap.
template <int PART>
GLUONOPS_INLINE void copy_each_piece(char *to, PieceSteps to_step, const char *from, PieceSteps from_step,
                                     int64_t bytes, int64_t outers, int64_t first_line, int64_t end_line)
{
    for (int64_t outer = 0; outer < outers; ++outer)
        for (int64_t line = first_line; line < end_line; ++line) {
            char *destination = to + outer * to_step.outer + line * to_step.line;
            const char *source = from + outer * from_step.outer + line * from_step.line;
            memcpy(destination, source, PART);
            memcpy(destination + bytes - PART, source + bytes - PART, PART);
        }
}

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
    return Floats(_mm256_loadu2_m128(reinterpret_cast<const float *>(from + step),
                                     reinterpret_cast<const float *>(from)));
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

    // Each round shuffles the bits of a number's position by one; after all rounds row and column have changed places.
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

// Copies numbers of Squares whose neighbours along lines are neighbours in `from`, and along outer in `to`. The other
// neighbours are a step apart.
template <typename Word>
GLUONOPS_INLINE void pack_squares(char *to, int64_t line_step, const char *from, int64_t outer_step)
{
    typedef typename Squares<Word>::Vector Vector;
    Squares<Word> squares;
    for (int i = 0; i < Squares<Word>::SIDE; ++i)
        squares.vectors[i] = Vector(load_pieces(from + i * outer_step, Squares<Word>::SIDE * outer_step));
    squares.transpose();
    for (int i = 0; i < Squares<Word>::SIDE; ++i)
        memcpy(to + i * line_step, &squares.vectors[i], WIDTH);
}

// Copies back: neighbours along outer are neighbours in `from`, and neighbours along lines in `to`.
template <typename Word>
GLUONOPS_INLINE void unpack_squares(char *to, int64_t outer_step, const char *from, int64_t line_step)
{
    Squares<Word> squares;
    for (int i = 0; i < Squares<Word>::SIDE; ++i)
        memcpy(&squares.vectors[i], from + i * line_step, WIDTH);
    squares.transpose();
    for (int i = 0; i < Squares<Word>::SIDE; ++i)
        store_pieces(to + i * outer_step, Floats(squares.vectors[i]), Squares<Word>::SIDE * outer_step);
}

// Copies pieces of one number each, for each of `outers` and each of `lines`, by squares. The last squares overlap
// those before them.
template <typename Word>
void copy_numbers(char *to, PieceSteps to_step, const char *from, PieceSteps from_step, int64_t outers, int64_t lines)
{
    enum { SIDE = Squares<Word>::SIDE, NUMBERS = Squares<Word>::NUMBERS, BYTES = sizeof(Word) };
    if (outers < NUMBERS || lines < SIDE)
        return copy_each_piece<BYTES>(to, to_step, from, from_step, BYTES, outers, 0, lines);
    const bool packs = from_step.line == BYTES;   // else it unpacks
    for (int64_t i = 0; i < outers; i += NUMBERS)
        for (int64_t j = 0; j < lines; j += SIDE) {
            const int64_t outer = i + NUMBERS < outers ? i : outers - NUMBERS;
            const int64_t line = j + SIDE < lines ? j : lines - SIDE;
            char *destination = to + outer * to_step.outer + line * to_step.line;
            const char *source = from + outer * from_step.outer + line * from_step.line;
            if (packs)
                pack_squares<Word>(destination, to_step.line, source, from_step.outer);
            else
                unpack_squares<Word>(destination, to_step.outer, source, from_step.line);
        }
}

const int64_t LINES_AT_ONCE = 128;   // They stay in the first-level cache while all pieces are copied.

// Copies pieces of more than 4 bytes, for each of `outers` and each of `lines`.
template <int PART>
void copy_pieces(char *to, PieceSteps to_step, const char *from, PieceSteps from_step, int64_t bytes, int64_t outers,
                 int64_t lines)
{
    for (int64_t first = 0; first < lines; first += LINES_AT_ONCE) {
        const int64_t end = first + LINES_AT_ONCE < lines ? first + LINES_AT_ONCE : lines;
        copy_each_piece<PART>(to, to_step, from, from_step, bytes, outers, first, end);
    }
}

// Copies pieces of an even number of bytes, less than a vector of 64.
inline void copy_pieces(char *to, PieceSteps to_step, const char *from, PieceSteps from_step, int64_t bytes,
                        int64_t outers, int64_t lines)
{
    switch (bytes) {
    case 2: return copy_numbers<uint16_t>(to, to_step, from, from_step, outers, lines);
    case 4: return copy_numbers<uint32_t>(to, to_step, from, from_step, outers, lines);
    case 8: return copy_numbers<uint64_t>(to, to_step, from, from_step, outers, lines);
    }
    const auto copy = bytes < 8 ? copy_pieces<4> : bytes <= 16 ? copy_pieces<8> : bytes <= 32 ? copy_pieces<16>
                                                                                               : copy_pieces<32>;
    copy(to, to_step, from, from_step, bytes, outers, lines);
}

}  // namespace gluonops::GLUONOPS_ISA
