// center_loss. Forward: a warp or a block per sample. Bytes moved: the features, and as many of the centres.
//
// Backward has steps:
//     SORT      each block sorts CHUNK samples by class;
//     SUM       gridDim.y blocks per class find its samples in the chunks. They compute the gradient of these samples,
//               and add it up for the centre. Every feature is read once;
//     COMBINE   where several blocks share a class, their sums are added.
// The samples of a class keep their order, so the sums have one order: the same batch gives the same bits. Samples
// without a class are sorted as one more class. Their gradient is NaN.
#include "../_labels/labels.cuh"

enum { THREADS = 256, CHUNK = 512, CHUNKS = THREADS / 2, WINDOW = 1024, IN_FLIGHT = 4 };
enum Step { SORT, SUM, COMBINE };

// SIZE neighbours of a row: one element, or a pack.
template <int SIZE, typename T>
struct Neighbours {
    Pack<T> pack;

    __device__ Neighbours() {}
    __device__ Neighbours(const T *__restrict__ from, int64_t i)
    {
        if (SIZE == 1)
            pack.items[0] = from[i];
        else
            pack = load_pack(from, i);
    }
    __device__ typename Accumulator<T>::type operator[](int k) const { return load(pack.items, k); }
};

template <int SIZE, typename T>
__device__ void store_neighbours(T *to, int64_t i, const typename Accumulator<T>::type *values, int request)
{
    if (SIZE == 1)
        store(to, i, values[0], request);
    else
        store_pack(to, i, values, request);
}

// The features of a row that a thread takes at a time: a pack where rows consist of them, else one.
template <typename T>
__device__ bool packed(int64_t features, const T *a, const T *b)
{
    return features % Pack<T>::SIZE == 0 && aligned(a) && aligned(b);
}

// The squared distance of a thread's features, SIZE neighbours at a time.
template <int SIZE, typename T>
__device__ typename Accumulator<T>::type squared_distance(const T *__restrict__ sample, const T *__restrict__ center,
                                                          int64_t features)
{
    typedef typename Accumulator<T>::type A;
    A sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x * SIZE; i < features; i += blockDim.x * SIZE) {
        const Neighbours<SIZE, T> x(sample, i), c(center, i);
#pragma unroll
        for (int k = 0; k < SIZE; ++k) {
            const A difference = x[k] - c[k];
            sum += difference * difference;
        }
    }
    return sum;
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
center_loss_forward(const T *__restrict__ data, const L *__restrict__ label, const T *__restrict__ centers,
                    T *__restrict__ output, double *__restrict__ partial, int output_request, int64_t step,
                    int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    const bool in_packs = packed(features, data, centers);
    for (int64_t sample = first_row(); sample < batch; sample += row_step()) {
        const int64_t class_id = class_of(label, sample, classes, false, 0);
        A loss = not_a_number<A>();
        if (class_id != NO_CLASS) {
            const T *const x = data + sample * features, *const center = centers + class_id * features;
            const A sum = in_packs ? squared_distance<Pack<T>::SIZE>(x, center, features)
                                   : squared_distance<1>(x, center, features);
            loss = reduce_row(sum, Sum()) / 2;
        }
        if (threadIdx.x == 0)
            store(output, sample, loss, output_request);
    }
}

// A class and a sample in one number, which compares like (class, sample).
struct Key {
    int64_t batch, classes;

    template <typename L>
    __device__ int64_t of(const L *__restrict__ label, int64_t sample) const
    {
        const int64_t class_id = class_of(label, sample, classes, false, 0);
        return first_of(class_id == NO_CLASS ? classes : class_id) + sample;
    }
    __device__ int64_t first_of(int64_t class_id) const { return class_id * batch; }
    __device__ int64_t chunks() const { return (batch + CHUNK - 1) / CHUNK; }
};

// How many of `count` sorted numbers are below `limit`.
template <typename N>
__device__ int count_below(const N *numbers, int count, N limit)
{
    int low = 0;
    while (low < count) {
        const int middle = (low + count) / 2;
        if (numbers[middle] < limit)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

// Sorts `size` keys, a power of two, with all threads of the block: bitonic sort.
__device__ inline void sort(int64_t *keys, unsigned size)
{
    for (unsigned length = 2; length <= size; length *= 2)
        for (unsigned distance = length / 2; distance > 0; distance /= 2) {
            __syncthreads();   // the keys are in place
            for (unsigned pair = threadIdx.x; pair < size / 2; pair += THREADS) {
                const unsigned low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                const bool ascending = (low & length) == 0;
                const int64_t a = keys[low], b = keys[high];
                if ((a > b) == ascending) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
        }
    __syncthreads();   // the keys are sorted
}

// SORT: the sorted keys of each chunk.
template <typename L>
__device__ void sort_chunks(const L *__restrict__ label, int64_t *__restrict__ sorted, const Key &key)
{
    __shared__ int64_t keys[CHUNK];
    for (int64_t first = int64_t(blockIdx.x) * CHUNK; first < key.batch; first += int64_t(gridDim.x) * CHUNK) {
        const unsigned count = unsigned(minimum(CHUNK, key.batch - first));
        unsigned size = 1;
        while (size < count)
            size *= 2;
        for (unsigned i = threadIdx.x; i < size; i += THREADS)
            keys[i] = i < count ? key.of(label, first + i) : key.first_of(key.classes + 1);
        sort(keys, size);
        for (unsigned i = threadIdx.x; i < count; i += THREADS)
            sorted[first + i] = keys[i];
    }
}

// The samples of one class in CHUNKS chunks, in shared memory.
struct Members {
    int64_t samples[WINDOW];         // some of them
    int bounds[CHUNKS][2];           // where the class begins and ends in each chunk
    int counts_before[CHUNKS + 1];   // of samples in the chunks before each chunk

    // Finds the class in the chunks from `chunk` on.
    __device__ void find(const int64_t *__restrict__ sorted, const Key &key, int64_t class_id, int64_t chunk)
    {
        const int number = threadIdx.x / 2, end = threadIdx.x % 2;
        const int64_t start = (chunk + number) * CHUNK;
        const int size = int(minimum(CHUNK, key.batch - start));
        bounds[number][end] = size > 0 ? count_below(sorted + start, size, key.first_of(class_id + end)) : 0;
        __syncthreads();   // the bounds are there
        int count = 0;
#pragma unroll 8
        for (int other = 0; other < number; ++other)
            count += bounds[other][1] - bounds[other][0];
        if (end == 0)
            counts_before[number] = count;
        else if (number == CHUNKS - 1)
            counts_before[CHUNKS] = count + bounds[number][1] - bounds[number][0];
        __syncthreads();   // the counts are there
    }

    __device__ int count() const { return counts_before[CHUNKS]; }

    // Fills `samples` with `count` of them, from number `first` on.
    __device__ void take(const int64_t *__restrict__ sorted, const Key &key, int64_t chunk, int first, int count)
    {
        __syncthreads();   // the samples before may still be read
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int number = count_below(counts_before, CHUNKS + 1, first + i + 1) - 1;
            const int place = bounds[number][0] + first + i - counts_before[number];
            samples[i] = sorted[(chunk + number) * CHUNK + place] % key.batch;
        }
        __syncthreads();   // the samples are there
    }
};

// The sums of a class are computed by threads side by side, for neighbouring features, and by `slices` threads each of
// which takes every slices-th sample.
struct Threads {
    unsigned columns, slices, column, slice;   // powers of two

    __device__ explicit Threads(int64_t groups)   // of features
    {
        columns = THREADS;
        while (columns / 2 >= groups && columns > 1)
            columns /= 2;
        slices = THREADS / columns;
        column = threadIdx.x % columns;
        slice = threadIdx.x / columns;
    }
};

template <typename T, typename A> struct Arrays {
    const T *output_grad, *data, *centers;
    T *data_grad, *centers_grad;
    int data_grad_request, centers_grad_request;
    int64_t features;
    const int64_t *sorted;
    A *sums;   // (classes, gridDim.y, features): where several blocks share a class
};

// The sums of a thread: SIZE features of the samples of one class.
template <int SIZE, typename T, typename A>
struct Sums {
    Neighbours<SIZE, T> center;
    A of[SIZE];

    __device__ explicit Sums(const T *__restrict__ center) : center(center, 0)
    {
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            of[k] = 0;
    }

    // Takes every step-th of `count` samples, from number `n` on. IN_FLIGHT loads are under way together. Behind the
    // last sample, the last one is loaded again.
    __device__ void add(const Arrays<T, A> &arrays, const int64_t *samples, int n, int count, int step, int64_t feature,
                        bool writes)
    {
        for (; n < count; n += IN_FLIGHT * step) {
            A heads[IN_FLIGHT];
            Neighbours<SIZE, T> x[IN_FLIGHT];
#pragma unroll
            for (int j = 0; j < IN_FLIGHT; ++j) {
                const int64_t sample = samples[minimum(n + j * step, count - 1)];
                x[j] = Neighbours<SIZE, T>(arrays.data, sample * arrays.features + feature);
                heads[j] = load(arrays.output_grad, sample);
            }
#pragma unroll
            for (int j = 0; j < IN_FLIGHT; ++j)
                if (n + j * step < count) {
                    A grad[SIZE];
#pragma unroll
                    for (int k = 0; k < SIZE; ++k) {
                        grad[k] = heads[j] * (x[j][k] - center[k]);
                        of[k] -= grad[k];
                    }
                    if (writes)
                        store_neighbours<SIZE>(arrays.data_grad, samples[n + j * step] * arrays.features + feature,
                                               grad, arrays.data_grad_request);
                }
        }
    }

    // The sums of all slices, in the threads of the first.
    __device__ void add_slices(const Threads &threads)
    {
        __shared__ A of_threads[THREADS][SIZE];
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            of_threads[threadIdx.x][k] = of[k];
        __syncthreads();   // every thread's sums are there
        for (unsigned other = 1; threads.slice == 0 && other < threads.slices; ++other)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                of[k] += of_threads[other * threads.columns + threads.column][k];
    }
};

// SUM: this block's part of the samples of a class.
template <int SIZE, typename T, typename A>
__device__ void sum_class(const Arrays<T, A> &arrays, const Key &key, int64_t class_id, Members &members)
{
    const int64_t groups = arrays.features / SIZE;
    const Threads threads(groups);
    for (int64_t base = 0; base < groups; base += threads.columns) {
        const bool writes = base + threads.column < groups;
        const int64_t feature = minimum(base + threads.column, groups - 1) * SIZE;
        Sums<SIZE, T, A> sums(arrays.centers + class_id * arrays.features + feature);
        for (int64_t chunk = 0; chunk < key.chunks(); chunk += CHUNKS) {
            members.find(arrays.sorted, key, class_id, chunk);
            const int first = int(int64_t(members.count()) * blockIdx.y / gridDim.y);
            const int end = int(int64_t(members.count()) * (blockIdx.y + 1) / gridDim.y);
            for (int start = first; start < end; start += WINDOW) {
                const int count = int(minimum(WINDOW, end - start));
                members.take(arrays.sorted, key, chunk, start, count);
                sums.add(arrays, members.samples, threads.slice, count, threads.slices, feature, writes);
            }
        }
        sums.add_slices(threads);
        if (threads.slice != 0 || !writes)
            continue;
        if (gridDim.y == 1)
            store_neighbours<SIZE>(arrays.centers_grad, class_id * arrays.features + feature, sums.of,
                                   arrays.centers_grad_request);
        else
            for (int k = 0; k < SIZE; ++k)
                arrays.sums[(class_id * gridDim.y + blockIdx.y) * arrays.features + feature + k] = sums.of[k];
    }
}

// The gradient of samples without a class.
template <typename T, typename A>
__device__ void fill_with_nan(const Arrays<T, A> &arrays, const Key &key, Members &members)
{
    for (int64_t chunk = 0; chunk < key.chunks(); chunk += CHUNKS) {
        members.find(arrays.sorted, key, key.classes, chunk);
        for (int start = 0; start < members.count(); start += WINDOW) {
            const int count = int(minimum(WINDOW, members.count() - start));
            members.take(arrays.sorted, key, chunk, start, count);
            for (int n = blockIdx.y; n < count; n += gridDim.y)
                for (int64_t i = threadIdx.x; i < arrays.features; i += THREADS)
                    store(arrays.data_grad, members.samples[n] * arrays.features + i, not_a_number<A>(),
                          arrays.data_grad_request);
        }
    }
}

template <typename T, typename A>
__device__ void sum_classes(const Arrays<T, A> &arrays, const Key &key)
{
    __shared__ Members members;
    const bool in_packs = packed(arrays.features, arrays.data, arrays.centers) && aligned(arrays.data_grad) &&
                          aligned(arrays.centers_grad);
    for (int64_t class_id = blockIdx.x; class_id <= key.classes; class_id += gridDim.x) {
        if (class_id == key.classes)
            fill_with_nan(arrays, key, members);
        else if (in_packs)
            sum_class<Pack<T>::SIZE>(arrays, key, class_id, members);
        else
            sum_class<1>(arrays, key, class_id, members);
    }
}

// COMBINE: the sums of the blocks that share a class.
template <typename T, typename A>
__device__ void combine(const Arrays<T, A> &arrays, int64_t classes)
{
    const int64_t blocks = gridDim.y, thread = (blockIdx.y * int64_t(gridDim.x) + blockIdx.x) * THREADS + threadIdx.x;
    for (int64_t i = thread; i < classes * arrays.features; i += blocks * gridDim.x * THREADS) {
        const int64_t class_id = i / arrays.features, feature = i - class_id * arrays.features;
        A sum = 0;
#pragma unroll 8
        for (int64_t block = 0; block < blocks; ++block)
            sum += arrays.sums[(class_id * blocks + block) * arrays.features + feature];
        store(arrays.centers_grad, i, sum, arrays.centers_grad_request);
    }
}

// `partial`: the sorted keys, and the sums of the blocks that share a class.
template <typename T, typename L>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 || sizeof(L) == 8 ? 2 : 3)
center_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                     const T *__restrict__ centers, T *__restrict__ data_grad, T *__restrict__ centers_grad,
                     double *__restrict__ partial, int data_grad_request, int centers_grad_request, int64_t step,
                     int64_t batch, int64_t classes, int64_t features)
{
    typedef typename Accumulator<T>::type A;
    const Key key = {batch, classes};
    int64_t *const sorted = reinterpret_cast<int64_t *>(partial);
    const Arrays<T, A> arrays = {output_grad, data, centers, data_grad, centers_grad, data_grad_request,
                                 centers_grad_request, features, sorted, reinterpret_cast<A *>(partial + batch)};
    if (step == SORT && blockIdx.y == 0)
        sort_chunks(label, sorted, key);
    if (step == SUM)
        sum_classes(arrays, key);
    if (step == COMBINE && centers_grad_request != NOTHING)
        combine(arrays, classes);
}
