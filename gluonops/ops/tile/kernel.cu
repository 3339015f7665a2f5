// tile. Where spans consist of packs of 16 bytes, forward reads a pack and writes its copies, and backward sums them.
// In other spans, forward gathers what a pack of the output repeats, and backward sums the copies of an element. This
// holds where there is one loop, so that the copies of a span lie side by side. It takes many operations and registers
// to find them in nested loops: these have code of their own, where a thread finds one pack or element after the other.
// Forward takes it as well where an index has more than 32 bits.
#include "record.inl"

// The loops, in shared memory, so that loops over them stay loops.
template <typename T>
__device__ void read_loops(const TileArgs<T> &args, TileLoops *loops)
{
    static_assert(sizeof(args.repeats) == sizeof(loops->repeats), "TILE_LOOPS are the contract's MAX_COUNTS");
    if (thread_number() == 0) {
        loops->span = args.span;
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

// Returns whether both tensors can be read and written in packs.
template <typename T>
__device__ bool packed(const TileArgs<T> &args, const T *data, const T *output)
{
    return args.span % Pack<T>::SIZE == 0 && aligned(data, output);
}

// Returns where the first copy of the i-th element is, if there is one loop.
template <typename T>
__device__ int64_t first_copy(const TileArgs<T> &args, int64_t i)
{
    return i + quotient(i, args.span) * (args.copies - 1) * args.span;
}

// Returns where the first copy of the i-th element is in nested loops.
template <typename T>
__device__ int64_t first_copy(const TileArgs<T> &args, const TileLoops &loops, int64_t i)
{
    const int64_t number = quotient(i, args.span);
    return loops.copy_of(number, 0) + (i - number * args.span);
}

// gridDim.y blocks share the copies of a pack.
template <typename T>
__device__ void scatter(const TileArgs<T> &args)
{
    enum { SIZE = Pack<T>::SIZE };
    for (int64_t i = first_item() * SIZE; i < args.elements; i += item_step() * SIZE) {
        const Pack<T> pack = load_pack(args.data, i);
        T *const to = args.output + first_copy(args, i);
#pragma unroll 1
        for (int64_t c = blockIdx.y; c < args.copies; c += gridDim.y)
            copy_pack(to, c * args.span, pack, args.output_request);
    }
}

// A thread writes a pack, whose elements are those of one span or of several. Indices have 32 bits: 64-bit arithmetic
// takes twice as many instructions.
template <typename T>
__device__ void gather(const TileArgs<T> &args)
{
    enum { SIZE = Pack<T>::SIZE };
    const unsigned span = args.span, all_copies = args.copies, size = args.elements * args.copies;
    const int64_t step = item_step() * gridDim.y * SIZE;
    const bool writes_packs = aligned(args.output);
    for (int64_t first = (blockIdx.y * item_step() + first_item()) * SIZE; first < size; first += step) {
        const unsigned i = first, number = i / span, source = number / all_copies;
        const int count = int(minimum(size - i, SIZE));
        int end = int(minimum((number + 1) * span - i, SIZE));   // so many elements are in front of the next span
        int copies = int(minimum((source + 1) * all_copies - number, SIZE));   // those that follow, with this one
        unsigned offset = source * span + i - number * span;
        Pack<T> pack;
#pragma unroll
        for (int k = 0; k < SIZE; ++k) {
            if (k < count)
                pack.items[k] = args.data[offset + k];
            if (k + 1 == end) {
                if (--copies > 0)
                    offset -= span;   // the same span again, else the one behind it
                else
                    copies = int(minimum(all_copies, SIZE));
                end += int(minimum(span, SIZE));
            }
        }
        if (writes_packs && count == SIZE) {
            copy_pack(args.output, i, pack, args.output_request);
        } else {
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                if (k < count)
                    copy(args.output, i + k, pack.items, k, args.output_request);
        }
    }
}

template <typename T>
__device__ void gather_nested(const TileArgs<T> &args)
{
    __shared__ TileLoops loops;
    read_loops(args, &loops);
    for_packs<T>(args.elements * args.copies, packed(args, args.data, args.output), [&](auto pack, int64_t i) {
        const int64_t number = quotient(i, args.span);
        pack.read(args.data + loops.source_of(number) + (i - number * args.span));
        copy_pack(args.output, i, pack, args.output_request);
    });
}

template <typename T>
__device__ void forward(const TileArgs<T> &args)
{
    if (args.outermost == 0 && packed(args, args.data, args.output))
        scatter(args);
    else if (args.outermost == 0 && args.elements * args.copies >> 32 == 0)
        gather(args);
    else
        gather_nested(args);
}

// The sums of groups of SIZE neighbours. blockDim.y threads and gridDim.y blocks share the copies of a group. Their
// sums are added in one order, so the result is the same every time.
template <bool NESTED, int SIZE, typename T>
__device__ void reduce(const TileArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    // A thread has loads of so many groups and of so many copies under way.
    enum { GROUPS = NESTED || SIZE > 8 ? 1 : SIZE == 1 ? 4 : 2, TOGETHER = NESTED ? 1 : 2 };
    __shared__ A of_threads[THREADS][GROUPS * SIZE];
    __shared__ TileLoops loops;
    if (NESTED)
        read_loops(args, &loops);
    const int thread = thread_number(), of_block = GROUPS * blockDim.x;
    const int64_t groups = args.elements / SIZE, span = args.span, step = gridDim.y * blockDim.y;

    for (int64_t first = int64_t(blockIdx.x) * of_block; first < groups; first += int64_t(gridDim.x) * of_block) {
        const T *from[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {   // behind the last group: it again
            const int64_t i = minimum(first + g * blockDim.x + threadIdx.x, groups - 1) * SIZE;
            from[g] = args.output_grad + (NESTED ? first_copy(args, loops, i) : first_copy(args, i));
        }
        A sums[GROUPS * SIZE] = {};
#pragma unroll 1
        for (int64_t c = blockIdx.y * blockDim.y + threadIdx.y; c < args.copies; c += TOGETHER * step) {
            Pack<T, SIZE> copies[TOGETHER][GROUPS];
#pragma unroll
            for (int n = 0; n < TOGETHER; ++n)
                if (c + n * step < args.copies)
#pragma unroll
                    for (int g = 0; g < GROUPS; ++g)
                        copies[n][g].read(from[g] + (NESTED ? loops.copy_of(0, c) : (c + n * step) * span));
#pragma unroll
            for (int n = 0; n < TOGETHER; ++n)
                if (c + n * step < args.copies)
#pragma unroll
                    for (int k = 0; k < GROUPS * SIZE; ++k)
                        sums[k] += load(copies[n][k / SIZE].items, k % SIZE);
        }

        if (blockDim.y > 1) {
            __syncthreads();   // the sums of the groups before may still be read
#pragma unroll
            for (int k = 0; k < GROUPS * SIZE; ++k)
                of_threads[thread][k] = sums[k];
            __syncthreads();   // each thread has left its sums
            for (int other = thread + blockDim.x; threadIdx.y == 0 && other < THREADS; other += blockDim.x)
#pragma unroll
                for (int k = 0; k < GROUPS * SIZE; ++k)
                    sums[k] += of_threads[other][k];
        }
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const int64_t group = first + g * blockDim.x + threadIdx.x, i = group * SIZE;
            if (threadIdx.y != 0 || group >= groups)
                continue;
            if (gridDim.y > 1)
                for (int k = 0; k < SIZE; ++k)
                    args.sums[(i + k) * gridDim.y + blockIdx.y] = sums[g * SIZE + k];
            else
                store_pack<T, SIZE>(args.data_grad, i, sums + g * SIZE, args.data_grad_request);
        }
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
    if (args.step == args.COMBINE)
        combine(args);
    else if (args.outermost > 0)
        reduce<true, 1>(args);
    else if (packed(args, args.data_grad, args.output_grad))
        reduce<false, Pack<T>::SIZE>(args);
    else
        reduce<false, 1>(args);
}
