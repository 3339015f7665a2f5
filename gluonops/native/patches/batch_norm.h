// Batch norm in training, over tensors in plain order or in oneDNN's blocked one.
//
// Sums are taken over pieces of a fixed size in single precision, and over the pieces in double. So the results are the
// same for any number of threads, whichever thread computes a piece.
#ifndef GLUONOPS_NATIVE_BATCH_NORM_H_
#define GLUONOPS_NATIVE_BATCH_NORM_H_

#include <stdint.h>

#include "../parallel.h"
#include "../simd/math.h"
#include "../target.h"

namespace gluonops {

// How a tensor of images x planes x positions lies in memory. Blocked, `lanes` planes are neighbours: the order is
// (image, block of planes, position, lane). In plain order, `lanes` is 1.
struct Planes {
    int64_t images, planes, positions, lanes;
};

// `weights` and `offsets` are those of the planes; a null pointer stands for weights of 1. The results are the output,
// and the average and 1 / deviation of every plane.
struct NormForward {
    Planes size;
    const float *data, *weights, *offsets;
    double epsilon;
    float *output, *averages, *deviations;
};

// `gradient` is that of the output. The results are the gradients of the data, the weights and the offsets.
struct NormBackward {
    Planes size;
    const float *gradient, *data, *weights, *averages, *deviations;
    float *data_gradient, *weight_gradient, *offset_gradient;
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

void norm_forward(const NormForward &call);
void norm_backward(const NormBackward &call);

// Copies a tensor in plain order into the blocked order of `size`.
void copy_to_blocks(const Planes &size, const float *plain, float *blocked);

namespace GLUONOPS_TARGET {

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

    int64_t pieces() const { return image_ranges * position_ranges; }   // of a block
    int64_t items() const { return blocks * pieces(); }
};

// Some positions of some images, all of one block of planes. Places are in numbers.
struct Piece {
    int64_t block;
    int64_t images, image_step;
    int64_t begin, length;   // within the first image
    double count;            // of each plane's numbers
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

    static GLUONOPS_INLINE Vector load(const float *from, FullMask, float = 0)
    {
        Vector v;
        memcpy(&v, from, sizeof v);
        return v;
    }
    static GLUONOPS_INLINE void store(float *to, Vector v, FullMask) { memcpy(to, &v, sizeof v); }

    static GLUONOPS_INLINE Vector of_planes(const float *values) { return load(values, FullMask()); }
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
        return GLUONOPS_TARGET::load(from, mask, fill);
    }
    template <typename Mask>
    static GLUONOPS_INLINE void store(float *to, Vector v, Mask mask) { GLUONOPS_TARGET::store(to, v, mask); }

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
GLUONOPS_INLINE void for_each_vector(const Piece &piece, const Body &body)
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
    parallel_for(items, numbers / items * streams * int64_t(sizeof(float)), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item)
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

// The average of a piece, and the sum of the squares of the differences from it. The differences are taken from the
// average in single precision, and corrected by their own average.
template <typename Order>
GLUONOPS_INLINE void measure(const NormForward &call, const Piece &piece)
{
    typedef typename Order::Vector Vector;
    enum { PLANES = Order::PLANES };
    double added[PLANES], differences_added[PLANES], squares_added[PLANES];
    float average[PLANES];

    Vector sums[4] = {};
    for_each_vector<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
        sums[way] += Order::load(call.data + at, mask);
    });
    Order::sum_of_planes(add_four(sums), added);
    for (int plane = 0; plane < PLANES; ++plane)
        average[plane] = float(added[plane] / piece.count);

    const Vector origin = Order::of_planes(average);
    Vector differences[4] = {}, squares[4] = {};
    for_each_vector<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
        const Vector difference = Order::load(call.data + at, mask, average[0]) - origin;
        differences[way] += difference;
        squares[way] += difference * difference;
    });
    Order::sum_of_planes(add_four(differences), differences_added);
    Order::sum_of_planes(add_four(squares), squares_added);
    for (int plane = 0; plane < PLANES; ++plane) {
        const double correction = differences_added[plane] / piece.count;
        piece.sums[plane] = average[plane] + correction;
        piece.sums[PLANES + plane] = squares_added[plane] - differences_added[plane] * correction;
    }
}

// The factors of a plane in the forward pass: output = (data - origin) * slope + shift.
struct ForwardFactors {
    float *origin, *slope, *shift;

    ForwardFactors(const NormMemory &memory, int64_t planes)
        : origin(memory.factors), slope(origin + planes), shift(slope + planes) {}
};

template <typename Order>
inline void finish(const NormForward &call, const Cut &cut, const NormMemory &memory, int64_t block)
{
    enum { PLANES = Order::PLANES };
    const ForwardFactors factors(memory, call.size.planes);
    const double count = double(call.size.images * call.size.positions);
    double averages[PLANES] = {}, squares[PLANES] = {};
    for_each_sum(call.size, cut, memory, block, [&](const double *sums, double weight) GLUONOPS_LAMBDA {
        for (int plane = 0; plane < PLANES; ++plane)
            averages[plane] += sums[plane] * (weight / count);
    });
    for_each_sum(call.size, cut, memory, block, [&](const double *sums, double weight) GLUONOPS_LAMBDA {
        for (int plane = 0; plane < PLANES; ++plane) {
            const double difference = sums[plane] - averages[plane];
            squares[plane] += sums[PLANES + plane] + weight * difference * difference;
        }
    });
    for (int lane = 0; lane < PLANES; ++lane) {
        const int64_t plane = block * PLANES + lane;
        const double deviation = 1 / square_root(squares[lane] / count + call.epsilon);
        const double slope = call.weights ? deviation * double(call.weights[plane]) : deviation;
        const float origin = float(averages[lane]);
        call.averages[plane] = origin;
        call.deviations[plane] = float(deviation);
        factors.origin[plane] = origin;
        factors.slope[plane] = float(slope);
        factors.shift[plane] = float(double(call.offsets[plane]) + (double(origin) - averages[lane]) * slope);
    }
}

template <typename Order>
GLUONOPS_INLINE void write_output(const NormForward &call, const Piece &piece, const ForwardFactors &factors)
{
    typedef typename Order::Vector Vector;
    const int64_t plane = piece.block * Order::PLANES;
    const Vector origin = Order::of_planes(factors.origin + plane), slope = Order::of_planes(factors.slope + plane);
    const Vector shift = Order::of_planes(factors.shift + plane);
    for_each_vector<Order>(piece, [&](int64_t at, auto mask, int) GLUONOPS_LAMBDA {
        Order::store(call.output + at, (Order::load(call.data + at, mask) - origin) * slope + shift, mask);
    });
}

template <typename Order>
void forward(const NormForward &call, const NormMemory &memory)
{
    const Cut cut(call.size);
    const ForwardFactors factors(memory, call.size.planes);
    for_each_piece(call.size, cut, memory, 1, false, [&](const Piece &piece) { measure<Order>(call, piece); });
    parallel_for(cut.blocks, cut.pieces() * SUMS * call.size.lanes * int64_t(sizeof(double)),
                 [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block)
            finish<Order>(call, cut, memory, block);
    });
    for_each_piece(call.size, cut, memory, 2, true, [&](const Piece &piece) {
        write_output<Order>(call, piece, factors);
    });
}

// The sums of the gradient, and of its products with the differences of the data from the average.
template <typename Order>
GLUONOPS_INLINE void measure(const NormBackward &call, const Piece &piece)
{
    typedef typename Order::Vector Vector;
    const Vector origin = Order::of_planes(call.averages + piece.block * Order::PLANES);
    Vector slopes[4] = {}, products[4] = {};
    for_each_vector<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
        const Vector slope = Order::load(call.gradient + at, mask);
        slopes[way] += slope;
        products[way] += slope * (Order::load(call.data + at, mask) - origin);
    });
    Order::sum_of_planes(add_four(slopes), piece.sums);
    Order::sum_of_planes(add_four(products), piece.sums + Order::PLANES);
}

// The factors of a plane in the backward pass: (gradient - shift - (data - origin) * slope) * factor.
struct BackwardFactors {
    float *shift, *slope, *factor;

    BackwardFactors(const NormMemory &memory, int64_t planes)
        : shift(memory.factors), slope(shift + planes), factor(slope + planes) {}
};

template <typename Order>
inline void finish(const NormBackward &call, const Cut &cut, const NormMemory &memory, int64_t block)
{
    enum { PLANES = Order::PLANES };
    const BackwardFactors factors(memory, call.size.planes);
    const double count = double(call.size.images * call.size.positions);
    double slopes[PLANES] = {}, products[PLANES] = {};
    for_each_sum(call.size, cut, memory, block, [&](const double *sums, double) GLUONOPS_LAMBDA {
        for (int plane = 0; plane < PLANES; ++plane) {
            slopes[plane] += sums[plane];
            products[plane] += sums[PLANES + plane];
        }
    });
    for (int lane = 0; lane < PLANES; ++lane) {
        const int64_t plane = block * PLANES + lane;
        const double deviation = double(call.deviations[plane]);
        call.offset_gradient[plane] = float(slopes[lane]);
        call.weight_gradient[plane] = float(products[lane] * deviation);
        factors.shift[plane] = float(slopes[lane] / count);
        factors.slope[plane] = float(products[lane] * deviation * deviation / count);
        factors.factor[plane] = float(call.weights ? deviation * double(call.weights[plane]) : deviation);
    }
}

template <typename Order>
GLUONOPS_INLINE void write_gradient(const NormBackward &call, const Piece &piece, const BackwardFactors &factors)
{
    typedef typename Order::Vector Vector;
    const int64_t plane = piece.block * Order::PLANES;
    const Vector origin = Order::of_planes(call.averages + plane), shift = Order::of_planes(factors.shift + plane);
    const Vector slope = Order::of_planes(factors.slope + plane), factor = Order::of_planes(factors.factor + plane);
    for_each_vector<Order>(piece, [&](int64_t at, auto mask, int) GLUONOPS_LAMBDA {
        const Vector gradient = Order::load(call.gradient + at, mask), data = Order::load(call.data + at, mask);
        Order::store(call.data_gradient + at, (gradient - shift - (data - origin) * slope) * factor, mask);
    });
}

template <typename Order>
void backward(const NormBackward &call, const NormMemory &memory)
{
    const Cut cut(call.size);
    const BackwardFactors factors(memory, call.size.planes);
    for_each_piece(call.size, cut, memory, 2, false, [&](const Piece &piece) { measure<Order>(call, piece); });
    parallel_for(cut.blocks, cut.pieces() * SUMS * call.size.lanes * int64_t(sizeof(double)),
                 [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block)
            finish<Order>(call, cut, memory, block);
    });
    for_each_piece(call.size, cut, memory, 3, true, [&](const Piece &piece) {
        write_gradient<Order>(call, piece, factors);
    });
}

inline void run(const NormForward &call, const NormMemory &memory)
{
    switch (call.size.lanes) {
    case 16: return forward<Blocked<Sixteen>>(call, memory);
    case 8: return forward<Blocked<Eight>>(call, memory);
    default: return forward<Plain>(call, memory);
    }
}

inline void run(const NormBackward &call, const NormMemory &memory)
{
    switch (call.size.lanes) {
    case 16: return backward<Blocked<Sixteen>>(call, memory);
    case 8: return backward<Blocked<Eight>>(call, memory);
    default: return backward<Plain>(call, memory);
    }
}

template <int LANES>
inline void to_blocks(const Planes &size, const float *plain, float *blocked)
{
    const int64_t numbers = size.positions * LANES;   // of a block, which are the same ones in both orders
    const int64_t blocks = size.images * size.planes / LANES;
    parallel_for(blocks, 2 * numbers * int64_t(sizeof(float)), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
            const float *const from = plain + block * numbers;
            float *const to = blocked + block * numbers;
            for (int64_t position = 0; position < size.positions; ++position)
                for (int lane = 0; lane < LANES; ++lane)
                    to[position * LANES + lane] = from[lane * size.positions + position];
        }
    });
}

inline void to_blocks(const Planes &size, const float *plain, float *blocked)
{
    if (size.lanes == 16)
        to_blocks<16>(size, plain, blocked);
    else
        to_blocks<8>(size, plain, blocked);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_BATCH_NORM_H_
