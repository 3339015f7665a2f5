// center_loss. Forward: a warp or a block per sample. Bytes moved: the features, and as many of the centres.
//
// Backward has steps:
//     SORT      each block sorts CHUNK samples by class, and notes where the classes begin;
//     SUM       gridDim.y blocks per class find its samples in the chunks. They compute the gradient of these samples,
//               and add it up for the centre. Every feature is read once. The last of these blocks adds their sums.
// The samples of a class keep their order, so the sums have one order: the same batch gives the same bits. Samples
// without a class are sorted as one more class. Their gradient is NaN.
#include "../_labels/labels.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, CHUNK = THREADS, CHUNKS = THREADS, WINDOW = 1024 };
enum Step { SORT, SUM };

// Of backward, as many as there are registers for: the blocks of a multiprocessor, and the loads that a thread has
// under way together.
template <typename T> struct Residents { enum { BLOCKS = 2, IN_FLIGHT = 3 }; };
template <> struct Residents<float> { enum { BLOCKS = 4, IN_FLIGHT = 2 }; };
template <> struct Residents<__half> { enum { BLOCKS = 3, IN_FLIGHT = 3 }; };

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
                    int64_t batch, int64_t classes, int64_t features, int64_t bucket_bits)
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

__device__ inline int64_t this_block() { return blockIdx.y * int64_t(gridDim.x) + blockIdx.x; }
__device__ inline int64_t all_blocks() { return int64_t(gridDim.x) * gridDim.y; }

// The samples, sorted by class within each chunk. A key has a class, and a sample's place in its chunk. A bucket is as
// many classes as there is room to note where they begin, mostly one.
struct Chunks {
    int64_t batch, classes, bucket_bits;
    int64_t *keys;   // and behind them: starts (chunks, buckets + 1), in each chunk

    __device__ int count() const { return int((batch + CHUNK - 1) / CHUNK); }
    __device__ int64_t buckets() const { return (classes >> bucket_bits) + 1; }
    __device__ unsigned short *starts_of(int64_t chunk) const
    {
        return reinterpret_cast<unsigned short *>(keys + batch) + chunk * (buckets() + 1);
    }
    // Of the keys and the starts, in float64.
    __device__ int64_t size(int64_t batch) const { return batch + (count() * (buckets() + 1) + 3) / 4; }
    __device__ static int64_t first_key(int64_t class_id) { return class_id * CHUNK; }

    // Of this thread's sample.
    template <typename L>
    __device__ int64_t key_of(const L *__restrict__ label, int64_t sample) const
    {
        int64_t class_id = classes + 1;   // behind the end
        if (sample < batch) {
            class_id = class_of(label, sample, classes, false, 0);
            class_id = class_id == NO_CLASS ? classes : class_id;
        }
        return first_key(class_id) + threadIdx.x;
    }

    __device__ int64_t sample(int chunk, int place) const
    {
        const int64_t first = int64_t(chunk) * CHUNK;
        return first + keys[first + place] % CHUNK;
    }
};

// How many of `count` sorted numbers are below `limit`.
template <typename N>
__device__ int count_below(const N *numbers, int count, N limit)
{
    int low = 0;
#pragma unroll 1
    while (low < count) {
        const int middle = (low + count) / 2;
        if (numbers[middle] < limit)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

// Shows the threads of a block one another's keys. Those shown before are still there, as they may be read.
struct Shown {
    int64_t keys[2][CHUNK];

    __device__ const int64_t *show(int64_t key, int &turn)
    {
        turn = 1 - turn;
        keys[turn][threadIdx.x] = key;
        __syncthreads();   // the keys are there
        return keys[turn];
    }
};

// One of two threads' keys, in the order of a bitonic sort.
__device__ inline int64_t ordered(int64_t key, int64_t other, unsigned length, unsigned distance)
{
    const bool takes_lower = ((threadIdx.x & length) == 0) == ((threadIdx.x & distance) == 0);
    return (other < key) == takes_lower ? other : key;
}

// The threads' keys in order: bitonic sort.
__device__ inline int64_t sort(int64_t key, Shown &shown, int &turn)
{
#pragma unroll 1
    for (unsigned length = 2; length <= CHUNK; length *= 2) {
#pragma unroll 1
        for (unsigned distance = length / 2; distance >= 32; distance /= 2)
            key = ordered(key, shown.show(key, turn)[threadIdx.x ^ distance], length, distance);
#pragma unroll
        for (unsigned distance = 16; distance > 0; distance /= 2)
            if (distance < length)
                key = ordered(key, __shfl_xor_sync(0xffffffffu, key, distance), length, distance);
    }
    return key;
}

// SORT: a block takes a chunk at a time.
template <typename L>
__device__ void sort_chunks(const L *__restrict__ label, const Chunks &chunks)
{
    __shared__ Shown shown;
    int turn = 0;
    for (int64_t chunk = this_block(); chunk < chunks.count(); chunk += all_blocks()) {
        const int64_t sample = chunk * CHUNK + threadIdx.x;
        const int64_t key = sort(chunks.key_of(label, sample), shown, turn);
        if (sample < chunks.batch)
            chunks.keys[sample] = key;
        const int64_t *const keys = shown.show(key, turn);
        unsigned short *const starts = chunks.starts_of(chunk);
        for (int64_t bucket = threadIdx.x; bucket <= chunks.buckets(); bucket += THREADS)
            starts[bucket] = count_below(keys, CHUNK, chunks.first_key(bucket << chunks.bucket_bits));
    }
}

// The samples of one class in CHUNKS chunks, in shared memory.
template <typename A>
struct Members {
    int64_t rows[WINDOW];   // where the features of some of them begin
    A heads[WINDOW];        // and their head gradients
    int begins[CHUNKS];     // where the class begins in each chunk
    int before[CHUNKS];     // samples in the chunks before each chunk

    // Finds the class in the chunks from `chunk` on, a thread in each. Returns how many samples there are.
    __device__ int find(const Chunks &chunks, int64_t class_id, int chunk)
    {
        int begin = 0, end = 0, total;
        if (chunk + threadIdx.x < chunks.count()) {
            const int64_t bucket = class_id >> chunks.bucket_bits;
            const unsigned short *const starts = chunks.starts_of(chunk + threadIdx.x);
            begin = starts[bucket];
            end = starts[bucket + 1];
            if (chunks.bucket_bits > 0) {
                const int64_t *const keys = chunks.keys + int64_t(chunk + threadIdx.x) * CHUNK + begin;
                const int count = end - begin;
                end = begin + count_below(keys, count, chunks.first_key(class_id + 1));
                begin += count_below(keys, count, chunks.first_key(class_id));
            }
        }
        begins[threadIdx.x] = begin;
        before[threadIdx.x] = sum_before<WARPS>(end - begin, total);
        __syncthreads();   // the class is found
        return total;
    }

    // Takes `count` of them, from number `first` on.
    template <typename T>
    __device__ void take(const T *__restrict__ output_grad, const Chunks &chunks, int64_t features, int chunk,
                         int first, int count)
    {
#pragma unroll 1
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int number = count_below(before, CHUNKS, first + i + 1) - 1;
            const int64_t sample = chunks.sample(chunk + number, begins[number] + first + i - before[number]);
            rows[i] = sample * features;
            heads[i] = load(output_grad, sample);
        }
        __syncthreads();   // the samples are there
    }

    __device__ void release() const
    {
        __syncthreads();   // the samples are read
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
};

// What the blocks of a class share: counts of those that have come, one for each warp of features, and their sums.
template <typename A>
struct Shared {
    unsigned *counts;
    volatile A *sums;   // (classes, gridDim.y, features)
    int64_t features, warps;

    // None of this is computed before it is needed: there are no registers for it.
    __device__ Shared(const Chunks &chunks, int64_t features) : features(opaque(features)), warps((features + 31) / 32)
    {
        double *const behind_starts = reinterpret_cast<double *>(chunks.keys) + chunks.size(opaque(chunks.batch));
        counts = reinterpret_cast<unsigned *>(behind_starts);
        sums = reinterpret_cast<A *>(behind_starts + chunks.classes * warps);
    }

    __device__ void empty(int64_t classes) const
    {
        const int64_t thread = this_block() * THREADS + threadIdx.x;
        for (int64_t i = thread; i < classes * warps; i += all_blocks() * THREADS)
            counts[i] = 0;
    }

    // The sums of all blocks of a class, where this thread's warp is the last one to come with its features. Whether
    // this thread has some.
    template <int SIZE>
    __device__ bool gather(int64_t class_id, int64_t feature, bool has_sums, A *own) const
    {
        volatile A *from = sums + class_id * gridDim.y * features + feature;   // of the first block
        if (has_sums)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                from[blockIdx.y * features + k] = own[k];
        __syncwarp();
        int is_last = 0;
        if (threadIdx.x % 32 == 0) {
            __threadfence();
            is_last = atomicInc(counts + class_id * warps + feature / (32 * SIZE), gridDim.y - 1) == gridDim.y - 1;
            __threadfence();
        }
        if (!__shfl_sync(0xffffffffu, is_last, 0) || !has_sums)
            return false;
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            own[k] = 0;
        enum { TOGETHER = 16 / SIZE };
        int left = gridDim.y;
#pragma unroll 1
        for (; left >= TOGETHER; left -= TOGETHER) {
            A others[TOGETHER][SIZE];
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j, from += features)
#pragma unroll
                for (int k = 0; k < SIZE; ++k)
                    others[j][k] = from[k];
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                for (int k = 0; k < SIZE; ++k)
                    own[k] += others[j][k];
        }
#pragma unroll 1
        for (; left > 0; --left, from += features)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                own[k] += from[k];
        return true;
    }
};

// The sums of a thread: SIZE features of the samples of one class.
template <int SIZE, typename T, typename A>
struct Sums {
    enum { IN_FLIGHT = Residents<T>::IN_FLIGHT };
    Neighbours<SIZE, T> center;
    A of[SIZE];

    __device__ explicit Sums(const T *__restrict__ center) : center(center, 0)
    {
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            of[k] = 0;
    }

    // Takes every step-th of `count` samples, from number `n` on, IN_FLIGHT together. Behind the last sample, the last
    // one is loaded again.
    __device__ void add(const Arrays<T, A> &arrays, const Members<A> &members, int n, int count, int step,
                        int64_t feature, bool writes)
    {
#pragma unroll 1
        for (; n < count; n += IN_FLIGHT * step) {
            Neighbours<SIZE, T> x[IN_FLIGHT];
#pragma unroll
            for (int j = 0; j < IN_FLIGHT; ++j) {
                const int existing = n + j * step < count ? n + j * step : count - 1;
                x[j] = Neighbours<SIZE, T>(arrays.data, members.rows[existing] + feature);
            }
#pragma unroll
            for (int j = 0; j < IN_FLIGHT; ++j)
                if (n + j * step < count) {
                    const A head = members.heads[n + j * step];
                    A grad[SIZE];
#pragma unroll
                    for (int k = 0; k < SIZE; ++k) {
                        grad[k] = head * (x[j][k] - center[k]);
                        of[k] -= grad[k];
                    }
                    if (writes)
                        store_neighbours<SIZE>(arrays.data_grad, members.rows[n + j * step] + feature, grad,
                                               arrays.data_grad_request);
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
__device__ void sum_class(const Arrays<T, A> &arrays, const Chunks &chunks, int64_t class_id, Members<A> &members)
{
    const int64_t groups = arrays.features / SIZE;
    const Threads threads(groups);
#pragma unroll 1
    for (int64_t base = 0; base < groups; base += threads.columns) {
        const bool writes = base + threads.column < groups;
        const int64_t feature = minimum(base + threads.column, groups - 1) * SIZE;
        Sums<SIZE, T, A> sums(arrays.centers + class_id * arrays.features + feature);
#pragma unroll 1
        for (int chunk = 0; chunk < chunks.count(); chunk += CHUNKS) {
            const unsigned found = members.find(chunks, class_id, chunk);
            const int first = found * blockIdx.y / gridDim.y, end = found * (blockIdx.y + 1) / gridDim.y;
#pragma unroll 1
            for (int start = first; start < end; start += WINDOW) {
                const int count = int(minimum(WINDOW, end - start));
                members.take(arrays.output_grad, chunks, arrays.features, chunk, start, count);
                sums.add(arrays, members, threads.slice, count, threads.slices, feature, writes);
                members.release();
            }
        }
        sums.add_slices(threads);
        bool has_sums = writes && threads.slice == 0;
        const unsigned first_lane = threadIdx.x / 32 * 32;
        if (gridDim.y > 1 && first_lane < threads.columns && base + first_lane < groups) {
            const Shared<A> shared(chunks, arrays.features);
            has_sums = shared.template gather<SIZE>(opaque(class_id), feature, has_sums, sums.of);
        }
        if (has_sums)
            store_neighbours<SIZE>(arrays.centers_grad, class_id * arrays.features + feature, sums.of,
                                   arrays.centers_grad_request);
    }
}

// The gradient of samples without a class.
template <typename T, typename A>
__device__ void fill_with_nan(const Arrays<T, A> &arrays, const Chunks &chunks, Members<A> &members)
{
    for (int chunk = 0; chunk < chunks.count(); chunk += CHUNKS) {
        const int found = members.find(chunks, chunks.classes, chunk);
        for (int start = 0; start < found; start += WINDOW) {
            const int count = int(minimum(WINDOW, found - start));
            members.take(arrays.output_grad, chunks, arrays.features, chunk, start, count);
            for (int n = blockIdx.y; n < count; n += gridDim.y)
                for (int64_t i = threadIdx.x; i < arrays.features; i += THREADS)
                    store(arrays.data_grad, members.rows[n] + i, not_a_number<A>(),
                          arrays.data_grad_request);
            members.release();
        }
    }
}

template <typename T, typename A>
__device__ void sum_classes(const Arrays<T, A> &arrays, const Chunks &chunks)
{
    __shared__ Members<A> members;
    const bool in_packs = packed(arrays.features, arrays.data, arrays.centers) && aligned(arrays.data_grad) &&
                          aligned(arrays.centers_grad);
    for (int64_t class_id = blockIdx.x; class_id <= chunks.classes; class_id += gridDim.x) {
        if (class_id == chunks.classes)
            fill_with_nan(arrays, chunks, members);
        else if (in_packs)
            sum_class<Pack<T>::SIZE>(arrays, chunks, class_id, members);
        else
            sum_class<1>(arrays, chunks, class_id, members);
    }
}

// `partial`: the sorted keys, where the buckets begin, and the counts and sums of the blocks that share a class.
template <typename T, typename L>
__global__ void __launch_bounds__(THREADS, Residents<T>::BLOCKS)
center_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                     const T *__restrict__ centers, T *__restrict__ data_grad, T *__restrict__ centers_grad,
                     double *__restrict__ partial, int data_grad_request, int centers_grad_request, int64_t step,
                     int64_t batch, int64_t classes, int64_t features, int64_t bucket_bits)
{
    typedef typename Accumulator<T>::type A;
    const Chunks chunks = {batch, classes, bucket_bits, reinterpret_cast<int64_t *>(partial)};
    const Arrays<T, A> arrays = {output_grad, data, centers, data_grad, centers_grad, data_grad_request,
                                 centers_grad_request, features};
    if (step == SORT) {
        sort_chunks(label, chunks);
        if (gridDim.y > 1)
            Shared<A>(chunks, features).empty(classes);
    } else {
        sum_classes(arrays, chunks);
    }
}
