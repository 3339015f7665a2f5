// center_loss. Forward: a warp or a block per sample.
//
// Backward: gridDim.y blocks per class have a part of the samples each. A block finds the samples of the class among some
// neighbouring ones, writes their gradients, and adds them up for the centre; the last block adds up the sums of all
// parts. The samples keep their order, so the sums have one order. Samples without a class are one more
// class. Their gradient is NaN.
#include "../_blocks/blocks.cuh"
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { OWN = WINDOW / THREADS };          // samples that a thread looks at together
enum { HELD = TILE_FEATURES / THREADS };   // features that a thread has at most

// The class of a label; no label is ignored.
template <typename L>
__device__ int64_t class_among(int64_t classes, L label)
{
    const Optional<int64_t> none = {false, 0};
    return class_of_label(label, classes, none);
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

// The samples of a class among WINDOW ones from `first` on, in their order. Returns how many they are.
template <typename L>
__device__ int find_members(const L *__restrict__ label, int64_t first, int64_t end, int64_t class_id, int64_t classes,
                            int64_t *members)
{
    const int64_t own_first = first + threadIdx.x * OWN;
    L labels[OWN];
    bool is_member[OWN];
    int own = 0, all;
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        labels[k] = label[minimum(own_first + k, end - 1)];
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
        is_member[k] = own_first + k < end && class_among(classes, labels[k]) == class_id;
        own += is_member[k];
    }
    int place = sum_before<WARPS>(own, all);   // behind its barrier the members before are read
#pragma unroll
    for (int k = 0; k < OWN; ++k)
        if (is_member[k])
            members[place++] = own_first + k;
    __syncthreads();   // the members are there
    return all;
}

// How a block shares the features of a tile and the samples: `columns` threads have every columns-th feature, and
// `slices` threads every slices-th sample. Both are powers of two.
struct Share {
    int columns, slices, column, slice;

    __device__ explicit Share(int64_t features) : columns(1)
    {
        while (columns < THREADS && columns < features)
            columns *= 2;
        slices = THREADS / columns;
        column = threadIdx.x % columns;
        slice = threadIdx.x / columns;
    }
};

// The features of a thread in a tile, and the sums of the centre's gradient.
template <typename T, typename L>
struct CenterSums {
    typedef typename Accumulator<T>::type A;
    const CenterLossArgs<T, L> &args;
    Share share;
    int64_t class_id, first_feature;
    A center[HELD], sums[HELD];

    __device__ CenterSums(const CenterLossArgs<T, L> &args, int64_t class_id, int64_t tile)
        : args(args), share(args.features), class_id(class_id),
          first_feature(tile * TILE_FEATURES + share.column)
    {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            sums[k] = 0;
            center[k] = not_a_number<A>();
            if (class_id < args.classes && has(k))
                center[k] = load(args.centers, class_id * args.features + feature(k));
        }
    }

    __device__ int64_t feature(int k) const { return first_feature + k * share.columns; }
    __device__ bool has(int k) const { return feature(k) < args.features; }

    // Writes the gradient of a sample of the class, and adds it.
    __device__ void add(int64_t sample)
    {
        const A head = load(args.output_grad, sample);
        A x[HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            x[k] = has(k) ? load(args.data, sample * args.features + feature(k)) : A(0);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const A gradient = head * (x[k] - center[k]);
            sums[k] -= gradient;
            if (has(k))
                store(args.data_grad, sample * args.features + feature(k), gradient, args.data_grad_request);
        }
    }

    // Gives the threads of the first slice the sums of all slices.
    __device__ void add_slices()
    {
        __shared__ A of_threads[HELD][THREADS];
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            of_threads[k][threadIdx.x] = sums[k];
        __syncthreads();   // the sums of all threads
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            for (int other = 1; other < share.slices && share.slice == 0; ++other)
                sums[k] += of_threads[k][other * share.columns + share.column];
    }

    // The sums of all blocks, by the last one of them.
    __device__ void finish(const Scratch<A> &scratch, int64_t row)
    {
        const int64_t in_class = class_id * gridDim.y * args.features;
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            if (share.slice == 0 && has(k))
                scratch.partial[in_class + blockIdx.y * args.features + feature(k)] = sums[k];
        if (!scratch.is_last_block(row, gridDim.y))
            return;
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            if (share.slice == 0 && has(k))
                store(args.centers_grad, class_id * args.features + feature(k),
                      scratch.sum(in_class + feature(k), gridDim.y, args.features), args.centers_grad_request);
    }
};

template <typename T, typename L>
__device__ void backward(const CenterLossArgs<T, L> &args)
{
    __shared__ int64_t members[WINDOW];
    const int64_t classes = args.classes, tiles = args.tiles;
    const Scratch<typename Accumulator<T>::type> scratch(args.counts, args.sums);
    const int64_t part_length = (args.batch + gridDim.y - 1) / gridDim.y, start = blockIdx.y * part_length;
    const int64_t end = minimum(start + part_length, args.batch);
    for (int64_t class_id = blockIdx.x; class_id <= classes; class_id += gridDim.x)
        for (int64_t tile = 0; tile < tiles; ++tile) {
            CenterSums<T, L> sums(args, class_id, tile);
            for (int64_t first = start; first < end; first += WINDOW) {
                const int64_t wanted = class_id < classes ? class_id : int64_t(NO_CLASS);
                const int count = find_members(args.label, first, end, wanted, classes, members);
                for (int n = sums.share.slice; n < count; n += sums.share.slices)
                    sums.add(members[n]);
            }
            if (class_id < classes) {
                sums.add_slices();
                sums.finish(scratch, class_id * tiles + tile);
            }
        }
}
