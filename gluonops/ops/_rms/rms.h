// Rows of a (outer, length, inner) tensor, divided by the root of the sum of their squares times `share`, plus eps, and
// scaled, in C++. Bytes moved: forward twice the tensor's, backward three times; what is read again is in the cache.
//
// The gradient of the scale is first summed over blocks of rows, then over the blocks. Which rows a block has follows
// from the sizes alone, so the result does not depend on the number of threads. A block has no more rows, or no more
// columns, than float32 sums well.
#pragma once

#include "../../native/simd/rows.h"

namespace gluonops::GLUONOPS_ISA {

template <template <typename> class Args, typename T>
GLUONOPS_INLINE RowSizes row_sizes(const Args<T> &args) { return {args.batch, args.channels, args.inner}; }

template <template <typename> class Args, typename T, typename A>
GLUONOPS_INLINE A rstd_of(const Args<T> &args, A squares)
{
    return 1 / square_root(squares * args.share + A(args.eps));
}

template <template <typename> class Args, typename T>
inline void rms_rows(const Args<T> &args, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    parallel_rows(row_sizes(args), 2 * sizeof(T), [=](int64_t row) {
        const int64_t length = args.channels;
        const T *x = args.data + row * length, *scale = args.scale;
        const A squares = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto values = load(x + i, mask);
            return values * values;
        });
        const A rstd = rstd_of(args, squares);
        args.rstd[row] = rstd;
        write_row(args.output + row * length, length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(x + i, mask) * rstd * load(scale + i, mask);
        });
    });
}

template <template <typename> class Args, typename T>
inline void rms_columns(const Args<T> &args, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    parallel_column_blocks<T>(row_sizes(args), 2 * sizeof(T), [=](int64_t start, int64_t first_row, int64_t columns) {
        ColumnSums<T> buffer;
        ColumnSums<T> *squares = &buffer;
        for (int64_t c = 0; c < args.channels; ++c) {
            const T *x = args.data + start + c * args.inner;
            for_each_vector<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto values = load(x + j, mask);
                squares->add(j, values * values);
            });
            squares->end_line();
        }
        A *rstd = squares->result();
        for (int64_t j = 0; j < columns; ++j) {
            rstd[j] = rstd_of(args, rstd[j]);
            args.rstd[first_row + j] = rstd[j];
        }
        for (int64_t c = 0; c < args.channels; ++c) {
            const int64_t offset = start + c * args.inner;
            const T *x = args.data + offset;
            const A factor = load_scalar(args.scale + c);
            write_row(args.output + offset, columns, streaming, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return load(x + j, mask) * load(rstd + j, mask) * factor;
            });
        }
    });
}

template <template <typename> class Args, typename T>
inline void rms_forward(const Args<T> &args)
{
    const bool streaming = use_streaming_stores<T>(row_sizes(args));
    args.inner == 1 ? rms_rows(args, streaming) : rms_columns(args, streaming);
}

template <template <typename> class Args, typename T>
inline void rms_rows_backward(const Args<T> &args, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t outer = args.batch, length = args.channels, blocks = args.blocks;
    parallel_for_each(blocks, 3 * int64_t(sizeof(T)) * length * (outer / blocks), [=](int64_t block) {
        A *sums = args.partial + block * length;
        for (int64_t row = block * outer / blocks; row < (block + 1) * outer / blocks; ++row) {
            const T *x = args.data + row * length, *grad_out = args.output_grad + row * length, *scale = args.scale;
            const A rstd = args.rstd[row];
            const A dot = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return load(grad_out + i, mask) * load(scale + i, mask) * load(x + i, mask);
            });
            const A factor = dot * rstd * rstd * args.share;
            write_row(args.data_grad + row * length, length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto grad = load(grad_out + i, mask), values = load(x + i, mask);
                store(sums + i, load(sums + i, mask) + grad * values * rstd, mask);
                return (grad * load(scale + i, mask) - values * factor) * rstd;
            });
        }
    });
}

// It takes a block of neighbouring columns from the tensor's element `start` on, and adds their sums to `sums`.
template <template <typename> class Args, typename T>
inline void rms_block_backward(const Args<T> &args, int64_t start, int64_t columns, const typename Args<T>::A *rstd,
                               typename Args<T>::A *sums, bool streaming)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const A share = args.share;
    ColumnSums<T> buffer;
    ColumnSums<T> *dots = &buffer;
    for (int64_t c = 0; c < args.channels; ++c) {
        const T *x = args.data + start + c * args.inner, *grad_out = args.output_grad + start + c * args.inner;
        const A factor = load_scalar(args.scale + c);
        V sum = broadcast(A(0));
        V *channel = &sum;
        for_each_vector<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V product = load(x + j, mask) * load(grad_out + j, mask);
            dots->add(j, product * factor);
            *channel += product * load(rstd + j, mask);
        });
        sums[c] += reduce_sum(sum);
        dots->end_line();
    }
    A *dot = dots->result();
    for_each_vector<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
        const V factor = load(rstd + j, mask);
        store(dot + j, load(dot + j) * factor * factor * share);
    });
    for (int64_t c = 0; c < args.channels; ++c) {
        const int64_t offset = start + c * args.inner;
        const T *x = args.data + offset, *grad_out = args.output_grad + offset;
        const A factor = load_scalar(args.scale + c);
        write_row(args.data_grad + offset, columns, streaming, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V shift = load(x + j, mask) * load(dot + j, mask);
            return (load(grad_out + j, mask) * factor - shift) * load(rstd + j, mask);
        });
    }
}

template <template <typename> class Args, typename T>
inline void rms_columns_backward(const Args<T> &args, bool streaming)
{
    const RowSizes sizes = row_sizes(args);
    const int64_t most_columns = block_columns<T>(sizes), of_sample = sizes.length * sizes.inner;
    const int64_t blocks_of_sample = args.blocks / sizes.outer, of_block = of_sample / blocks_of_sample;
    parallel_for_each(args.blocks, 3 * of_block * int64_t(sizeof(T)), [=](int64_t block) {
        const int64_t sample = block / blocks_of_sample, first = block % blocks_of_sample * BLOCK_COLUMNS;
        const int64_t end = first + BLOCK_COLUMNS < sizes.inner ? first + BLOCK_COLUMNS : sizes.inner;
        for (int64_t column = first; column < end; column += most_columns) {
            const int64_t rest = end - column, columns = rest < most_columns ? rest : most_columns;
            rms_block_backward(args, sample * of_sample + column, columns, args.rstd + sample * sizes.inner + column,
                               args.partial + block * sizes.length, streaming);
        }
    });
}

// Computes the gradient of the data in rows of a single element. The difference in it would cancel: 1 - (x rstd)^2 is
// eps rstd^2.
template <template <typename> class Args, typename T>
inline void rms_single_gradient(const Args<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const A scale = load_scalar(args.scale), eps = A(args.eps);
    write_row(args.data_grad, row_sizes(args).rows(), false, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        const auto rstd = load(args.rstd + i, mask);
        return load(args.output_grad + i, mask) * scale * (eps * rstd * rstd * rstd);
    });
}

// Adds up the sums of all blocks.
template <template <typename> class Args, typename T>
inline void rms_scale_gradient(const Args<T> &args)
{
    write_row(args.scale_grad, args.channels, false, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        typename Simd<T>::Vector sum[1];
        sum_in_blocks(args.blocks, sum, [=](int64_t begin, int64_t end, auto &sum) GLUONOPS_LAMBDA {
            for (int64_t block = begin; block < end; ++block)
                sum[0] += load(args.partial + block * args.channels + i, mask);
        });
        return sum[0];
    });
}

template <template <typename> class Args, typename T>
inline void rms_backward(const Args<T> &args)
{
    const RowSizes sizes = row_sizes(args);
    const bool streaming = use_streaming_stores<T>(sizes);
    if (!sizes.empty())
        sizes.inner == 1 ? rms_rows_backward(args, streaming) : rms_columns_backward(args, streaming);
    if (sizes.length == 1)
        rms_single_gradient(args);
    rms_scale_gradient(args);
}

}  // namespace gluonops::GLUONOPS_ISA
