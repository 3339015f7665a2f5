// tile. Where runs consist of packs of 16 bytes, a thread moves a pack at a time. Forward gathers what a pack of the
// output repeats, backward sums the copies of a pack or, in other runs, of an element.
#include "record.inl"

enum { THREADS = 256 };

// The loops, in shared memory, so that loops over them stay loops.
template <typename T>
__device__ void read_loops(const TileArgs<T> &args, TileLoops *loops)
{
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        loops->run = args.run;
        loops->copies = args.copies;
        loops->outermost = args.outermost;
#pragma unroll
        for (int l = 0; l < TILE_LOOPS; ++l) {
            loops->repeats[l] = args.repeats[l];
            loops->sizes[l] = args.sizes[l];
        }
    }
    __syncthreads();   // the loops are there
}

// Whether both tensors can be read and written in packs.
template <typename T>
__device__ bool packed(const TileArgs<T> &args, const T *data, const T *output)
{
    return args.run % Pack<T>::SIZE == 0 && aligned(data) && aligned(output);
}

template <typename T>
__device__ void forward(const TileArgs<T> &args)
{
    enum { SIZE = Pack<T>::SIZE };
    __shared__ TileLoops loops;
    read_loops(args, &loops);
    const T *const data = args.data;
    T *const output = args.output;
    const int request = args.output_request;
    const int64_t run = args.run, size = args.elements * args.copies;
    const bool in_packs = packed(args, data, output), writes_packs = aligned(output);

    for (int64_t i = first_item() * SIZE; i < size; i += item_step() * SIZE) {
        int64_t number = quotient(i, run), column = i - number * run, source = loops.source_of(number);
        if (in_packs) {
            copy_pack(output, i, load_pack(data, source + column), request);
            continue;
        }
        Pack<T> pack;
        int64_t next_source = loops.source_of(number + 1);
#pragma unroll
        for (int k = 0; k < SIZE; ++k) {
            if (i + k < size)
                pack.items[k] = data[source + column];
            if (++column == run) {
                column = 0;
                source = next_source;
                if (run < SIZE)   // else the pack ends before the next run does
                    next_source = loops.source_of(++number + 1);
            }
        }
        if (writes_packs && size - i >= SIZE) {
            copy_pack(output, i, pack, request);
        } else {
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                if (i + k < size)
                    copy(output, i + k, pack.items, k, request);
        }
    }
}

// The sums of groups of SIZE neighbours. blockDim.y threads and gridDim.y blocks share the copies of a group. Their
// sums are added in one order, so the result is the same every time.
template <int SIZE, typename T>
__device__ void reduce(const TileArgs<T> &args, const TileLoops &loops)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A of_threads[THREADS][SIZE];
    const int thread = thread_number();
    const int64_t groups = args.elements / SIZE, run = args.run, step = gridDim.y * blockDim.y;
    const bool side_by_side = args.outermost == 0;   // the copies of a run, which are found faster then

    for (int64_t first = int64_t(blockIdx.x) * blockDim.x; first < groups; first += int64_t(gridDim.x) * blockDim.x) {
        const int64_t i = minimum(first + threadIdx.x, groups - 1) * SIZE;   // behind the last group: it again
        const int64_t number = quotient(i, run), column = i - number * run;
        const T *const first_copy = args.output_grad + loops.copy_of(number, 0) + column;
        A sums[SIZE] = {};
#pragma unroll 1
        for (int64_t c = blockIdx.y * blockDim.y + threadIdx.y; c < args.copies; c += step) {
            const auto group = load_pack<T, SIZE>(first_copy, side_by_side ? c * run : loops.copy_of(0, c));
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                sums[k] += load(group.items, k);
        }

        if (blockDim.y > 1) {
            __syncthreads();   // the sums of the groups before may still be read
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                of_threads[thread][k] = sums[k];
            __syncthreads();   // each thread has left its sums
            for (int other = thread + blockDim.x; threadIdx.y == 0 && other < THREADS; other += blockDim.x)
#pragma unroll
                for (int k = 0; k < SIZE; ++k)
                    sums[k] += of_threads[other][k];
        }
        if (threadIdx.y != 0 || first + threadIdx.x >= groups)
            continue;
        if (gridDim.y > 1)
            for (int k = 0; k < SIZE; ++k)
                args.sums[(i + k) * gridDim.y + blockIdx.y] = sums[k];
        else
            store_pack<T, SIZE>(args.data_grad, i, sums, args.data_grad_request);
    }
}

// Adds up the sums of gridDim.y blocks, a block of threads per element.
template <typename T>
__device__ void combine(const TileArgs<T> &args)
{
    const int thread = thread_number();
    const int64_t blocks = int64_t(gridDim.x) * gridDim.y;
    for (int64_t i = int64_t(blockIdx.y) * gridDim.x + blockIdx.x; i < args.elements; i += blocks) {
        double sum = 0;
        for (int block = thread; block < gridDim.y; block += THREADS)
            sum += args.sums[i * gridDim.y + block];
        sum = reduce_block(sum, Sum());
        if (thread == 0)
            store(args.data_grad, i, typename Accumulator<T>::type(sum), args.data_grad_request);
    }
}

template <typename T>
__device__ void backward(const TileArgs<T> &args)
{
    __shared__ TileLoops loops;
    read_loops(args, &loops);
    if (args.step == args.COMBINE)
        combine(args);
    else if (packed(args, args.data_grad, args.output_grad))
        reduce<Pack<T>::SIZE>(args, loops);
    else
        reduce<1>(args, loops);
}
