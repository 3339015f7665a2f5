// reorg: one permutation for every mode. The tensor with the large image is seen as
//     [image][line][dy][x][dx]    and the other as    [image][dy][dx][line][x],
// where a line is `stride` rows of the image. In DCR an image is a sample, its lines those of all channels; in CRD it
// is a channel; Darknet's mode is DCR with other sizes. contract.py has the arithmetic.
//
// A block of threads moves a chunk of at most CHUNK elements at a time: several images, or lines of one, or a part of
// a line. It reads the chunk run by run into shared memory and writes it run by run in the other order. So neighbouring
// threads take neighbouring elements on both sides, 16 bytes each where the runs are so aligned.

enum { CHUNK = 4096 };

struct Sizes {
    int64_t images, lines, width, stride;
};

// A chunk's elements in a tensor: runs of neighbours, `pitch` apart.
struct Runs {
    int64_t first, pitch;
    Divisor length;

    // Runs without a gap between them are one run.
    __device__ Runs(int64_t first, int64_t pitch, unsigned length, unsigned size)
        : first(first), pitch(pitch), length(length == pitch ? size : length) {}

    // Where element number `i` of the chunk is.
    __device__ int64_t place(unsigned i) const
    {
        unsigned column;
        const unsigned run = length.divide(i, column);
        return first + run * pitch + column;
    }

    template <typename T>
    __device__ bool packed(const T *tensor) const
    {
        return aligned(tensor + first) && (length.by | pitch) % Pack<T>::SIZE == 0;
    }
};

struct Chunk {
    Divisor lines, width, stride;
    unsigned images;

    __device__ Chunk(unsigned images, unsigned lines, unsigned width, unsigned stride)
        : lines(lines), width(width), stride(stride), images(images) {}

    __device__ unsigned size() const { return images * lines.by * width.by * stride.by * stride.by; }

    // From an element's number in the order of the small image to that of the large one; back if not SHRINK.
    template <bool SHRINK>
    __device__ unsigned number(unsigned i) const
    {
        unsigned x, line, dx, dy;
        if (SHRINK) {
            const unsigned square = lines.divide(width.divide(i, x), line);   // a number of (image, dy, dx)
            const unsigned image = stride.divide(stride.divide(square, dx), dy);
            return (((image * lines.by + line) * stride.by + dy) * width.by + x) * stride.by + dx;
        }
        const unsigned row = width.divide(stride.divide(i, dx), x);   // a number of (image, line, dy)
        const unsigned image = lines.divide(stride.divide(row, dy), line);
        return (((image * stride.by + dy) * stride.by + dx) * lines.by + line) * width.by + x;
    }
};

// Moves a chunk from one tensor to the other: to the one with the small image if SHRINK.
template <bool SHRINK, typename T>
__device__ void move(const T *__restrict__ from, T *__restrict__ to, int request, Pack<T> *packs,
                     const Chunk &chunk, const Runs &source, const Runs &target)
{
    T *const staged = packs[0].items;   // the chunk, in the order of `from`
    const unsigned size = chunk.size();

    __syncthreads();   // the chunk before this one may still be read
    if (source.packed(from)) {
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < size; i += blockDim.x * Pack<T>::SIZE)
            packs[i / Pack<T>::SIZE] = load_pack(from, source.place(i));
    } else {
        for (unsigned i = threadIdx.x; i < size; i += blockDim.x)
            staged[i] = from[source.place(i)];
    }
    __syncthreads();

    if (target.packed(to)) {
        for (unsigned i = threadIdx.x * Pack<T>::SIZE; i < size; i += blockDim.x * Pack<T>::SIZE) {
            Pack<T> pack;
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j)
                pack.items[j] = staged[chunk.number<SHRINK>(i + j)];
            copy_pack(to, target.place(i), pack, request);
        }
    } else {
        for (unsigned i = threadIdx.x; i < size; i += blockDim.x)
            copy(to, target.place(i), staged, chunk.number<SHRINK>(i), request);
    }
}

// Without shared memory: for strides of which it cannot hold one cell, stride * stride elements.
template <bool SHRINK, typename T>
__device__ void move_elements(const T *__restrict__ from, T *__restrict__ to, int request, const Sizes &sizes)
{
    const int64_t s = sizes.stride;
    const int64_t size = sizes.images * sizes.lines * sizes.width * s * s;
    for (int64_t large = first_item(); large < size; large += item_step()) {
        const int64_t dx = large % s, x = large / s % sizes.width, row = large / s / sizes.width;
        const int64_t dy = row % s, line = row / s % sizes.lines, image = row / s / sizes.lines;
        const int64_t small = (((image * s + dy) * s + dx) * sizes.lines + line) * sizes.width + x;
        copy(to, SHRINK ? small : large, from, SHRINK ? large : small, request);
    }
}

// Moves everything, in chunks of at most `step`.
template <bool SHRINK, typename T>
__device__ void permute(const T *__restrict__ from, T *__restrict__ to, int request, Pack<T> *packs,
                        const Sizes &sizes, const Sizes &step)
{
    if (request == NOTHING)
        return;
    if (step.width == 0) {
        move_elements<SHRINK>(from, to, request, sizes);
        return;
    }

    const int64_t s = sizes.stride, cell = s * s;
    const int64_t across = (sizes.width + step.width - 1) / step.width;
    const int64_t down = (sizes.lines + step.lines - 1) / step.lines;
    const int64_t chunks = (sizes.images + step.images - 1) / step.images * down * across;
    for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        const int64_t x = c % across * step.width;
        const int64_t line = c / across % down * step.lines;
        const int64_t image = c / across / down * step.images;
        const Chunk chunk(unsigned(minimum(step.images, sizes.images - image)),
                          unsigned(minimum(step.lines, sizes.lines - line)),
                          unsigned(minimum(step.width, sizes.width - x)), unsigned(s));

        const int64_t before = image * sizes.lines * sizes.width * cell;   // elements of the images before
        const Runs large(before + line * sizes.width * cell + x * s, sizes.width * s, chunk.width.by * unsigned(s),
                         chunk.size());
        const Runs small(before + line * sizes.width + x, sizes.lines * sizes.width, chunk.lines.by * chunk.width.by,
                         chunk.size());
        move<SHRINK>(from, to, request, packs, chunk, SHRINK ? large : small, SHRINK ? small : large);
    }
}

template <typename T>
__global__ void reorg_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                              int64_t images, int64_t lines, int64_t width, int64_t stride, int64_t reverse,
                              int64_t chunk_images, int64_t chunk_lines, int64_t chunk_width)
{
    __shared__ Pack<T> packs[CHUNK / Pack<T>::SIZE];
    const Sizes sizes = {images, lines, width, stride};
    const Sizes step = {chunk_images, chunk_lines, chunk_width, stride};
    if (reverse)
        permute<false>(data, output, output_request, packs, sizes, step);
    else
        permute<true>(data, output, output_request, packs, sizes, step);
}

// The transposed permutation.
template <typename T>
__global__ void reorg_backward(const T *__restrict__ output_grad, T *__restrict__ data_grad,
                               int data_grad_request, int64_t images, int64_t lines, int64_t width,
                               int64_t stride, int64_t reverse, int64_t chunk_images, int64_t chunk_lines,
                               int64_t chunk_width)
{
    __shared__ Pack<T> packs[CHUNK / Pack<T>::SIZE];
    const Sizes sizes = {images, lines, width, stride};
    const Sizes step = {chunk_images, chunk_lines, chunk_width, stride};
    if (reverse)
        permute<true>(output_grad, data_grad, data_grad_request, packs, sizes, step);
    else
        permute<false>(output_grad, data_grad, data_grad_request, packs, sizes, step);
}
