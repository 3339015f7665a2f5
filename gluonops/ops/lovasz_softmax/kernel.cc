// lovasz_softmax on the CPU. The probabilities are written to the derivative. Then each class of a selection is sorted by
// one thread: its errors are counted by digits of 11 bits, and moved to their places digit by digit, from the lowest on.
// So equal errors keep their order. What the place of each error is worth takes the place of its probability. At last
// the derivative is that of the softmax.
#include "generated/lovasz_softmax.h"
#include "../_labels/labels.h"
#include "../_softmax/softmax.h"

#include <algorithm>
#include <type_traits>

namespace gluonops {

struct LovaszSoftmaxCall {
    int type;
    RowSizes sizes;                     // samples, classes, places
    bool per_sample, present_only;
    Labels labels;
    ClassWeights weights;
    const void *data;
    void *output, *derivative;
    int32_t *class_ids;                 // of each place
    int64_t *places_of_class;           // of each sample and class
    int64_t *counted, *invalid;         // places of each sample
    double *maxima, *inverse_sums;      // of each place: how its softmax is computed
    double *shares, *losses;            // of each selection and class
    void *items;                        // two arrays of what is sorted for each of the threads
    int64_t threads;
    const void *output_grad;            // backward
    void *data_grad;

    int64_t samples_of_selection() const { return per_sample ? 1 : sizes.outer; }
    int64_t selections() const { return per_sample ? sizes.outer : 1; }
};

const int64_t LOVASZ_RUN = 4096;   // elements that a thread takes at a time in backward

// An error as bits that rise while it falls, and where it comes from.
template <typename Bits>
struct ErrorItem {
    Bits key, place;   // the highest bit of the place: whether it has the class
};

namespace GLUONOPS_TARGET {
namespace {

template <typename A> struct BitsOf;
template <> struct BitsOf<float> { typedef uint32_t Bits; };
template <> struct BitsOf<double> { typedef uint64_t Bits; };

// -- the order -------------------------------------------------------------------------------------------------------

const int DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS;
const int64_t FEW_ITEMS = 256;   // that are sorted by comparing them

template <typename Item>
GLUONOPS_INLINE int digit_of(const Item &item, int shift)
{
    return int((item.key >> shift) & (DIGIT_VALUES - 1));
}

// Sorts items by their keys, and those with equal keys by their places. Returns where they are: in `items` or `others`.
template <typename Bits>
ErrorItem<Bits> *sorted(ErrorItem<Bits> *items, ErrorItem<Bits> *others, int64_t count)
{
    typedef ErrorItem<Bits> Item;
    enum { PASSES = (8 * sizeof(Bits) + DIGIT_BITS - 1) / DIGIT_BITS };
    if (count < FEW_ITEMS) {
        const Bits place_bits = Bits(~Bits(0)) >> 1;
        std::sort(items, items + count, [=](const Item &a, const Item &b) {
            return a.key != b.key ? a.key < b.key : (a.place & place_bits) < (b.place & place_bits);
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

// The call with typed pointers. A is what T computes in, and the type of the derivative.
template <typename T>
struct TypedCall : LovaszSoftmaxCall {
    typedef typename Simd<T>::Scalar A;
    typedef typename BitsOf<A>::Bits Bits;
    typedef ErrorItem<Bits> Item;

    explicit TypedCall(const LovaszSoftmaxCall &call) : LovaszSoftmaxCall(call) {}

    const T *logits() const { return static_cast<const T *>(data); }
    A *slopes() const { return static_cast<A *>(derivative); }
    A *max_of_places() const { return reinterpret_cast<A *>(maxima); }
    A *inverse_sum_of_places() const { return reinterpret_cast<A *>(inverse_sums); }

    void read_labels() const
    {
        const TypedCall call = *this;
        parallel_for(sizes.outer, sizes.inner * 16, [=](int64_t begin, int64_t end) {
            for (int64_t sample = begin; sample < end; ++sample)
                call.read_labels_of(sample);
        });
    }

    void read_labels_of(int64_t sample) const
    {
        for (int64_t place = sample * sizes.inner; place < (sample + 1) * sizes.inner; ++place) {
            const int64_t id = class_of(labels, place, sizes.length);
            class_ids[place] = int32_t(id);
            counted[sample] += id != IGNORED;
            invalid[sample] += id == NO_CLASS;
            if (id >= 0)
                ++places_of_class[sample * sizes.length + id];
        }
    }

    void write_probabilities() const
    {
        const TypedCall call = *this;
        parallel_column_blocks<T>(sizes, 2 * sizeof(A), [=](int64_t start, int64_t first, int64_t columns) {
            alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
            A *max = max_buffer, *sum = sum_buffer;
            const int64_t inner = call.sizes.inner;
            A *probabilities = call.slopes() + start;
            const ColumnLines<T> lines = {call.sizes.length, inner, columns, 1, 0};
            column_max_and_sum<true>(call.logits() + start, lines, A(1), max, sum, probabilities, inner);
            for (int64_t j = 0; j < columns; ++j) {
                sum[j] = 1 / sum[j];
                call.max_of_places()[first + j] = max[j];
                call.inverse_sum_of_places()[first + j] = sum[j];
            }
            for (int64_t c = 0; c < call.sizes.length; ++c) {
                A *line = probabilities + c * inner;
                write_row<false>(line, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    return load(line + j, mask, A(0)) * load(sum + j, FullMask());
                });
            }
        });
    }

    // How many places of a selection have a class.
    int64_t positives(int64_t selection, int64_t class_id) const
    {
        const int64_t samples = samples_of_selection();
        int64_t found = 0;
        for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample)
            found += places_of_class[sample * sizes.length + class_id];
        return found;
    }

    int64_t sum_of_selection(const int64_t *of_samples, int64_t selection) const
    {
        const int64_t samples = samples_of_selection();
        int64_t sum = 0;
        for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample)
            sum += of_samples[sample];
        return sum;
    }

    // The weight of each class in the mean, which is 0 for one that does not count.
    void write_shares(int64_t selection) const
    {
        double *share = shares + selection * sizes.length;
        const bool any = sum_of_selection(counted, selection) > 0;
        const A *weight = static_cast<const A *>(weights.values);
        double total = 0;
        for (int64_t c = 0; c < sizes.length; ++c) {
            const bool counts = present_only ? positives(selection, c) > 0 : any;
            share[c] = counts ? (weight ? double(weight[c]) : 1.0) : 0.0;
            total += share[c];
        }
        for (int64_t c = 0; c < sizes.length && total > 0; ++c)
            share[c] /= total;
    }

    // Sorts every class that counts. Each of the threads has arrays of its own.
    void sort_classes() const
    {
        const TypedCall call = *this;
        const int64_t classes = selections() * sizes.length;
        const int64_t places = samples_of_selection() * sizes.inner;
        parallel_for(threads, classes / threads * places * int64_t(sizeof(Item)), [=](int64_t begin, int64_t end) {
            for (int64_t thread = begin; thread < end; ++thread)
                for (int64_t i = thread; i < classes; i += call.threads)
                    call.sort_class(i, static_cast<Item *>(call.items) + 2 * thread * places, places);
        });
    }

    void sort_class(int64_t i, Item *memory, int64_t most) const
    {
        const int64_t selection = i / sizes.length, class_id = i % sizes.length;
        if (sum_of_selection(invalid, selection) > 0)
            fill_class(selection, class_id, not_a_number<A>());
        else if (shares[i] == 0)
            fill_class(selection, class_id, A(0));
        else {
            const int64_t count = read_items(selection, class_id, memory);
            write_steps(i, sorted(memory, memory + most, count), count);
        }
    }

    void fill_class(int64_t selection, int64_t class_id, A value) const
    {
        const int64_t samples = samples_of_selection();
        for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample) {
            A *line = slopes() + (sample * sizes.length + class_id) * sizes.inner;
            std::fill(line, line + sizes.inner, value);
        }
    }

    // The errors of a class. Their places are offsets from the class's first element.
    int64_t read_items(int64_t selection, int64_t class_id, Item *to) const
    {
        const int64_t samples = samples_of_selection();
        const Bits has_class = Bits(1) << (8 * sizeof(Bits) - 1);
        Item *next = to;
        for (int64_t sample = 0; sample < samples; ++sample) {
            const int64_t offset = sample * sizes.length * sizes.inner;
            const int64_t first = (selection * samples + sample) * sizes.inner;
            const A *line = slopes() + (selection * samples * sizes.length + class_id) * sizes.inner + offset;
            for (int64_t j = 0; j < sizes.inner; ++j) {
                const int32_t id = class_ids[first + j];
                const bool own = id == class_id;
                const A error = own ? std::max(A(0), 1 - line[j]) : line[j];
                Bits bits;
                memcpy(&bits, &error, sizeof(bits));
                next->key = Bits(~bits);
                next->place = Bits(offset + j) | (own ? has_class : Bits(0));
                next += id != IGNORED;
            }
        }
        return next - to;
    }

    // In the order of falling errors: what each is worth, and the loss of the class.
    void write_steps(int64_t i, const Item *items, int64_t count) const
    {
        const int64_t selection = i / sizes.length, class_id = i % sizes.length;
        const int64_t in_class = positives(selection, class_id);
        const Bits has_class = Bits(1) << (8 * sizeof(Bits) - 1);
        A *to = slopes() + (selection * samples_of_selection() * sizes.length + class_id) * sizes.inner;
        const double share = shares[i];
        double loss = 0;
        int64_t found = 0;
        for (int64_t r = 0; r < count; ++r) {
            const Bits bits = Bits(~items[r].key), place = items[r].place;
            A error;
            memcpy(&error, &bits, sizeof(error));
            const bool own = place & has_class;
            found += own;
            const double joined = double(in_class + r + 1 - found);   // the size of the union
            const double step = own ? 1 / joined : step_of_others(double(in_class - found), joined);
            loss += double(error) * step;
            to[place & ~has_class] = A(share * (own ? -step : step));
        }
        losses[i] = loss;
    }

    // Where the union is a single place, no place has the class.
    static double step_of_others(double common, double joined)
    {
        return joined == 1 ? 1 : common / (joined * (joined - 1));
    }

    void write_losses() const
    {
        for (int64_t selection = 0; selection < selections(); ++selection) {
            double loss = sum_of_selection(invalid, selection) > 0 ? not_a_number<double>() : 0.0;
            for (int64_t i = selection * sizes.length; i < (selection + 1) * sizes.length; ++i)
                loss += shares[i] * losses[i];
            const int64_t samples = samples_of_selection();
            for (int64_t sample = selection * samples; sample < (selection + 1) * samples; ++sample)
                store_scalar(static_cast<T *>(output) + sample, A(loss));
        }
    }

    // From the derivative by the probabilities to that by the logits.
    void write_derivative() const
    {
        const TypedCall call = *this;
        parallel_column_blocks<T>(sizes, 3 * sizeof(A), [=](int64_t start, int64_t first, int64_t columns) {
            alignas(64) A mean_buffer[MAX_BLOCK_COLUMNS];
            A *mean = mean_buffer;
            const T *x = call.logits() + start;
            A *slope = call.slopes() + start;
            const A *max = call.max_of_places() + first, *inverse_sum = call.inverse_sum_of_places() + first;
            const int64_t inner = call.sizes.inner;
            const auto probability = [=](int64_t c, int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto power = exponential(load(x + c * inner + j, mask, A(0)) - load(max + j, mask, A(0)));
                return power * load(inverse_sum + j, mask, A(0));
            };
            std::fill(mean_buffer, mean_buffer + MAX_BLOCK_COLUMNS, A(0));
            for (int64_t c = 0; c < call.sizes.length; ++c)
                for_each_column<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto part = probability(c, j, mask) * load(slope + c * inner + j, mask, A(0));
                    store(mean + j, load(mean + j, FullMask()) + part, FullMask());
                });
            for (int64_t c = 0; c < call.sizes.length; ++c) {
                A *line = slope + c * inner;
                write_row<false>(line, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    return probability(c, j, mask) * (load(line + j, mask, A(0)) - load(mean + j, FullMask()));
                });
            }
            for (int64_t j = 0; j < columns; ++j)
                for (int64_t c = 0; c < call.sizes.length && call.class_ids[first + j] == IGNORED; ++c)
                    slope[c * inner + j] = 0;
        });
    }
};

template <typename T>
void forward(const LovaszSoftmaxCall &given)
{
    const TypedCall<T> call(given);
    if (call.sizes.empty())
        return;
    call.read_labels();
    call.write_probabilities();
    for (int64_t selection = 0; selection < call.selections(); ++selection)
        call.write_shares(selection);
    call.sort_classes();
    call.write_losses();
    call.write_derivative();
}

template <bool STREAMING, typename T>
void write_gradient(const LovaszSoftmaxCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call(given);
    const T *heads = static_cast<const T *>(call.output_grad);
    T *data_grad = static_cast<T *>(call.data_grad);
    double sum = 0;
    for (int64_t sample = 0; sample < call.sizes.outer; ++sample)
        sum += double(load_scalar(heads + sample));
    const A head_of_all = A(sum);

    const int64_t size = call.sizes.length * call.sizes.inner, runs = (size + LOVASZ_RUN - 1) / LOVASZ_RUN;
    parallel_for(call.sizes.outer * runs, LOVASZ_RUN * int64_t(2 * sizeof(A)), [=](int64_t first, int64_t last) {
        for (int64_t run = first; run < last; ++run) {
            const int64_t sample = run / runs, offset = run % runs * LOVASZ_RUN, begin = sample * size + offset;
            const int64_t left = size - offset;
            const A head = call.per_sample ? load_scalar(heads + sample) : head_of_all;
            const A *slope = call.slopes() + begin;
            write_row<STREAMING>(data_grad + begin, left < LOVASZ_RUN ? left : LOVASZ_RUN,
                                 [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return load(slope + i, mask, A(0)) * head;
            });
        }
        store_fence();
    });
}

template <typename T>
void backward(const LovaszSoftmaxCall &call)
{
    if (streams<T>(call.sizes.elements()))
        write_gradient<true, T>(call);
    else
        write_gradient<false, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

// Memory of forward.
inline void add_memory(LovaszSoftmaxCall &call, Workspace &memory)
{
    const int64_t places = call.sizes.rows(), classes = call.selections() * call.sizes.length;
    const int64_t most = call.samples_of_selection() * call.sizes.inner;
    call.class_ids = memory.zeros<int32_t>(places);
    call.places_of_class = memory.zeros<int64_t>(call.sizes.outer * call.sizes.length);
    call.counted = memory.zeros<int64_t>(call.sizes.outer);
    call.invalid = memory.zeros<int64_t>(call.sizes.outer);
    call.maxima = memory.zeros<double>(places);
    call.inverse_sums = memory.zeros<double>(places);
    call.shares = memory.zeros<double>(classes);
    call.losses = memory.zeros<double>(classes);
    call.threads = std::max(int64_t(1), std::min(classes, int64_t(most_threads())));
    if (call.type == FLOAT64)
        call.items = memory.zeros<ErrorItem<uint64_t>>(2 * call.threads * most);
    else
        call.items = memory.zeros<ErrorItem<uint32_t>>(2 * call.threads * most);
}

inline LovaszSoftmaxCall adapt(const LovaszSoftmaxAttrs &attrs, const LovaszSoftmaxTensors &tensors, Workspace &memory)
{
    LovaszSoftmaxCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), 1);
    call.per_sample = attrs.per_sample;
    call.present_only = attrs.present_only;
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.weights = class_weights(attrs.class_weight, call.sizes.length, call.type, memory);
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.derivative = tensors.derivative.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    if (!tensors.backward)
        add_memory(call, memory);
    return call;
}

}  // namespace gluonops
