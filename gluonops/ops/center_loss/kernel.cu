// center_loss. Forward: a warp or a block per sample.
//
// Backward: gridDim.y blocks per class have a part of the samples each. A block finds the samples of the class among some
// neighbouring ones, writes their gradients, and adds them up for the centre; the last block adds up the sums of all
// parts. The samples keep their order, so the sums have one order. Samples without a class are one more
// class. Their gradient is NaN.
#include "../_blocks/blocks.cuh"
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { OWN = 4, WINDOW = OWN * THREADS };          // samples that a thread, and a block, looks at together
enum { HELD = 2, TILE_FEATURES = HELD * THREADS };   // features that a thread, and a block, has at most

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_forward(const T *__restrict__ data, const L *__restrict__ label, const T *__restrict__ centers,
                    T *__restrict__ output, double *__restrict__ partial, int output_request, int64_t step,
                    int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t sample = first_row(); sample < batch; sample += row_step()) {
        const int64_t class_id = class_of(label, sample, classes, false, 0);
        A loss = not_a_number<A>();
        if (class_id != NO_CLASS) {
            const T *const x = data + sample * features, *const center = centers + class_id * features;
            A sum = 0;
#pragma unroll 4
            for (int64_t i = threadIdx.x; i < features; i += blockDim.x) {
                const A difference = load(x, i) - load(center, i);
                sum += difference * difference;
            }
            loss = reduce_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(output, sample, loss, output_request);
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
        is_member[k] = own_first + k < end && class_of_label(labels[k], classes, false, 0) == class_id;
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

template <typename T> struct Tensors {
    const T *output_grad, *data, *centers;
    T *data_grad, *centers_grad;
    int data_grad_request, centers_grad_request;
    int64_t batch, classes, features;
};

// The features of a thread in a tile, and the sums of the centre's gradient.
template <typename T>
struct CenterSums {
    typedef typename Accumulator<T>::type A;
    const Tensors<T> &tensors;
    Share share;
    int64_t class_id, first_feature;
    A center[HELD], sums[HELD];

    __device__ CenterSums(const Tensors<T> &tensors, int64_t class_id, int64_t tile)
        : tensors(tensors), share(tensors.features), class_id(class_id),
          first_feature(tile * TILE_FEATURES + share.column)
    {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            sums[k] = 0;
            center[k] = not_a_number<A>();
            if (class_id < tensors.classes && has(k))
                center[k] = load(tensors.centers, class_id * tensors.features + feature(k));
        }
    }

    __device__ int64_t feature(int k) const { return first_feature + k * share.columns; }
    __device__ bool has(int k) const { return feature(k) < tensors.features; }

    // Writes the gradient of a sample of the class, and adds it.
    __device__ void add(int64_t sample)
    {
        const A head = load(tensors.output_grad, sample);
        A x[HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            x[k] = has(k) ? load(tensors.data, sample * tensors.features + feature(k)) : A(0);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const A gradient = head * (x[k] - center[k]);
            sums[k] -= gradient;
            if (has(k))
                store(tensors.data_grad, sample * tensors.features + feature(k), gradient, tensors.data_grad_request);
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
        const int64_t in_class = class_id * gridDim.y * tensors.features;
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            if (share.slice == 0 && has(k))
                scratch.partial[in_class + blockIdx.y * tensors.features + feature(k)] = sums[k];
        if (!scratch.is_last_block(row, gridDim.y))
            return;
#pragma unroll
        for (int k = 0; k < HELD; ++k)
            if (share.slice == 0 && has(k))
                store(tensors.centers_grad, class_id * tensors.features + feature(k),
                      scratch.sum(in_class + feature(k), gridDim.y, tensors.features), tensors.centers_grad_request);
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
center_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                     const T *__restrict__ centers, T *__restrict__ data_grad, T *__restrict__ centers_grad,
                     double *__restrict__ partial, int data_grad_request, int centers_grad_request, int64_t step,
                     int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    __shared__ int64_t members[WINDOW];
    const int64_t tiles = (features + TILE_FEATURES - 1) / TILE_FEATURES;
    if (step == 0) {
        clear_counts(partial, classes * tiles);
        return;
    }
    const Scratch<A> scratch(partial, classes * tiles);
    const Tensors<T> tensors = {output_grad, data, centers, data_grad, centers_grad, data_grad_request,
                                centers_grad_request, batch, classes, features};
    const int64_t part_length = (batch + gridDim.y - 1) / gridDim.y, start = blockIdx.y * part_length;
    const int64_t end = minimum(start + part_length, batch);
    for (int64_t class_id = blockIdx.x; class_id <= classes; class_id += gridDim.x)
        for (int64_t tile = 0; tile < tiles; ++tile) {
            CenterSums<T> sums(tensors, class_id, tile);
            for (int64_t first = start; first < end; first += WINDOW) {
                const int64_t wanted = class_id < classes ? class_id : int64_t(NO_CLASS);
                const int count = find_members(label, first, end, wanted, classes, members);
                for (int n = sums.share.slice; n < count; n += sums.share.slices)
                    sums.add(members[n]);
            }
            if (class_id < classes) {
                sums.add_slices();
                sums.finish(scratch, class_id * tiles + tile);
            }
        }
}
