// dice_loss. Forward: a block takes PLACES places of a sample at a time, of which a thread has OWN. It finds their
// softmax, and then two sums for one class after the other: of the probabilities where it is the label, and of the
// (squared) probabilities and the labels. The last block of a sample adds up the sums of all. Backward: a thread per
// place.
#include "../_labels/labels.cuh"
#include "../_softmax/sums.cuh"

enum { THREADS = 256, OWN = PLACES / THREADS };

// A place of a sample: its class, and the softmax of its logits, which is NaN where the label is invalid.
template <typename T>
struct Place {
    typedef typename Accumulator<T>::type A;
    int64_t class_id;
    Exponential<T> softmax;

    __device__ Place() {}
    __device__ Place(int64_t class_id, A max, A log_sum)
        : class_id(class_id), softmax(max, 1, class_id == NO_CLASS ? not_a_number<A>() : log_sum) {}

    __device__ bool counts() const { return class_id != IGNORED; }
};

// Finds the softmax of PLACES places, from the first one on, and adds their probabilities to the sums of each class.
template <typename T, typename L>
__device__ void sum_places(const DiceLossArgs<T, L> &args, int64_t sample, int64_t first)
{
    typedef typename Accumulator<T>::type A;
    const T *const logits = args.data + sample * args.classes * args.inner + first;
    const int count = int(minimum(args.inner - first, PLACES));
    int offsets[OWN];
    SoftmaxSums<T> softmax[OWN];
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        offsets[k] = int(minimum(k * THREADS + threadIdx.x, count - 1));
#pragma unroll 1
    for (int64_t c = 0; c < args.classes; ++c)
#pragma unroll
        for (int k = 0; k < OWN; ++k)
            softmax[k].add_element(load(logits, c * args.inner + offsets[k]));
    Place<T> places[OWN];
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        const int64_t i = sample * args.inner + first + offsets[k];
        const int64_t class_id = class_of(args, i);
        if (class_id == IGNORED)   // it counts as a place with logits of 0, whatever it holds
            softmax[k].set_zeros(args.classes);
        const A log_sum = softmax[k].log_sum();
        const bool exists = k * THREADS + threadIdx.x < count;
        places[k] = Place<T>(exists ? class_id : int64_t(IGNORED), softmax[k].max, log_sum);
        store(args.max, i, softmax[k].max, exists ? args.max_request : NOTHING);
        store(args.log_sum, i, log_sum, exists ? args.log_sum_request : NOTHING);
    }
    for (int64_t c = 0; c < args.classes; ++c) {
        A intersection = 0, total = 0;
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
            const Place<T> &place = places[k];
            const A p = place.softmax(load(logits, c * args.inner + offsets[k]));
            const bool is_label = place.class_id == c;
            intersection += is_label || place.class_id == NO_CLASS ? p : A(0);
            total += place.counts() ? (args.squared ? p * p : p) + (is_label ? 1 : 0) : A(0);
        }
        intersection = reduce_block(intersection, Sum());
        total = reduce_block(total, Sum());
        if (threadIdx.x > 0)
            continue;
        volatile A *const sums = args.sums + 2 * ((sample * args.classes + c) * gridDim.y + blockIdx.y);
        const bool has_sums = first >= gridDim.y * PLACES;
        sums[0] = has_sums ? sums[0] + intersection : intersection;
        sums[1] = has_sums ? sums[1] + total : total;
    }
}

// Adds up the sums of all parts of a sample. A warp takes a class.
template <typename T, typename L>
__device__ void write_losses(const DiceLossArgs<T, L> &args, int64_t sample)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t c = threadIdx.x / 32; c < args.classes; c += THREADS / 32) {
        const int64_t row = sample * args.classes + c;
        const volatile A *const sums = args.sums + 2 * row * gridDim.y;
        A intersection = 0, total = 0;
        for (int part = threadIdx.x % 32; part < gridDim.y; part += 32) {
            intersection += sums[2 * part];
            total += sums[2 * part + 1];
        }
        intersection = reduce_warp(intersection, Sum());
        total = reduce_warp(total, Sum());
        if (threadIdx.x % 32 > 0)
            continue;
        const A smooth = A(args.smooth), loss = 1 - (2 * intersection + smooth) / (total + smooth);
        store(args.output, row, loss, args.output_request);
        store(args.intersection, row, intersection, args.intersection_request);
        store(args.total, row, total, args.total_request);
    }
}

template <typename T, typename L>
__device__ void forward(const DiceLossArgs<T, L> &args)
{
    const Scratch<typename Accumulator<T>::type> scratch(args.counts, args.sums);
    for (int64_t sample = blockIdx.x; sample < args.batch; sample += gridDim.x) {
        for (int64_t first = int64_t(blockIdx.y) * PLACES; first < args.inner; first += gridDim.y * PLACES)
            sum_places(args, sample, first);
        if (scratch.is_last_block(sample, gridDim.y))
            write_losses(args, sample);
    }
}

// The derivative of the loss in that row by a probability.
template <typename T, typename L, typename A>
__device__ A slope_of(const DiceLossArgs<T, L> &args, int64_t row, A p, bool is_label)
{
    const A smooth = A(args.smooth), scale = 1 / (args.total[row] + smooth), head = load(args.output_grad, row) * scale;
    const A by_total = head * (2 * args.intersection[row] + smooth) * scale;
    return (args.squared ? 2 * p * by_total : by_total) - (is_label ? 2 * head : 0);
}

template <typename T, typename L>
__device__ void backward(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < args.batch * args.inner; i += item_step()) {
        const int64_t sample = quotient(i, args.inner), first = sample * args.classes;
        const int64_t start = first * args.inner + (i - sample * args.inner);
        const Place<T> place(class_of(args, i), args.max[i], args.log_sum[i]);
        A mean = 0;
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.softmax(load(args.data, start + c * args.inner));
            mean += p * slope_of(args, first + c, p, c == place.class_id);
        }
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.softmax(load(args.data, start + c * args.inner));
            const A gradient = p * (slope_of(args, first + c, p, c == place.class_id) - mean);
            store(args.data_grad, start + c * args.inner, place.counts() ? gradient : A(0), args.data_grad_request);
        }
    }
}
