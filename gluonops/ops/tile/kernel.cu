// tile. Where the data lies in packs of 16 bytes, a thread moves a pack at a time.
//
// The tensors are seen as LOOPS dimensions, outermost first: the data has size[l] steps in l, the output repeats[l]
// times as many. Loops of one step, which fill the list up, cost a comparison. A run is the innermost loop's data.
//
// Runs of whole packs: forward reads a pack once for up to COPIES copies of it, backward sums the copies of a pack.
// Other runs: forward gathers the elements of a pack of output, backward sums the copies of an element.

enum { LOOPS = 9, COPIES = 8, THREADS = 256 };

// It lies in shared memory, so that loops over it stay loops. I is the type of an index: unsigned where the output has
// fewer than 2^31 elements, because a 64-bit division takes longer than moving 16 bytes.
template <typename I>
struct Loops {
    I size[LOOPS];      // the innermost loop is number 0 here
    I repeats[LOOPS];
    I elements;         // of the data
    I copies;           // of each element
    int last;           // the outermost loop that has more than one step

    __device__ void read(const int64_t *sizes, const int64_t *counts)
    {
        if (threadIdx.x == 0) {
            elements = copies = 1;
            last = 0;
#pragma unroll
            for (int l = 0; l < LOOPS; ++l) {
                elements *= size[l] = I(sizes[LOOPS - 1 - l]);
                copies *= repeats[l] = I(counts[LOOPS - 1 - l]);
                if (size[l] * repeats[l] != 1)
                    last = l;
            }
        }
        __syncthreads();
    }

    __device__ I run() const { return size[0]; }
    __device__ I run_with_copies() const { return size[0] * repeats[0]; }   // which lie behind it

    // The element of data that output element `i` is a copy of. Not inlined: gather's unrolled loop calls it 16 times.
    __device__ __noinline__ I origin(I i) const
    {
        I element = 0, stride = 1;
#pragma unroll 1
        for (int l = 0; l <= last; ++l) {
            const I output_size = size[l] * repeats[l];
            const I step = l == last ? i : i % output_size;
            element += step % size[l] * stride;
            i /= output_size;
            stride *= size[l];
        }
        return element;
    }

    // The output element that is the first copy of data element `i`.
    __device__ I first_copy(I i) const
    {
        I element = 0, stride = 1;
#pragma unroll 1
        for (int l = 0; l <= last; ++l) {
            const I step = l == last ? i : i % size[l];
            element += step * stride;
            i /= size[l];
            stride *= size[l] * repeats[l];
        }
        return element;
    }

    // How far copy `c` of any data element lies behind the first copy.
    __device__ I distance(I c) const
    {
        I distance = 0, stride = 1;
#pragma unroll 1
        for (int l = 0; l <= last; ++l) {
            const I step = l == last ? c : c % repeats[l];
            stride *= size[l];
            distance += step * stride;
            c /= repeats[l];
            stride *= repeats[l];
        }
        return distance;
    }

    // Whether both tensors can be read and written in packs.
    template <typename T>
    __device__ bool packed(const T *data, const T *output) const
    {
        return run() % Pack<T>::SIZE == 0 && aligned(data) && aligned(output);
    }
};

// Forward of packed runs: a thread reads a pack of data, and writes up to COPIES copies of it.
template <typename T, typename I>
__device__ void scatter(const T *__restrict__ data, T *__restrict__ output, int request, const Loops<I> &loops)
{
    const I packs = loops.elements / Pack<T>::SIZE;
    const I groups = (loops.copies + COPIES - 1) / COPIES;   // of copies
    for (int64_t item = first_item(); item < int64_t(packs) * groups; item += item_step()) {
        const I i = I(item) % packs * Pack<T>::SIZE;
        const I c = I(item) / packs * COPIES;
        const Pack<T> pack = load_pack(data, i);
        const I first = loops.first_copy(i);
        for (int k = 0; k < COPIES && c + k < loops.copies; ++k)
            copy_pack(output, first + loops.distance(c + k), pack, request);
    }
}

// Forward of other runs: a thread writes a pack of output, whose elements come from wherever they are.
template <typename T, typename I>
__device__ void gather(const T *__restrict__ data, T *__restrict__ output, int request, const Loops<I> &loops)
{
    const I size = loops.elements * loops.copies;
    const I run = loops.run(), run_with_copies = loops.run_with_copies();
    const bool packed = aligned(output);

    for (int64_t item = first_item() * Pack<T>::SIZE; item < size; item += item_step() * Pack<T>::SIZE) {
        const I i = I(item);
        I within = i % run_with_copies;            // the place in a run and its copies
        I column = within % run;                   // the place in the run
        I start = loops.origin(i) - column;        // the run's first element in the data
        const bool whole = packed && size - i >= Pack<T>::SIZE;

        Pack<T> pack;
#pragma unroll
        for (int k = 0; k < Pack<T>::SIZE; ++k) {
            if (whole || i + k < size) {
                pack.items[k] = data[start + column];
                if (!whole)
                    copy(output, i + k, pack.items, k, request);
            }
            ++column;
            if (++within == run_with_copies) {
                start = loops.origin(i + k + 1);
                within = column = 0;
            } else if (column == run) {
                column = 0;
            }
        }
        if (whole)
            copy_pack(output, i, pack, request);
    }
}

template <typename I, typename T>
__device__ void forward(const T *__restrict__ data, T *__restrict__ output, int request, const int64_t *sizes,
                        const int64_t *counts)
{
    __shared__ Loops<I> loops;
    loops.read(sizes, counts);
    if (loops.packed(data, output))
        scatter(data, output, request, loops);
    else
        gather(data, output, request, loops);
}

// Adds up copies of SIZE neighbours, from data element `i` on: copy number `slice`, and every slices-th behind it.
template <int SIZE, typename T, typename I, typename A>
__device__ void sum_copies(const T *__restrict__ output_grad, const Loops<I> &loops, I i, I slice, I slices, A *sum)
{
    const I first = loops.first_copy(i);
    for (I c = slice; c < loops.copies; c += slices) {
        const I from = first + loops.distance(c);
        if (SIZE == 1) {
            sum[0] += load(output_grad, from);
        } else {
            const Pack<T> pack = load_pack(output_grad, from);
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                sum[k] += load(pack.items, k);
        }
    }
}

// Backward: sums the copies of SIZE neighbours. `slices` threads of a block share the copies. The sums of these threads
// are added in the threads' order, so the result is the same every time.
template <int SIZE, typename T, typename I>
__device__ void reduce(const T *__restrict__ output_grad, T *__restrict__ data_grad, int request,
                       const Loops<I> &loops, I slices)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A partial[THREADS][SIZE];
    const I columns = THREADS / slices;   // items of a block
    const I column = threadIdx.x % columns, slice = threadIdx.x / columns;
    const I items = loops.elements / SIZE;

    for (int64_t block = blockIdx.x; block * columns < items; block += gridDim.x) {
        const I item = I(block) * columns + column, i = item * SIZE;
        A sum[SIZE];
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            sum[k] = 0;
        if (item < items)
            sum_copies<SIZE>(output_grad, loops, i, slice, slices, sum);

        if (slices > 1) {
            __syncthreads();   // the sums of the block before may still be read
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                partial[threadIdx.x][k] = sum[k];
            __syncthreads();
            for (I other = 1; slice == 0 && other < slices; ++other)
#pragma unroll
                for (int k = 0; k < SIZE; ++k)
                    sum[k] += partial[other * columns + column][k];
        }

        if (slice != 0 || item >= items)
            continue;
        if (SIZE == 1)
            store(data_grad, i, sum[0], request);
        else
            store_pack(data_grad, i, sum, request);
    }
}

template <typename I, typename T>
__device__ void backward(const T *__restrict__ output_grad, T *__restrict__ data_grad, int request,
                         const int64_t *sizes, const int64_t *counts, I slices)
{
    __shared__ Loops<I> loops;
    loops.read(sizes, counts);
    if (loops.packed(data_grad, output_grad))
        reduce<Pack<T>::SIZE>(output_grad, data_grad, request, loops, slices);
    else
        reduce<1>(output_grad, data_grad, request, loops, slices);
}

// small: whether 32 bits hold every index.
template <typename T>
__global__ void tile_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                             int64_t small, int64_t slices,
                             int64_t size0, int64_t repeats0, int64_t size1, int64_t repeats1,
                             int64_t size2, int64_t repeats2, int64_t size3, int64_t repeats3,
                             int64_t size4, int64_t repeats4, int64_t size5, int64_t repeats5,
                             int64_t size6, int64_t repeats6, int64_t size7, int64_t repeats7,
                             int64_t size8, int64_t repeats8)
{
    const int64_t sizes[] = {size0, size1, size2, size3, size4, size5, size6, size7, size8};
    const int64_t counts[] = {repeats0, repeats1, repeats2, repeats3, repeats4,
                              repeats5, repeats6, repeats7, repeats8};
    if (small)
        forward<unsigned>(data, output, output_request, sizes, counts);
    else
        forward<int64_t>(data, output, output_request, sizes, counts);
}

template <typename T>
__global__ void tile_backward(const T *__restrict__ output_grad, T *__restrict__ data_grad,
                              int data_grad_request, int64_t small, int64_t slices,
                              int64_t size0, int64_t repeats0, int64_t size1, int64_t repeats1,
                              int64_t size2, int64_t repeats2, int64_t size3, int64_t repeats3,
                              int64_t size4, int64_t repeats4, int64_t size5, int64_t repeats5,
                              int64_t size6, int64_t repeats6, int64_t size7, int64_t repeats7,
                              int64_t size8, int64_t repeats8)
{
    const int64_t sizes[] = {size0, size1, size2, size3, size4, size5, size6, size7, size8};
    const int64_t counts[] = {repeats0, repeats1, repeats2, repeats3, repeats4,
                              repeats5, repeats6, repeats7, repeats8};
    if (data_grad_request == NOTHING)
        return;
    if (small)
        backward<unsigned>(output_grad, data_grad, data_grad_request, sizes, counts, unsigned(slices));
    else
        backward<int64_t>(output_grad, data_grad, data_grad_request, sizes, counts, slices);
}
