// dice_loss on the CPU. Bytes moved: forward the logits', backward twice these; what is read again is in the cache.
// The pixels of a sample are divided into blocks, whose sums are added in their order: the result does not depend on
// the number of threads.
#include "generated/dice_loss.h"
#include "../_softmax/softmax.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// Calls body(block, sample, first pixel, pixels, scratch) for every block, on several threads. The scratch memory is
// for a number for each logit of a block, or null.
template <typename T, typename Body>
void for_each_block(const DiceLossArgs<T> &args, int64_t bytes_per_element, const Body &body)
{
    const int64_t classes = args.classes, inner = args.inner, blocks = args.blocks, step = BLOCK_PIXELS;
    static_assert(BLOCK_PIXELS <= MAX_BLOCK_COLUMNS, "the buffers of a block have to hold it");
    const int64_t most = step < inner ? step : inner;
    parallel_for(args.batch * blocks, classes * most * bytes_per_element, [=](int64_t begin, int64_t end) {
        const Scratch<typename Simd<T>::Scalar> scratch(classes * most);
        for (int64_t block = begin; block < end; ++block) {
            const int64_t pixel = block % blocks * step, left = inner - pixel;
            body(block, block / blocks, pixel, left < most ? left : most, scratch.memory);
        }
        store_fence();
    });
}

// The classes of a block's pixels, as vectors compare them. Lanes behind the last pixel are IGNORED.
template <typename T>
struct BlockClasses {
    typedef typename Simd<T>::Index Index;
    alignas(64) Index ids[MAX_BLOCK_COLUMNS];

    BlockClasses(const DiceLossArgs<T> &args, int64_t first, int64_t pixels)
    {
        classes_of(labels_of(args), first, pixels, args.classes, ids);
        for (int64_t j = pixels; j < MAX_BLOCK_COLUMNS && j < pixels + Simd<T>::LANES; ++j)
            ids[j] = Index(IGNORED);
    }

    GLUONOPS_INLINE typename Simd<T>::Indices at(int64_t j) const { return load_indices<T>(ids + j); }
};

template <typename T>
void sum_block(const DiceLossArgs<T> &args, int64_t block, int64_t sample, int64_t pixel, int64_t pixels,
               typename Simd<T>::Scalar *scratch)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    typedef typename Simd<T>::Index Index;
    const int64_t inner = args.inner, classes = args.classes, first = sample * inner + pixel;
    const T *logits = args.data + sample * classes * inner + pixel;
    const BlockClasses<T> labels(args, first, pixels);
    const BlockClasses<T> *ids = &labels;
    alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
    A *max = max_buffer, *sum = sum_buffer;
    const ColumnLines<T> lines = {classes, inner, pixels, 1, 0};
    column_max_and_sum<false>(logits, lines, A(1), max, sum, scratch, pixels);
    for (int64_t j = 0; j < pixels; ++j) {
        const bool ignored = labels.ids[j] == Index(IGNORED);
        args.max[first + j] = ignored ? A(0) : max[j];
        args.log_sum[first + j] = logarithm(ignored ? A(classes) : sum[j]);
        sum[j] = labels.ids[j] == Index(NO_CLASS) ? not_a_number<A>() : 1 / sum[j];
    }

    for (int64_t c = 0; c < classes; ++c) {
        V common = broadcast(A(0)), all = common;
        V *intersection = &common, *total = &all;
        const bool squared = args.squared;
        for_each_vector<T>(pixels, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V zero = broadcast(A(0));
            const auto id = ids->at(j);
            const V power = scratch ? load(scratch + c * pixels + j, mask)
                                    : exponential(load(logits + c * inner + j, mask) - load(max + j));
            const V p = id == Index(IGNORED) ? zero : power * load(sum + j);
            const V target = id == Index(c) ? zero + 1 : zero;
            *intersection += id == Index(c) ? p : zero;
            *total += (squared ? p * p : p) + target;
        });
        args.partial[2 * (block * classes + c)] = reduce_sum(common);
        args.partial[2 * (block * classes + c) + 1] = reduce_sum(all);
    }
}

template <typename T>
void forward(const DiceLossArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t classes = args.classes;
    const double smooth = double(A(args.smooth));
    for_each_block(args, sizeof(T), [=](auto... block) { sum_block(args, block...); });
    for (int64_t map = 0; map < args.batch * classes; ++map) {
        double intersection = 0, total = 0;
        for (int64_t i = 0; i < args.blocks; ++i) {
            const double *sums = args.partial + 2 * ((map / classes * args.blocks + i) * classes + map % classes);
            intersection += sums[0];
            total += sums[1];
        }
        args.intersection[map] = A(intersection);
        args.total[map] = A(total);
        const double dice = (2 * intersection + smooth) / (total + smooth);
        store_scalar(args.output + map, A(1 - dice));
    }
}

template <typename T>
void write_block(const DiceLossArgs<T> &args, int64_t sample, int64_t pixel, int64_t pixels,
                 typename Simd<T>::Scalar *scratch)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    typedef typename Simd<T>::Index Index;
    const int64_t inner = args.inner, classes = args.classes, first = sample * inner + pixel;
    const int64_t start = sample * classes * inner + pixel;
    const T *logits = args.data + start;
    const A *max = args.max + first, *log_sum = args.log_sum + first;
    const A smooth = A(args.smooth);
    const BlockClasses<T> labels(args, first, pixels);
    const BlockClasses<T> *ids = &labels;
    ColumnSums<T> buffer;
    ColumnSums<T> *means = &buffer;

    // A probability's gradient is by_power times the derivative of its power, and by_target at pixels of the class.
    const auto probability = [=](int64_t c, int64_t j, auto mask) GLUONOPS_LAMBDA {
        return exponential(load(logits + c * inner + j, mask) - load(max + j, mask) - load(log_sum + j, mask));
    };
    const auto gradient = [=](int64_t c, int64_t j, V p) GLUONOPS_LAMBDA {
        const int64_t map = sample * classes + c;
        const A scale = 1 / (args.total[map] + smooth), grad_out = load_scalar(args.output_grad + map);
        const A by_power = grad_out * scale * scale * (2 * args.intersection[map] + smooth);
        const A by_target = -2 * grad_out * scale;
        const V zero = broadcast(A(0));
        const V slope = args.squared ? 2 * by_power * p : zero + by_power;
        return slope + (ids->at(j) == Index(c) ? zero + by_target : zero);
    };
    for (int64_t c = 0; c < classes; ++c) {
        for_each_vector<T>(pixels, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V p = probability(c, j, mask);
            if (scratch)
                store(scratch + c * pixels + j, p, mask);
            means->add(j, p * gradient(c, j, p));
        });
        means->end_line();
    }
    A *mean = means->result();
    for (int64_t j = 0; j < pixels; ++j)
        mean[j] = labels.ids[j] == Index(NO_CLASS) ? not_a_number<A>() : mean[j];
    for (int64_t c = 0; c < classes; ++c)
        write_row(args.data_grad + start + c * inner, pixels, false, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V p = scratch ? load(scratch + c * pixels + j, mask) : probability(c, j, mask);
            const V by_logit = p * (gradient(c, j, p) - load(mean + j));
            return ids->at(j) == Index(IGNORED) ? broadcast(A(0)) : by_logit;
        });
}

template <typename T>
void backward(const DiceLossArgs<T> &args)
{
    for_each_block(args, 2 * sizeof(T), [=](int64_t, auto... block) { write_block(args, block...); });
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
