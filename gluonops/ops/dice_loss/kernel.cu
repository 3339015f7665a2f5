// dice_loss. Forward has steps:
//     PLACES    the softmax of each place, a thread each;
//     CLASSES   the sums of each class of a sample over its places. A block has a part of them.
// Backward: a thread per place.
#include "../_labels/labels.cuh"
#include "../_softmax/rows.cuh"
#include "../_softmax/sums.cuh"

// A place of a sample: its class, and the softmax of its logits.
template <typename T>
struct Place {
    typedef typename Accumulator<T>::type A;
    int64_t class_id;
    Exponential<T> softmax;

    template <typename Args>
    __device__ Place(const Args &args, int64_t number, const A *max, const A *log_sum)
        : class_id(class_of(args, number)), softmax(max[number], 1, log_sum[number]) {}

    __device__ bool counts() const { return class_id != IGNORED; }

    // NaN at a place with an invalid label.
    __device__ A probability(A x) const { return class_id == NO_CLASS ? not_a_number<A>() : softmax(x); }
};

// An ignored place counts as one with logits of 0, whatever it holds.
template <typename T, typename L>
__device__ void find_softmax(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t threads = int64_t(gridDim.x) * gridDim.y * blockDim.x;
    const int64_t first = (int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < args.batch * args.inner; i += threads) {
        const int64_t sample = quotient(i, args.inner);
        const T *const logits = args.data + sample * args.classes * args.inner + (i - sample * args.inner);
        SoftmaxSums<T> sums;
        for (int64_t c = 0; c < args.classes; ++c)
            sums.add_element(load(logits, c * args.inner));
        if (class_of(args, i) == IGNORED)
            sums.set_zeros(args.classes);
        const A log_sum = sums.log_sum();
        args.place_max[i] = sums.max;
        args.place_log_sum[i] = log_sum;
        store(args.max, i, sums.max, args.max_request);
        store(args.log_sum, i, log_sum, args.log_sum_request);
    }
}

// The sums of a class over the places of a sample: of the probabilities where it is the label, and of the (squared)
// probabilities and the labels.
template <typename A>
struct ClassSums {
    enum { NUMBERS = 2 };
    A intersection, total;

    __device__ ClassSums() : intersection(0), total(0) {}

    __device__ void add(const ClassSums &other)
    {
        intersection += other.intersection;
        total += other.total;
    }

    __device__ void reduce(const OverLanes &over)
    {
        intersection = over(intersection, Sum());
        total = over(total, Sum());
    }

    __device__ A &number(int i) { return i == 0 ? intersection : total; }
};

template <typename T, typename L>
__device__ void sum_classes(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const PartSums<A> parts(args.counts, args.sums);
    const Rows<T> rows(args.inner, 1, false);
    for (RowLoop at(args.batch * args.classes); at.goes_on(); at.next()) {
        const int64_t sample = quotient(at.row, args.classes), c = at.row - sample * args.classes;
        const RowPart part = rows.part(at.row, at.part);
        ClassSums<A> sums;
#pragma unroll 2
        for (int64_t i = threadIdx.x; i < part.length; i += blockDim.x) {
            const Place<T> place(args, sample * args.inner + part.position + i, args.place_max, args.place_log_sum);
            const A p = place.probability(load(args.data, part.start + i));
            const bool is_label = place.class_id == c;
            sums.intersection += is_label || place.class_id == NO_CLASS ? p : A(0);
            sums.total += place.counts() ? (args.squared ? p * p : p) + (is_label ? 1 : 0) : A(0);
        }
        reduce_sums<A>(sums);
        const bool is_last = gridDim.y == 1 || parts.gather(at.row, at.part, sums, ClassSums<A>());
        if (!is_last || threadIdx.x > 0)
            continue;
        const A smooth = A(args.smooth), loss = 1 - (2 * sums.intersection + smooth) / (sums.total + smooth);
        store(args.output, at.row, loss, args.output_request);
        store(args.intersection, at.row, sums.intersection, args.intersection_request);
        store(args.total, at.row, sums.total, args.total_request);
    }
}

template <typename T, typename L>
__device__ void forward(const DiceLossArgs<T, L> &args)
{
    if (args.step == args.PLACES)
        find_softmax(args);
    else
        sum_classes(args);
}

// The derivative of a sample's losses by the probabilities of a place.
template <typename T>
struct Slopes {
    typedef typename Accumulator<T>::type A;
    const T *output_grad;
    const A *intersection, *total;   // of the sample's first class
    A smooth;
    bool squared;

    __device__ A by(int64_t c, A p, bool is_label) const
    {
        const A scale = 1 / (total[c] + smooth), head = load(output_grad, c) * scale;
        const A by_total = head * (2 * intersection[c] + smooth) * scale;
        return (squared ? 2 * p * by_total : by_total) - (is_label ? 2 * head : 0);
    }
};

template <typename T, typename L>
__device__ void backward(const DiceLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < args.batch * args.inner; i += item_step()) {
        const int64_t sample = quotient(i, args.inner), first = sample * args.classes;
        const int64_t start = first * args.inner + (i - sample * args.inner);
        const Place<T> place(args, i, args.max, args.log_sum);
        const Slopes<T> slopes = {args.output_grad + first, args.intersection + first, args.total + first,
                                  A(args.smooth), args.squared};
        A mean = 0;
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.probability(load(args.data, start + c * args.inner));
            mean += p * slopes.by(c, p, c == place.class_id);
        }
        for (int64_t c = 0; c < args.classes; ++c) {
            const A p = place.probability(load(args.data, start + c * args.inner));
            const A gradient = p * (slopes.by(c, p, c == place.class_id) - mean);
            store(args.data_grad, start + c * args.inner, place.counts() ? gradient : A(0), args.data_grad_request);
        }
    }
}
