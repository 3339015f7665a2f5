// dice_loss on the CPU. Bytes moved: forward the logits', backward twice the logits'; what is read again is in the cache.
// The places of a sample are divided into blocks, whose sums are added in their order: the result does not depend on the
// number of threads.
#include "generated/dice_loss.h"
#include "../_labels/labels.h"
#include "../_softmax/softmax.h"

namespace gluonops {

const int64_t DICE_PLACES = 512;   // of a block

struct DiceLossCall {
    int type;
    RowSizes sizes;                     // samples, classes, places
    int64_t blocks;                     // of a sample
    Labels labels;
    bool squared;
    double smooth;
    const void *data;
    void *output, *intersection, *total, *max, *log_sum;   // backward reads all but output
    double *partial;                    // forward: two sums for each class of a block
    const void *output_grad;            // backward
    void *data_grad;
};

namespace GLUONOPS_TARGET {
namespace {

static_assert(DICE_PLACES <= MAX_BLOCK_COLUMNS, "the buffers of a block have to hold it");

// The call with typed pointers. A is what T computes in, and the type of the hidden outputs.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    int64_t blocks;
    Labels labels;
    bool squared;
    A smooth;
    const T *data, *output_grad;
    T *output, *data_grad;
    A *intersection, *total, *max, *log_sum;
    double *partial;

    explicit TypedCall(const DiceLossCall &call)
        : sizes(call.sizes), blocks(call.blocks), labels(call.labels), squared(call.squared), smooth(A(call.smooth)),
          data(static_cast<const T *>(call.data)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          intersection(static_cast<A *>(call.intersection)), total(static_cast<A *>(call.total)),
          max(static_cast<A *>(call.max)), log_sum(static_cast<A *>(call.log_sum)), partial(call.partial) {}

    // Calls body(block, sample, first place, places, scratch) for every block, on several threads. The scratch memory is
    // for a number for each logit of a block, or null.
    template <typename Body>
    void for_each_block(int64_t bytes_per_element, const Body &body) const
    {
        const int64_t most = DICE_PLACES < sizes.inner ? DICE_PLACES : sizes.inner;
        const TypedCall call = *this;
        parallel_for(sizes.outer * blocks, sizes.length * most * bytes_per_element, [=](int64_t begin, int64_t end) {
            const Scratch<A> scratch(call.sizes.length * most);
            for (int64_t block = begin; block < end; ++block) {
                const int64_t place = block % call.blocks * DICE_PLACES, left = call.sizes.inner - place;
                body(block, block / call.blocks, place, left < most ? left : most, scratch.memory);
            }
            store_fence();
        });
    }
};

// The classes of a block's places, as vectors compare them. Lanes behind the last place are IGNORED.
template <typename T>
struct BlockClasses {
    typedef typename Simd<T>::Index Index;
    alignas(64) Index ids[MAX_BLOCK_COLUMNS];

    BlockClasses(const TypedCall<T> &call, int64_t first, int64_t places)
    {
        for (int64_t j = 0; j < places; ++j)
            ids[j] = Index(class_of(call.labels, first + j, call.sizes.length));
        for (int64_t j = places; j < MAX_BLOCK_COLUMNS && j < places + Simd<T>::LANES; ++j)
            ids[j] = Index(IGNORED);
    }

    GLUONOPS_INLINE typename Simd<T>::Indices at(int64_t j) const
    {
        typename Simd<T>::Indices indices;
        memcpy(&indices, ids + j, WIDTH);
        return indices;
    }
};

template <typename T>
void sum_block(const TypedCall<T> &call, int64_t block, int64_t sample, int64_t place, int64_t places,
               typename Simd<T>::Scalar *scratch)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    typedef typename Simd<T>::Index Index;
    const int64_t inner = call.sizes.inner, classes = call.sizes.length, first = sample * inner + place;
    const T *logits = call.data + sample * classes * inner + place;
    const BlockClasses<T> labels(call, first, places);
    const BlockClasses<T> *ids = &labels;
    alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
    A *max = max_buffer, *sum = sum_buffer;
    if (scratch)
        column_max_and_sum<true>(logits, call.sizes, places, A(1), max, sum, scratch);
    else
        column_max_and_sum<false>(logits, call.sizes, places, A(1), max, sum);
    for (int64_t j = 0; j < places; ++j) {
        const bool ignored = labels.ids[j] == Index(IGNORED);
        call.max[first + j] = ignored ? A(0) : max[j];
        call.log_sum[first + j] = logarithm(ignored ? A(classes) : sum[j]);
        sum[j] = labels.ids[j] == Index(NO_CLASS) ? not_a_number<A>() : 1 / sum[j];
    }

    for (int64_t c = 0; c < classes; ++c) {
        V common = broadcast(A(0)), all = common;
        V *intersection = &common, *total = &all;
        const bool squared = call.squared;
        for_each_column<T>(places, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V zero = broadcast(A(0));
            const auto id = ids->at(j);
            const V power = scratch ? load(scratch + c * places + j, mask, A(0))
                                    : exponential(load(logits + c * inner + j, mask, A(0)) - load(max + j, FullMask()));
            const V p = id == Index(IGNORED) ? zero : power * load(sum + j, FullMask());
            const V target = id == Index(c) ? zero + 1 : zero;
            *intersection += id == Index(c) ? p : zero;
            *total += (squared ? p * p : p) + target;
        });
        call.partial[2 * (block * classes + c)] = reduce_sum(common);
        call.partial[2 * (block * classes + c) + 1] = reduce_sum(all);
    }
}

template <typename T>
void forward(const DiceLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call(given);
    const int64_t classes = call.sizes.length;
    call.for_each_block(sizeof(T), [=](int64_t block, int64_t sample, int64_t place, int64_t places, A *scratch) {
        sum_block(call, block, sample, place, places, scratch);
    });
    for (int64_t map = 0; map < call.sizes.outer * classes; ++map) {
        double intersection = 0, total = 0;
        for (int64_t i = 0; i < call.blocks; ++i) {
            const double *sums = call.partial + 2 * ((map / classes * call.blocks + i) * classes + map % classes);
            intersection += sums[0];
            total += sums[1];
        }
        call.intersection[map] = A(intersection);
        call.total[map] = A(total);
        const double dice = (2 * intersection + double(call.smooth)) / (total + double(call.smooth));
        store_scalar(call.output + map, A(1 - dice));
    }
}

template <typename T>
void write_block(const TypedCall<T> &call, int64_t sample, int64_t place, int64_t places,
                 typename Simd<T>::Scalar *scratch)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    typedef typename Simd<T>::Index Index;
    const int64_t inner = call.sizes.inner, classes = call.sizes.length, first = sample * inner + place;
    const int64_t start = sample * classes * inner + place;
    const T *logits = call.data + start;
    const A *max = call.max + first, *log_sum = call.log_sum + first;
    const BlockClasses<T> labels(call, first, places);
    const BlockClasses<T> *ids = &labels;
    alignas(64) A mean_buffer[MAX_BLOCK_COLUMNS];
    A *mean = mean_buffer;
    for (int64_t j = 0; j < MAX_BLOCK_COLUMNS; ++j)
        mean[j] = j < places && labels.ids[j] == Index(NO_CLASS) ? not_a_number<A>() : A(0);

    // The gradient of a probability is by_power times the derivative of its power, and by_target at places of the class.
    const auto probability = [=](int64_t c, int64_t j, auto mask) GLUONOPS_LAMBDA {
        return exponential(load(logits + c * inner + j, mask, A(0)) - load(max + j, mask, A(0))
                           - load(log_sum + j, mask, A(0)));
    };
    const auto gradient = [=](int64_t c, int64_t j, V p) GLUONOPS_LAMBDA {
        const int64_t map = sample * classes + c;
        const A scale = 1 / (call.total[map] + call.smooth), head = load_scalar(call.output_grad + map);
        const A by_power = head * scale * scale * (2 * call.intersection[map] + call.smooth);
        const A by_target = -2 * head * scale;
        const V zero = broadcast(A(0));
        const V slope = call.squared ? 2 * by_power * p : zero + by_power;
        return slope + (ids->at(j) == Index(c) ? zero + by_target : zero);
    };
    for (int64_t c = 0; c < classes; ++c)
        for_each_column<T>(places, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V p = probability(c, j, mask);
            if (scratch)
                store(scratch + c * places + j, p, mask);
            store(mean + j, load(mean + j, FullMask()) + p * gradient(c, j, p), FullMask());
        });
    for (int64_t c = 0; c < classes; ++c)
        write_row<false>(call.data_grad + start + c * inner, places, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            const V p = scratch ? load(scratch + c * places + j, mask, A(0)) : probability(c, j, mask);
            const V by_logit = p * (gradient(c, j, p) - load(mean + j, FullMask()));
            return ids->at(j) == Index(IGNORED) ? broadcast(A(0)) : by_logit;
        });
}

template <typename T>
void backward(const DiceLossCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call(given);
    call.for_each_block(2 * sizeof(T), [=](int64_t, int64_t sample, int64_t place, int64_t places, A *scratch) {
        write_block(call, sample, place, places, scratch);
    });
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline DiceLossCall adapt(const DiceLossAttrs &attrs, const DiceLossTensors &tensors, Workspace &memory)
{
    DiceLossCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), 1);
    call.blocks = (call.sizes.inner + DICE_PLACES - 1) / DICE_PLACES;
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.squared = attrs.squared;
    call.smooth = attrs.smooth;
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.intersection = tensors.intersection.data;
    call.total = tensors.total.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    if (!tensors.backward) {
        call.partial = memory.zeros<double>(2 * call.sizes.outer * call.blocks * call.sizes.length);
        return call;
    }
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    return call;
}

}  // namespace gluonops
