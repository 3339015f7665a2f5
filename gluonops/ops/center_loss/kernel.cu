// center_loss. Forward: a warp or a block per sample.
//
// Backward: gridDim.y blocks per class have a split of the samples each. A block finds the samples of the class, its
// members, writes their gradients, and adds them up for the centre; the last block adds up the sums of all splits. The
// members are found in one order, so the sums have one order. Samples without a class are one more class. Their
// gradient is NaN.
#include "../_shared_rows/shared_rows.cuh"
#include "../_labels/labels.cuh"

enum { OWN = 16, WINDOW = OWN * THREADS };   // samples that a thread, and a block, looks at together
enum { FEW = 1024 };                         // members that a block does not take yet

// Returns the class of a label. No label is ignored here.
template <typename L>
__device__ int64_t class_among(int64_t classes, L label)
{
    return class_of_label(label, classes, Optional<int64_t>{false, 0});
}

// Returns the sum over a thread's features of the squared differences, COUNT neighbours at a time.
template <int COUNT, typename T>
__device__ typename Accumulator<T>::type squared_distance(const T *x, const T *center, int64_t features)
{
    typename Accumulator<T>::type sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x * COUNT; i < features; i += blockDim.x * COUNT) {
        const Pack<T, COUNT> own = load_pack<T, COUNT>(x, i), other = load_pack<T, COUNT>(center, i);
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            const auto difference = load(own.items, k) - load(other.items, k);
            sum += difference * difference;
        }
    }
    return sum;
}

template <typename T, typename L>
__device__ void forward(const CenterLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const bool in_packs = args.features % Pack<T>::SIZE == 0 && aligned(args.data, args.centers);
    for (int64_t sample = first_row(); sample < args.batch; sample += row_step()) {
        const int64_t class_id = class_among(args.classes, args.label[sample]);
        A loss = not_a_number<A>();
        if (class_id != NO_CLASS) {
            const T *const x = args.data + sample * args.features;
            const T *const center = args.centers + class_id * args.features;
            const A sum = in_packs ? squared_distance<Pack<T>::SIZE>(x, center, args.features)
                                   : squared_distance<1>(x, center, args.features);
            loss = reduce_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(args.output, sample, loss, args.output_request);
    }
}

// Adds the samples of a class among WINDOW ones, counted from `first`, to `count` members. Returns how many members
// there are then. A label is compared in its own type, which may not be able to hold the class.
template <typename T, typename L>
__device__ int add_members(const CenterLossArgs<T, L> &args, int64_t first, int64_t end, int64_t class_id,
                           int64_t *members, int count)
{
    const int64_t own_first = first + threadIdx.x;
    const int left = int(minimum(end - own_first, WINDOW));
    const L wanted = L(class_id);
    const bool has_class = int64_t(wanted) == class_id;
    L labels[OWN];
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        labels[k] = k * THREADS < left ? args.label[own_first + k * THREADS] : L(0);
    unsigned own = 0;   // a bit for each label
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        const bool is_member = class_id == NO_CLASS ? class_among(args.classes, labels[k]) == NO_CLASS
                                                    : has_class && labels[k] == wanted;
        own |= unsigned(is_member && k * THREADS < left) << k;
    }
    int all, index = count + sum_before<WARPS>(__popc(own), all);   // behind its barrier the members before are read
    for (; own != 0; ++index) {
        const int k = 31 - __clz(own);
        own ^= 1u << k;
        members[index] = own_first + k * THREADS;
    }
    __syncthreads();   // the members are there
    return count + all;
}

// Writes the gradients of some samples at a feature. Returns their sum.
template <typename T, typename L, typename A>
__device__ A sum_gradients(const CenterLossArgs<T, L> &args, const int64_t *members, int count, int64_t feature,
                           A center)
{
    enum { TOGETHER = 8 };   // samples whose loads are under way together
    A sum = 0;
    for (int n = 0; n < count; n += TOGETHER) {
        A gradients[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            const int64_t sample = members[n + k < count ? n + k : count - 1];
            const A difference = load(args.data, sample * args.features + feature) - center;
            gradients[k] = load(args.output_grad, sample) * difference;
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            if (n + k >= count)
                continue;
            store(args.data_grad, members[n + k] * args.features + feature, gradients[k], args.data_grad_request);
            sum += gradients[k];
        }
    }
    return sum;
}

template <typename T, typename L>
__device__ void backward(const CenterLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    __shared__ int64_t members[FEW + WINDOW];
    const PartialResults<A> scratch(args.counts, args.sums);
    const int64_t classes = args.classes, features = args.features;
    const int64_t split_length = (args.batch + gridDim.y - 1) / gridDim.y, start = blockIdx.y * split_length;
    const int64_t end = minimum(start + split_length, args.batch);
    for (int64_t row = blockIdx.x; row <= classes; row += gridDim.x) {
        const bool is_class = row < classes;
        const int64_t class_id = is_class ? row : int64_t(NO_CLASS);
        volatile A *const sums = scratch.partial + (row * gridDim.y + blockIdx.y) * features;
        for (int64_t i = threadIdx.x; i < features; i += THREADS)
            sums[i] = 0;
        int count = 0;
        for (int64_t first = start; first < end; first += WINDOW) {
            count = add_members(args, first, end, class_id, members, count);
            if (count <= FEW && first + WINDOW < end)
                continue;
            for (int64_t i = threadIdx.x; count > 0 && i < features; i += THREADS) {
                const A center = is_class ? load(args.centers, row * features + i) : not_a_number<A>();
                sums[i] -= sum_gradients(args, members, count, i, center);
            }
            count = 0;
        }
        if (!is_class || !scratch.is_last_block(row, gridDim.y))
            continue;
        for (int64_t i = threadIdx.x; i < features; i += THREADS)
            store(args.centers_grad, row * features + i,
                  scratch.sum(row * gridDim.y * features + i, gridDim.y, features), args.centers_grad_request);
    }
}
