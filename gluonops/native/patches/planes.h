// A tensor of images, in plain order or in oneDNN's blocked one, cut into pieces. Batch norm sums over a piece in
// single precision, and over the pieces in double.
#pragma once

#include <stdint.h>

#include "../parallel.h"
#include "../simd/vectors.h"
#include "../isa.h"

namespace gluonops {

// How a tensor of images x planes x positions lies in memory. Blocked, `lanes` planes are neighbours: the order is
// (image, block of planes, position, lane). In plain order, `lanes` is 1.
struct Planes {
    int64_t images, planes, positions, lanes;
};

// What a pass leaves to the next one: two sums of every plane in every piece, and some factors of every plane.
struct NormMemory {
    double *sums;
    float *factors;
};

const int64_t SUMS = 2;
const int64_t FACTORS = 4;

// Numbers that a piece has at most. They stay in the first cache while they are read twice.
const int64_t LONGEST_PIECE = 4096;

namespace GLUONOPS_ISA {

// How each block of planes is cut into pieces: into ranges of images, and these into ranges of positions. Both follow
// from the size of the tensor alone.
struct Cut {
    int64_t blocks, image_ranges, position_ranges;

    explicit Cut(const Planes &size)
    {
        const int64_t numbers = size.positions * size.lanes;
        const int64_t images = numbers < LONGEST_PIECE ? LONGEST_PIECE / numbers : 1;
        blocks = size.planes / size.lanes;
        image_ranges = (size.images + images - 1) / images;
        position_ranges = (numbers + LONGEST_PIECE - 1) / LONGEST_PIECE;
    }

    int64_t pieces() const { return image_ranges * position_ranges; }   // A block has so many.
    int64_t items() const { return blocks * pieces(); }
};

// Some positions of some images, all of one block of planes. Positions are in numbers.
struct Piece {
    int64_t block;
    int64_t images, image_step;
    int64_t begin, length;   // within the first image
    double count;            // how many numbers a plane has
    double *sums;

    // The pieces that follow each other lie behind each other, except at the ends of the images.
    Piece(const Planes &size, const Cut &cut, const NormMemory &memory, int64_t item)
    {
        const int64_t position_range = item % cut.position_ranges;
        const int64_t image_range = item / cut.position_ranges / cut.blocks;
        const int64_t image = size.images * image_range / cut.image_ranges;
        const int64_t position = size.positions * position_range / cut.position_ranges;
        block = item / cut.position_ranges % cut.blocks;
        images = size.images * (image_range + 1) / cut.image_ranges - image;
        image_step = size.planes * size.positions;
        begin = image * image_step + (block * size.positions + position) * size.lanes;
        length = (size.positions * (position_range + 1) / cut.position_ranges - position) * size.lanes;
        count = double(images * (length / size.lanes));
        const int64_t number = image_range * cut.position_ranges + position_range;
        sums = memory.sums + (block * cut.pieces() + number) * SUMS * size.lanes;
    }
};

typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

// A vector of neighbouring planes at one position.
template <typename Vector_>
struct Blocked {
    typedef Vector_ Vector;
    enum { LANES = sizeof(Vector) / sizeof(float), PLANES = LANES, HAS_REST = 0 };

    static GLUONOPS_INLINE Vector load(const float *from, FullMask = {}, float = 0)
    {
        Vector v;
        memcpy(&v, from, sizeof v);
        return v;
    }
    static GLUONOPS_INLINE void store(float *to, Vector v, FullMask) { memcpy(to, &v, sizeof v); }

    static GLUONOPS_INLINE Vector of_planes(const float *values) { return load(values); }
    static GLUONOPS_INLINE void sum_of_planes(Vector v, double *sums)
    {
        for (int lane = 0; lane < LANES; ++lane)
            sums[lane] = double(v[lane]);
    }
};

// A vector of neighbouring positions of one plane.
struct Plain {
    enum { LANES = Simd<float>::LANES, PLANES = 1, HAS_REST = 1 };
    typedef Floats Vector;

    template <typename Mask>
    static GLUONOPS_INLINE Vector load(const float *from, Mask mask, float fill = 0)
    {
        return GLUONOPS_ISA::load(from, mask, fill);
    }
    template <typename Mask>
    static GLUONOPS_INLINE void store(float *to, Vector v, Mask mask) { GLUONOPS_ISA::store(to, v, mask); }

    static GLUONOPS_INLINE Vector of_planes(const float *values) { return broadcast(*values); }
    static GLUONOPS_INLINE void sum_of_planes(Vector v, double *sums)
    {
        *sums = 0;
        for (int lane = 0; lane < LANES; ++lane)
            *sums += double(v[lane]);
    }
};

// Calls body(at, mask, way) for all vectors of a piece. `way` says to which of four sums a vector goes.
template <typename Order, typename Body>
GLUONOPS_INLINE void for_each_vector_of_piece(const Piece &piece, const Body &body)
{
    enum { LANES = Order::LANES };
    for (int64_t image = 0; image < piece.images; ++image) {
        int64_t at = piece.begin + image * piece.image_step;
        const int64_t end = at + piece.length;
        for (; at + 4 * LANES <= end; at += 4 * LANES) {
            body(at, FullMask(), 0);
            body(at + LANES, FullMask(), 1);
            body(at + 2 * LANES, FullMask(), 2);
            body(at + 3 * LANES, FullMask(), 3);
        }
        for (; at + LANES <= end; at += LANES)
            body(at, FullMask(), 0);
        if constexpr (Order::HAS_REST)
            if (at < end)
                body(at, PartialMask{end - at}, 0);
    }
}

template <typename Vector>
GLUONOPS_INLINE Vector add_four(const Vector (&sums)[4])
{
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Calls body(piece) for all pieces, on several threads. The last pass over the data goes from its end to its begin: the
// caches still hold the end.
template <typename Body>
inline void for_each_piece(const Planes &size, const Cut &cut, const NormMemory &memory, int64_t streams, bool is_last,
                           const Body &body)
{
    const int64_t items = cut.items();
    const int64_t numbers = size.images * size.planes * size.positions;
    parallel_for_each(items, numbers / items * streams * int64_t(sizeof(float)), [&](int64_t item) {
        body(Piece(size, cut, memory, is_last ? items - 1 - item : item));
    });
}

// Calls body(sums, count) for the pieces of a block, in a fixed order.
template <typename Body>
GLUONOPS_INLINE void for_each_sum(const Planes &size, const Cut &cut, const NormMemory &memory, int64_t block,
                                  const Body &body)
{
    for (int64_t image_range = 0; image_range < cut.image_ranges; ++image_range)
        for (int64_t position_range = 0; position_range < cut.position_ranges; ++position_range) {
            const int64_t item = (image_range * cut.blocks + block) * cut.position_ranges + position_range;
            const Piece piece(size, cut, memory, item);
            body(piece.sums, piece.count);
        }
}

}  // namespace GLUONOPS_ISA
}  // namespace gluonops
