// center_loss. Forward: a warp or a block per sample.
//
// Backward: gridDim.y blocks per class have a part of the samples each. A block finds the samples of the class among
// some neighbouring ones, writes their gradients, and adds them up for the centre; the last block adds up the sums of
// all parts. The samples keep their order, so the sums have one order. Samples without a class are one more class.
// Their gradient is NaN.
#include "../_blocks/blocks.cuh"
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { OWN = 16, WINDOW = OWN * THREADS };   // samples that a thread, and a block, looks at together

// The class of a label; no label is ignored.
template <typename L>
__device__ int64_t class_among(int64_t classes, L label)
{
    return class_of_label(label, classes, Optional<int64_t>{false, 0});
}

template <typename T, typename L>
__device__ void forward(const CenterLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t sample = first_row(); sample < args.batch; sample += row_step()) {
        const int64_t class_id = class_among(args.classes, args.label[sample]);
        A loss = not_a_number<A>();
        if (class_id != NO_CLASS) {
            const T *const x = args.data + sample * args.features;
            const T *const center = args.centers + class_id * args.features;
            A sum = 0;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < args.features; i += blockDim.x) {
                const A difference = load(x, i) - load(center, i);
                sum += difference * difference;
            }
            loss = reduce_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(args.output, sample, loss, args.output_request);
    }
}

// The samples of a class among WINDOW ones, counted from `first`, in their order. Returns how many they are.
template <typename T, typename L>
__device__ int find_members(const CenterLossArgs<T, L> &args, int64_t first, int64_t end, int64_t class_id,
                            int *members)
{
    const int64_t own_first = first + threadIdx.x * OWN;
    L labels[OWN];
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        labels[k] = args.label[minimum(own_first + k, end - 1)];
    bool is_member[OWN];
    int own = 0, all;
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        is_member[k] = own_first + k < end && class_among(args.classes, labels[k]) == class_id;
        own += is_member[k];
    }
    int place = sum_before<WARPS>(own, all);   // behind its barrier the members before are read
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        if (is_member[k])
            members[place++] = threadIdx.x * OWN + k;
    __syncthreads();   // the members are there
    return all;
}

// Writes the gradients of some samples at a feature. Returns their sum.
template <typename T, typename L, typename A>
__device__ A sum_gradients(const CenterLossArgs<T, L> &args, int64_t first, const int *members, int count,
                           int64_t feature, A center)
{
    enum { TOGETHER = 8 };   // samples whose loads are under way together
    A sum = 0;
    for (int n = 0; n < count; n += TOGETHER) {
        A gradients[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            const int64_t sample = first + members[minimum(n + k, count - 1)];
            const A difference = load(args.data, sample * args.features + feature) - center;
            gradients[k] = load(args.output_grad, sample) * difference;
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            if (n + k >= count)
                continue;
            store(args.data_grad, (first + members[n + k]) * args.features + feature, gradients[k],
                  args.data_grad_request);
            sum += gradients[k];
        }
    }
    return sum;
}

template <typename T, typename L>
__device__ void backward(const CenterLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    __shared__ int members[WINDOW];
    const Scratch<A> scratch(args.counts, args.sums);
    const int64_t classes = args.classes, features = args.features;
    const int64_t part_length = (args.batch + gridDim.y - 1) / gridDim.y, start = blockIdx.y * part_length;
    const int64_t end = minimum(start + part_length, args.batch);
    for (int64_t row = blockIdx.x; row <= classes; row += gridDim.x) {
        const bool is_class = row < classes;
        const int64_t class_id = is_class ? row : int64_t(NO_CLASS);
        volatile A *const sums = scratch.partial + (row * gridDim.y + blockIdx.y) * features;
        for (int64_t i = threadIdx.x; i < features; i += THREADS)
            sums[i] = 0;
        for (int64_t first = start; first < end; first += WINDOW) {
            const int count = find_members(args, first, end, class_id, members);
            for (int64_t i = threadIdx.x; count > 0 && i < features; i += THREADS) {
                const A center = is_class ? load(args.centers, row * features + i) : not_a_number<A>();
                sums[i] -= sum_gradients(args, first, members, count, i, center);
            }
        }
        if (!is_class || !scratch.is_last_block(row, gridDim.y))
            continue;
        for (int64_t i = threadIdx.x; i < features; i += THREADS)
            store(args.centers_grad, row * features + i,
                  scratch.sum(row * gridDim.y * features + i, gridDim.y, features), args.centers_grad_request);
    }
}
