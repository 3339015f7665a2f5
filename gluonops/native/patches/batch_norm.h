// Batch norm in training, over tensors in plain order or in oneDNN's blocked one.
//
// Sums are taken over pieces of a fixed size in single precision, and over the pieces in double. So the results are the
// same for any number of threads, whichever thread computes a piece.
#pragma once

#include <stdint.h>

#include "../simd/math.h"
#include "planes.h"

namespace gluonops {

// `weights` and `offsets` are those of the planes; a null pointer stands for weights of 1. The results are the output,
// and the average and the rstd, 1 / deviation, of every plane.
struct NormForward {
    enum { READ = 1 };   // tensors
    Planes size;
    const float *data, *weights, *offsets;
    double epsilon;
    float *output, *averages, *rstds;
};

// `gradient` is that of the output. The results are the gradients of the data, the weights and the offsets.
struct NormBackward {
    enum { READ = 2 };
    Planes size;
    const float *gradient, *data, *weights, *averages, *rstds;
    float *data_gradient, *weight_gradient, *offset_gradient;
};

void norm_forward(const NormForward &call);
void norm_backward(const NormBackward &call);

// Copies a tensor in plain order into the blocked order of `size`.
void copy_to_blocks(const Planes &size, const float *plain, float *blocked);

namespace GLUONOPS_ISA {

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
    for_each_vector_of_piece<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
        sums[way] += Order::load(call.data + at, mask);
    });
    Order::sum_of_planes(add_four(sums), added);
    for (int plane = 0; plane < PLANES; ++plane)
        average[plane] = float(added[plane] / piece.count);

    const Vector origin = Order::of_planes(average);
    Vector differences[4] = {}, squares[4] = {};
    for_each_vector_of_piece<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
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

// The factors of the planes: forward is (data - origin) * slope + shift, and backward
// (gradient - shift - (data - origin) * slope) * factor.
struct Factors {
    float *origin, *slope, *shift, *factor;

    Factors(const NormMemory &memory, int64_t planes)
        : origin(memory.factors), slope(origin + planes), shift(slope + planes), factor(shift + planes) {}
};

template <typename Order>
inline void finish(const NormForward &call, const Cut &cut, const NormMemory &memory, int64_t block)
{
    enum { PLANES = Order::PLANES };
    const Factors factors(memory, call.size.planes);
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
        const double rstd = 1 / square_root(squares[lane] / count + call.epsilon);
        const double slope = call.weights ? rstd * double(call.weights[plane]) : rstd;
        const float origin = float(averages[lane]);
        call.averages[plane] = origin;
        call.rstds[plane] = float(rstd);
        factors.origin[plane] = origin;
        factors.slope[plane] = float(slope);
        factors.shift[plane] = float(double(call.offsets[plane]) + (double(origin) - averages[lane]) * slope);
    }
}

template <typename Order>
GLUONOPS_INLINE void write_result(const NormForward &call, const NormMemory &memory, const Piece &piece)
{
    typedef typename Order::Vector Vector;
    const Factors factors(memory, call.size.planes);
    const int64_t plane = piece.block * Order::PLANES;
    const Vector origin = Order::of_planes(factors.origin + plane), slope = Order::of_planes(factors.slope + plane);
    const Vector shift = Order::of_planes(factors.shift + plane);
    for_each_vector_of_piece<Order>(piece, [&](int64_t at, auto mask, int) GLUONOPS_LAMBDA {
        Order::store(call.output + at, (Order::load(call.data + at, mask) - origin) * slope + shift, mask);
    });
}

// The sums of the gradient, and of its products with the differences of the data from the average.
template <typename Order>
GLUONOPS_INLINE void measure(const NormBackward &call, const Piece &piece)
{
    typedef typename Order::Vector Vector;
    const Vector origin = Order::of_planes(call.averages + piece.block * Order::PLANES);
    Vector slopes[4] = {}, products[4] = {};
    for_each_vector_of_piece<Order>(piece, [&](int64_t at, auto mask, int way) GLUONOPS_LAMBDA {
        const Vector slope = Order::load(call.gradient + at, mask);
        slopes[way] += slope;
        products[way] += slope * (Order::load(call.data + at, mask) - origin);
    });
    Order::sum_of_planes(add_four(slopes), piece.sums);
    Order::sum_of_planes(add_four(products), piece.sums + Order::PLANES);
}

template <typename Order>
inline void finish(const NormBackward &call, const Cut &cut, const NormMemory &memory, int64_t block)
{
    enum { PLANES = Order::PLANES };
    const Factors factors(memory, call.size.planes);
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
        const double rstd = double(call.rstds[plane]);
        call.offset_gradient[plane] = float(slopes[lane]);
        call.weight_gradient[plane] = float(products[lane] * rstd);
        factors.shift[plane] = float(slopes[lane] / count);
        factors.slope[plane] = float(products[lane] * rstd * rstd / count);
        factors.factor[plane] = float(call.weights ? rstd * double(call.weights[plane]) : rstd);
    }
}

template <typename Order>
GLUONOPS_INLINE void write_result(const NormBackward &call, const NormMemory &memory, const Piece &piece)
{
    typedef typename Order::Vector Vector;
    const Factors factors(memory, call.size.planes);
    const int64_t plane = piece.block * Order::PLANES;
    const Vector origin = Order::of_planes(call.averages + plane), shift = Order::of_planes(factors.shift + plane);
    const Vector slope = Order::of_planes(factors.slope + plane), factor = Order::of_planes(factors.factor + plane);
    for_each_vector_of_piece<Order>(piece, [&](int64_t at, auto mask, int) GLUONOPS_LAMBDA {
        const Vector gradient = Order::load(call.gradient + at, mask), data = Order::load(call.data + at, mask);
        Order::store(call.data_gradient + at, (gradient - shift - (data - origin) * slope) * factor, mask);
    });
}

// The pieces are measured, then the sums of each block of planes are finished, and then the results are written.
template <typename Order, typename Pass>
void compute(const Pass &call, const NormMemory &memory)
{
    const Cut cut(call.size);
    for_each_piece(call.size, cut, memory, Pass::READ, false, [&](const Piece &piece) { measure<Order>(call, piece); });
    parallel_for_each(cut.blocks, cut.pieces() * SUMS * call.size.lanes * int64_t(sizeof(double)), [&](int64_t block) {
        finish<Order>(call, cut, memory, block);
    });
    for_each_piece(call.size, cut, memory, Pass::READ + 1, true, [&](const Piece &piece) {
        write_result<Order>(call, memory, piece);
    });
}

template <typename Pass>
void run(const Pass &call, const NormMemory &memory)
{
    switch (call.size.lanes) {
    case 16: return compute<Blocked<Sixteen>>(call, memory);
    case 8: return compute<Blocked<Eight>>(call, memory);
    default: return compute<Plain>(call, memory);
    }
}

template <int LANES>
inline void to_blocks(const Planes &size, const float *plain, float *blocked)
{
    const int64_t numbers = size.positions * LANES;   // A block has so many, the same ones in both orders.
    const int64_t blocks = size.images * size.planes / LANES;
    parallel_for_each(blocks, 2 * numbers * int64_t(sizeof(float)), [&](int64_t block) {
        const float *const from = plain + block * numbers;
        float *const to = blocked + block * numbers;
        for (int64_t position = 0; position < size.positions; ++position)
            for (int lane = 0; lane < LANES; ++lane)
                to[position * LANES + lane] = from[lane * size.positions + position];
    });
}

inline void to_blocks(const Planes &size, const float *plain, float *blocked)
{
    if (size.lanes == 16)
        to_blocks<16>(size, plain, blocked);
    else
        to_blocks<8>(size, plain, blocked);
}

}  // namespace GLUONOPS_ISA
}  // namespace gluonops
