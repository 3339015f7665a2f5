// lovasz_softmax on the CPU. The probabilities are written to the derivative. Then each class of a selection is sorted
// by one thread: its errors are counted by digits of 11 bits, and moved to their positions digit by digit, from the
// lowest on. So equal errors keep their order. What the pixel of each error is worth replaces its probability. At
// last the derivative is that of the softmax.
#include "generated/lovasz_softmax.h"
#include "../_softmax/softmax.h"

#include <algorithm>

namespace gluonops {

const int64_t LOVASZ_SPAN = 4096;   // elements that a thread takes at a time in backward

// Each of the threads that sort has arrays of its own.
template <typename T>
void derive(const LovaszSoftmaxAttrs &, Arrays, LovaszSoftmaxArgs<T> &args)
{
    args.threads = std::max(int64_t(1), std::min(args.selections * args.classes, int64_t(most_threads())));
}

namespace GLUONOPS_ISA {
namespace {

// -- the order -------------------------------------------------------------------------------------------------------

const int DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS;
const int64_t FEW_ITEMS = 256;   // Up to this number, items are sorted by comparing them.

template <typename Item>
GLUONOPS_INLINE int digit_of(const Item &item, int shift)
{
    return int((item.key >> shift) & (DIGIT_VALUES - 1));
}

// Sorts items by their keys, and those with equal keys by their pixels. Returns where they are: in `items` or `others`.
template <typename A>
ErrorItem<A> *sorted(ErrorItem<A> *items, ErrorItem<A> *others, int64_t count)
{
    typedef ErrorItem<A> Item;
    enum { PASSES = (8 * sizeof(A) + DIGIT_BITS - 1) / DIGIT_BITS };
    if (count < FEW_ITEMS) {
        std::sort(items, items + count, [](const Item &a, const Item &b) {
            return a.key != b.key ? a.key < b.key : a.offset() < b.offset();
        });
        return items;
    }
    int64_t counts[PASSES][DIGIT_VALUES] = {};
    for (int64_t i = 0; i < count; ++i)
        for (int pass = 0; pass < PASSES; ++pass)
            ++counts[pass][digit_of(items[i], pass * DIGIT_BITS)];
    for (int pass = 0; pass < PASSES; ++pass) {
        int64_t *next = counts[pass];
        const int shift = pass * DIGIT_BITS;
        if (next[digit_of(items[0], shift)] == count)   // all have the same digit
            continue;
        int64_t start = 0;
        for (int digit = 0; digit < DIGIT_VALUES; ++digit) {
            const int64_t of_digit = next[digit];
            next[digit] = start;
            start += of_digit;
        }
        for (int64_t i = 0; i < count; ++i)
            others[next[digit_of(items[i], shift)]++] = items[i];
        std::swap(items, others);
    }
    return items;
}

// -- the steps of forward --------------------------------------------------------------------------------------------

template <typename T>
using ItemOf = ErrorItem<typename Simd<T>::Scalar>;

template <typename T>
void read_labels(const LovaszSoftmaxArgs<T> &args)
{
    parallel_for_each(args.batch, args.inner * 16, [=](int64_t sample) {
        const int64_t first = sample * args.inner;
        int32_t *class_ids = args.class_ids + first;
        int64_t *counts = args.counts + sample * (args.classes + 2);
        classes_of(labels_of(args), first, args.inner, args.classes, class_ids);
        for (int64_t j = 0; j < args.inner; ++j)
            ++counts[class_ids[j] - IGNORED];
    });
}

template <typename T>
void write_probabilities(const LovaszSoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    parallel_column_blocks<T>(class_rows(args), 2 * sizeof(A), [=](int64_t start, int64_t first, int64_t columns) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *sum = sum_buffer;
        const int64_t inner = args.inner;
        A *probabilities = args.derivative + start;
        const ColumnLines<T> lines = {args.classes, inner, columns, 1, 0};
        column_max_and_sum<false>(args.data + start, lines, A(1), max, sum, probabilities, inner);
        for (int64_t j = 0; j < columns; ++j) {
            sum[j] = 1 / sum[j];
            args.maxima[first + j] = max[j];
            args.inverse_sums[first + j] = sum[j];
        }
        for (int64_t c = 0; c < args.classes; ++c) {
            A *line = probabilities + c * inner;
            write_row(line, columns, false, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return load(line + j, mask) * load(sum + j);
            });
        }
    });
}

// Returns how many pixels of a selection have a class id, which may be NO_CLASS or IGNORED, the least of all.
template <typename T>
int64_t pixels_of(const LovaszSoftmaxArgs<T> &args, int64_t selection, int64_t class_id)
{
    const int64_t samples = args.samples;
    int64_t pixels = 0;
    for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample)
        pixels += args.counts[sample * (args.classes + 2) + class_id - IGNORED];
    return pixels;
}

// Computes the weight of each class in the mean, which is 0 for a class that does not count, and NaN if a label is
// invalid.
template <typename T>
void write_shares(const LovaszSoftmaxArgs<T> &args, int64_t selection)
{
    double *share = args.shares + selection * args.classes;
    const bool any = pixels_of(args, selection, IGNORED) < args.samples * args.inner;
    const double one = pixels_of(args, selection, NO_CLASS) > 0 ? not_a_number<double>() : 1.0;
    double total = 0;
    for (int64_t c = 0; c < args.classes; ++c) {
        const bool counts = args.present_only ? pixels_of(args, selection, c) > 0 : any;
        share[c] = one * (counts ? double(args.class_weight.of(c)) : 0.0);
        total += share[c];
    }
    for (int64_t c = 0; c < args.classes && total > 0; ++c)
        share[c] /= total;
}

// Reads the errors of a class. Their pixels are offsets from the first element of the class.
template <typename T>
int64_t read_items(const LovaszSoftmaxArgs<T> &args, int64_t selection, int64_t class_id, ItemOf<T> *to)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename ItemOf<T>::Bits Bits;
    const int64_t samples = args.samples;
    ItemOf<T> *next = to;
    for (int64_t sample = 0; sample < samples; ++sample) {
        const int64_t offset = sample * args.classes * args.inner;
        const int64_t first = (selection * samples + sample) * args.inner;
        const A *line = args.derivative + (selection * samples * args.classes + class_id) * args.inner + offset;
        for (int64_t j = 0; j < args.inner; ++j) {
            const int32_t id = args.class_ids[first + j];
            const bool own = id == class_id;
            const A error = own ? std::max(A(0), 1 - line[j]) : line[j];
            Bits bits;
            memcpy(&bits, &error, sizeof(bits));
            next->key = Bits(~bits);
            next->pixel = Bits(offset + j) | (own ? ItemOf<T>::HAS_CLASS : Bits(0));
            next += id != IGNORED;
        }
    }
    return next - to;
}

// Returns the step of a pixel without the class. Where the union is a single pixel, no pixel has the class.
inline double step_of_others(double common, double joined)
{
    return joined == 1 ? 1 : common / (joined * (joined - 1));
}

// It writes what each error is worth, in the order of falling errors, and the loss of the class.
template <typename T>
void write_steps(const LovaszSoftmaxArgs<T> &args, int64_t i, const ItemOf<T> *items, int64_t count)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename ItemOf<T>::Bits Bits;
    const int64_t selection = i / args.classes, class_id = i % args.classes;
    const int64_t in_class = pixels_of(args, selection, class_id);
    A *to = args.derivative + (selection * args.samples * args.classes + class_id) * args.inner;
    const double share = args.shares[i];
    double loss = 0;
    int64_t members = 0;
    for (int64_t r = 0; r < count; ++r) {
        const Bits bits = Bits(~items[r].key);
        A error;
        memcpy(&error, &bits, sizeof(error));
        const bool own = items[r].pixel != items[r].offset();
        members += own;
        const double joined = double(in_class + r + 1 - members);   // the size of the union
        const double step = own ? 1 / joined : step_of_others(double(in_class - members), joined);
        loss += double(error) * step;
        to[items[r].offset()] = A(share * (own ? -step : step));
    }
    args.losses[i] = loss;
}

template <typename T>
void sort_class(const LovaszSoftmaxArgs<T> &args, int64_t i, ItemOf<T> *memory, int64_t most)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t samples = args.samples, selection = i / args.classes, class_id = i % args.classes;
    if (args.shares[i] != 0) {
        const int64_t count = read_items(args, selection, class_id, memory);
        return write_steps(args, i, sorted(memory, memory + most, count), count);
    }
    for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample)
        std::fill_n(args.derivative + (sample * args.classes + class_id) * args.inner, args.inner, A(0));
}

// Sorts every class that counts. Each of the threads has arrays of its own.
template <typename T>
void sort_classes(const LovaszSoftmaxArgs<T> &args)
{
    const int64_t classes = args.selections * args.classes, threads = args.threads;
    const int64_t pixels = args.samples * args.inner, bytes = pixels * int64_t(sizeof(*args.items));
    parallel_for_each(threads, classes / threads * bytes, [=](int64_t thread) {
        for (int64_t i = thread; i < classes; i += threads)
            sort_class(args, i, args.items + 2 * thread * pixels, pixels);
    });
}

template <typename T>
void write_losses(const LovaszSoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    for (int64_t selection = 0; selection < args.selections; ++selection) {
        double loss = 0;
        for (int64_t i = selection * args.classes; i < (selection + 1) * args.classes; ++i)
            loss += args.shares[i] * args.losses[i];
        for (int64_t sample = selection * args.samples; sample < (selection + 1) * args.samples; ++sample)
            store_scalar(args.output + sample, A(loss));
    }
}

// Turns the derivative by the probabilities into that by the logits.
template <typename T>
void write_derivative(const LovaszSoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    parallel_column_blocks<T>(class_rows(args), 3 * sizeof(A), [=](int64_t start, int64_t first, int64_t columns) {
        ColumnSums<T> buffer;
        ColumnSums<T> *means = &buffer;
        const T *x = args.data + start;
        A *slope = args.derivative + start;
        const A *max = args.maxima + first, *inverse_sum = args.inverse_sums + first;
        const int64_t inner = args.inner;
        const auto probability = [=](int64_t c, int64_t j, auto mask) GLUONOPS_LAMBDA {
            const auto power = exponential(load(x + c * inner + j, mask) - load(max + j, mask));
            return power * load(inverse_sum + j, mask);
        };
        for (int64_t c = 0; c < args.classes; ++c) {
            for_each_vector<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                means->add(j, probability(c, j, mask) * load(slope + c * inner + j, mask));
            });
            means->end_line();
        }
        const A *mean = means->result();
        for (int64_t c = 0; c < args.classes; ++c) {
            A *line = slope + c * inner;
            write_row(line, columns, false, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return probability(c, j, mask) * (load(line + j, mask) - load(mean + j));
            });
        }
        for (int64_t j = 0; j < columns; ++j)
            for (int64_t c = 0; c < args.classes && args.class_ids[first + j] == IGNORED; ++c)
                slope[c * inner + j] = 0;
    });
}

template <typename T>
void forward(const LovaszSoftmaxArgs<T> &args)
{
    if (class_rows(args).empty())
        return;
    read_labels(args);
    write_probabilities(args);
    for (int64_t selection = 0; selection < args.selections; ++selection)
        write_shares(args, selection);
    sort_classes(args);
    write_losses(args);
    write_derivative(args);
}

template <typename T>
void backward(const LovaszSoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    double sum = 0;
    for (int64_t sample = 0; sample < args.batch; ++sample)
        sum += double(load_scalar(args.output_grad + sample));
    const A grad_of_all = A(sum);
    const bool streaming = streams<T>(class_rows(args).elements());

    const int64_t size = args.classes * args.inner;
    parallel_spans(args.batch, size, LOVASZ_SPAN, 2 * sizeof(A), [=](int64_t sample, int64_t first, int64_t items) {
        const A grad_out = args.per_sample ? load_scalar(args.output_grad + sample) : grad_of_all;
        const A *slope = args.derivative + sample * size + first;
        T *to = args.data_grad + sample * size + first;
        write_row(to, items, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(slope + i, mask) * grad_out;
        });
    });
}

}  // namespace
}  // namespace GLUONOPS_ISA
}  // namespace gluonops
