// tile. Where the data lies in packs of 16 bytes, a thread moves a pack at a time.
//
// The tensors are seen as LOOPS dimensions, outermost first: the data has size[l] steps in l, the output repeats[l]
// times as many. Loops of one step fill the list up. A run is the innermost loop's data, and a period is a run and its
// copies, which lie behind it. If no other loop has repeats, the n-th period repeats the n-th run: so it is for `tiles`
// of one axis. Else the loops nest, and it takes some divisions to find the run.
//
// Runs of whole packs: forward reads a pack once for up to COPIES copies of it, backward sums the copies of a pack.
// Other runs: forward gathers the elements of a pack of output, walking through the runs; backward sums the copies of
// ITEMS elements. If elements are few, the threads of a block, and several blocks, share the copies.

enum { THREADS = 256 };

// Loops around the runs. They lie in shared memory, so that loops over them stay loops.
template <typename I>
struct Nest {
    I size[LOOPS];      // the innermost loop, which is the run's, is number 0 here
    I repeats[LOOPS];
    int count;          // of the loops up to the outermost that has more than one step

    __device__ void read(const int64_t *sizes, const int64_t *counts)
    {
        if (threadIdx.x == 0) {
            count = 1;
#pragma unroll
            for (int l = 0; l < LOOPS; ++l) {
                size[l] = I(sizes[LOOPS - 1 - l]);
                repeats[l] = I(counts[LOOPS - 1 - l]);
                if (size[l] * repeats[l] != 1)
                    count = l + 1;
            }
        }
        __syncthreads();
    }

    // The run that period number `i` repeats. Not inlined: gather's unrolled loop calls it 16 times.
    __device__ __noinline__ I run_of(I i) const
    {
        I number = 0, stride = 1;
#pragma unroll 1
        for (int l = 1; l < count; ++l) {
            number += i % (size[l] * repeats[l]) % size[l] * stride;
            i /= size[l] * repeats[l];
            stride *= size[l];
        }
        return number;
    }

    // The first period that repeats run number `i`.
    __device__ I period_of(I i) const
    {
        I number = 0, stride = 1;
#pragma unroll 1
        for (int l = 1; l < count; ++l) {
            number += i % size[l] * stride;
            i /= size[l];
            stride *= size[l] * repeats[l];
        }
        return number;
    }

    // How many periods the `c`-th period of any run lies behind the first.
    __device__ I distance(I c) const
    {
        I distance = 0, stride = 1;
#pragma unroll 1
        for (int l = 1; l < count; ++l) {
            stride *= size[l];
            distance += c % repeats[l] * stride;
            c /= repeats[l];
            stride *= repeats[l];
        }
        return distance;
    }
};

// I is the type of an index: unsigned where the output has fewer than 2^31 elements, because 64-bit arithmetic takes
// longer than moving 16 bytes.
template <typename I>
struct Loops {
    I run, repeats;     // elements of a run, and copies in a period
    I elements;         // of the data
    I copies;           // of each element
    const Nest<I> *nest;   // null: the n-th period repeats the n-th run

    template <typename Args>
    __device__ Loops(const Args &args, Nest<I> *shared)
        : run(I(args.sizes[LOOPS - 1])), repeats(I(args.repeats[LOOPS - 1])), elements(I(args.elements)),
          copies(I(args.copies)), nest(0)
    {
        if (args.copies != args.repeats[LOOPS - 1]) {
            shared->read(args.sizes, args.repeats);
            nest = shared;
        }
    }

    // The first element of the run that period number `i` repeats.
    __device__ I run_start(I i) const { return (nest ? nest->run_of(i) : i) * run; }

    // The output element that is the first copy of data element `i`.
    __device__ I first_copy(I i) const
    {
        const I number = i / run, column = i - number * run;
        return (nest ? nest->period_of(number) : number) * (run * repeats) + column;
    }

    // How far copy `c` of any data element lies behind the first copy.
    __device__ I distance(I c) const
    {
        if (!nest)
            return c * run;
        return nest->distance(c / repeats) * (run * repeats) + c % repeats * run;
    }

    // Whether both tensors can be read and written in packs.
    template <typename T>
    __device__ bool packed(const T *data, const T *output) const
    {
        return run % Pack<T>::SIZE == 0 && aligned(data) && aligned(output);
    }
};

// Forward of packed runs: a thread reads a pack of data, and writes up to COPIES copies of it.
template <typename T, typename I>
__device__ void scatter(const T *__restrict__ data, T *__restrict__ output, int request, const Loops<I> &loops)
{
    const I packs = loops.elements / Pack<T>::SIZE;
    const I groups = (loops.copies + COPIES - 1) / COPIES;   // of copies
    for (int64_t item = first_item(); item < int64_t(packs) * groups; item += item_step()) {
        const I group = I(item) / packs, i = (I(item) - group * packs) * Pack<T>::SIZE;
        const I end = minimum(loops.copies, int64_t(group + 1) * COPIES);
        const Pack<T> pack = load_pack(data, i);
        const I first = loops.first_copy(i);
#pragma unroll 1
        for (I c = group * COPIES; c < end; ++c)
            copy_pack(output, first + loops.distance(c), pack, request);
    }
}

// The places in the data of COUNT neighbours in the output, of which the first is element `within` of a period.
template <int COUNT, typename I>
__device__ void walk(const Loops<I> &loops, I period, I within, I (&places)[COUNT])
{
    I copies_before = within / loops.run, column = within - copies_before * loops.run;
    I start = loops.run_start(period);
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        places[k] = start + column;
        const bool run_ends = ++column == loops.run;
        column = run_ends ? 0 : column;
        copies_before += run_ends;
        const bool period_ends = copies_before == loops.repeats;
        copies_before = period_ends ? 0 : copies_before;
        if (loops.nest && period_ends)
            start = loops.run_start(++period);
        else
            start += period_ends ? loops.run : 0;
    }
}

// Forward of other runs: a thread writes a pack of output, whose elements come from wherever they are.
template <typename T, typename I>
__device__ void gather(const T *__restrict__ data, T *__restrict__ output, int request, const Loops<I> &loops)
{
    const I size = loops.elements * loops.copies, run = loops.run;
    const bool packed = aligned(output);

    for (int64_t item = first_item() * Pack<T>::SIZE; item < size; item += item_step() * Pack<T>::SIZE) {
        const I i = I(item), period = i / (run * loops.repeats), within = i - period * (run * loops.repeats);
        I places[Pack<T>::SIZE];   // in the data
        walk(loops, period, within, places);

        if (packed && size - i >= Pack<T>::SIZE) {
            Pack<T> pack;
#pragma unroll
            for (int k = 0; k < Pack<T>::SIZE; ++k)
                pack.items[k] = data[places[k]];
            copy_pack(output, i, pack, request);
        } else {
#pragma unroll
            for (int k = 0; k < Pack<T>::SIZE; ++k)
                if (i + k < size)
                    copy(output, i + k, data, places[k], request);
        }
    }
}

template <typename I, typename T>
__device__ void repeat(const TileArgs<T> &args)
{
    __shared__ Nest<I> nest;
    const T *const data = args.data;   // read in front of the barrier in `loops`, which takes fewer registers
    T *const output = args.output;
    const int request = args.output_request;
    const Loops<I> loops(args, &nest);
    if (loops.packed(data, output))
        scatter(data, output, request, loops);
    else
        gather(data, output, request, loops);
}

template <typename T>
__device__ void forward(const TileArgs<T> &args)
{
    if (args.small)
        repeat<unsigned>(args);
    else
        repeat<int64_t>(args);
}

// Reads SIZE neighbours: one element, or a pack.
template <int SIZE, typename T>
__device__ Pack<T> read_group(const T *__restrict__ from, int64_t i)
{
    if (SIZE > 1)
        return load_pack(from, i);
    Pack<T> group;
    group.items[0] = from[i];
    return group;
}

// Backward: the sums of ITEMS groups of SIZE neighbours. The loads of AT_ONCE copies are under way together. These are
// as many as the registers hold.
template <int SIZE, typename T, typename I>
struct Sums {
    typedef typename Accumulator<T>::type A;
    enum {
        MANY = SIZE <= 8 && sizeof(I) == 4,
        ITEMS = !MANY ? 1 : SIZE == 1 ? 4 : 2,
        AT_ONCE = SIZE > 8 ? 1 : SIZE == 1 ? 4 : 2
    };
    A of[ITEMS][SIZE];

    __device__ void clear()
    {
#pragma unroll
        for (int m = 0; m < ITEMS; ++m)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                of[m][k] = 0;
    }

    // The sums over the copies from `c` on, `step` apart; first[m] is the first copy of the m-th group.
    __device__ void add_copies(const T *__restrict__ output_grad, const Loops<I> &loops, const I *first, I c, I step)
    {
        for (; c < loops.copies; c += AT_ONCE * step) {
            Pack<T> groups[AT_ONCE][ITEMS];
#pragma unroll
            for (int n = 0; n < AT_ONCE; ++n)
                if (c + n * step < loops.copies) {
                    const I distance = loops.distance(c + n * step);
#pragma unroll
                    for (int m = 0; m < ITEMS; ++m)
                        groups[n][m] = read_group<SIZE>(output_grad, first[m] + distance);
                }
#pragma unroll
            for (int n = 0; n < AT_ONCE; ++n)
                if (c + n * step < loops.copies)
                    add(groups[n]);
        }
    }

    __device__ void add(const Pack<T> *groups)
    {
#pragma unroll
        for (int m = 0; m < ITEMS; ++m)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                of[m][k] += load(groups[m].items, k);
    }

    __device__ void add(const Sums &other)
    {
#pragma unroll
        for (int m = 0; m < ITEMS; ++m)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                of[m][k] += other.of[m][k];
    }
};

// `slices` threads of a block and gridDim.y blocks share the copies. Their sums are added in one order, so the result
// is the same every time.
template <int SIZE, typename T, typename I>
__device__ void reduce(const TileArgs<T> &args, const Loops<I> &loops)
{
    typedef Sums<SIZE, T, I> S;
    __shared__ S of_threads[THREADS];
    const I slices = I(args.slices);
    const I columns = THREADS / slices, column = threadIdx.x % columns, slice = threadIdx.x / columns;
    const I groups = loops.elements / SIZE;

    for (int64_t block = blockIdx.x; block * (columns * S::ITEMS) < groups; block += gridDim.x) {
        const I group = I(block) * (columns * S::ITEMS) + column;
        I first[S::ITEMS];
#pragma unroll
        for (int m = 0; m < S::ITEMS; ++m)   // behind the last group: the last group again
            first[m] = loops.first_copy(I(minimum(group + m * columns, groups - 1)) * SIZE);
        S sums;
        sums.clear();
        sums.add_copies(args.output_grad, loops, first, blockIdx.y * slices + slice, gridDim.y * slices);

        if (slices > 1) {
            __syncthreads();   // the sums of the block before may still be read
            of_threads[threadIdx.x] = sums;
            __syncthreads();
            for (I other = 1; slice == 0 && other < slices; ++other)
                sums.add(of_threads[other * columns + column]);
        }
#pragma unroll
        for (int m = 0; m < S::ITEMS; ++m) {
            const I i = (group + m * columns) * SIZE;
            if (slice != 0 || group + m * columns >= groups)
                continue;
            if (gridDim.y > 1)
                for (int k = 0; k < SIZE; ++k)
                    args.sums[(i + k) * gridDim.y + blockIdx.y] = sums.of[m][k];
            else if (SIZE == 1)
                store(args.data_grad, i, sums.of[m][0], args.data_grad_request);
            else
                store_pack(args.data_grad, i, sums.of[m], args.data_grad_request);
        }
    }
}

// Adds up the sums of gridDim.y blocks, a block of threads per element.
template <typename T>
__device__ void combine(const TileArgs<T> &args)
{
    const int64_t blocks = int64_t(gridDim.x) * gridDim.y;
    for (int64_t i = int64_t(blockIdx.y) * gridDim.x + blockIdx.x; i < args.elements; i += blocks) {
        double sum = 0;
        for (int block = threadIdx.x; block < gridDim.y; block += blockDim.x)
            sum += args.sums[i * gridDim.y + block];
        sum = reduce_row(sum, Sum());
        if (threadIdx.x == 0)
            store(args.data_grad, i, typename Accumulator<T>::type(sum), args.data_grad_request);
    }
}

template <typename I, typename T>
__device__ void add_up(const TileArgs<T> &args)
{
    __shared__ Nest<I> nest;
    const Loops<I> loops(args, &nest);
    if (args.step == args.COMBINE)
        combine(args);
    else if (loops.packed(args.data_grad, args.output_grad))
        reduce<Pack<T>::SIZE>(args, loops);
    else
        reduce<1>(args, loops);
}

template <typename T>
__device__ void backward(const TileArgs<T> &args)
{
    if (args.small)
        add_up<unsigned>(args);
    else
        add_up<int64_t>(args);
}
