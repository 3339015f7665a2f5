// reorg: one permutation for every mode. The tensor with the large image is seen as
//     [image][line][dy][x][dx]    and the other as    [image][dy][dx][line][x],
// where a line is `stride` rows of the image. In DCR an image is a sample, its lines those of all channels; in CRD it
// is a channel; Darknet's mode is DCR with other sizes. contract.py has the arithmetic.
//
// A thread moves neighbours of one row of the large image. In the other tensor they are `stride` pieces, one per dx, a
// plane apart. Neighbouring threads take neighbours on both sides. So nothing is staged in shared memory.
//
// Bytes moved: every element is read once and written once. Stride 2 moves 16 bytes of the large image at a time. Other
// strides, and tensors that are unaligned, move the `stride` elements of a cell's row.

// Returns where column `x` of a row of the large image starts in the other tensor: its element with dx 0.
template <typename T>
__device__ int64_t small_index(const ReorgArgs<T> &args, int64_t stride, int64_t row, int64_t x)
{
    const int64_t line = quotient(row, stride), image = quotient(line, args.lines);   // line: of all images
    const int64_t dy = row - line * stride, line_in_image = line - image * args.lines;
    return ((image * stride + dy) * stride * args.lines + line_in_image) * args.cells + x;
}

// Packs of the large image, in stride 2. Half a pack are neighbours in a plane.
template <bool SHRINK, typename T>
__device__ void move_packs(const ReorgArgs<T> &args, const T *__restrict__ from, T *__restrict__ to, int request)
{
    enum { SIZE = Pack<T>::SIZE, HALF = SIZE / 2 };
    const int64_t across = args.cells / HALF, plane = args.lines * args.cells * sizeof(T);   // plane: its bytes
    for (int64_t i = first_item(); i < args.size / SIZE; i += item_step()) {
        const int64_t row = quotient(i, across), large = i * SIZE;
        const int64_t small = small_index(args, 2, row, (i - row * across) * HALF);
        Pack<T> pack;
        Pack<T, HALF> halves[2];
        if (SHRINK) {
            pack.read(from + large);
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                halves[j % 2].items[j / 2] = pack.items[j];
            copy_pack(to, small, halves[0], request);
            copy_pack(behind(to + small, plane), 0, halves[1], request);
        } else {
            halves[0].read(from + small);
            halves[1].read(behind(from + small, plane));
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                pack.items[j] = halves[j % 2].items[j / 2];
            copy_pack(to, large, pack, request);
        }
    }
}

// The elements of a cell's row.
template <bool SHRINK, typename T>
__device__ void move_elements(const ReorgArgs<T> &args, const T *__restrict__ from, T *__restrict__ to, int request)
{
    const int64_t stride = args.stride, plane = args.lines * args.cells;
    for (int64_t i = first_item(); i * stride < args.size; i += item_step()) {
        const int64_t row = quotient(i, args.cells), large = i * stride;
        const int64_t small = small_index(args, stride, row, i - row * args.cells);
        for (int64_t dx = 0; dx < stride; ++dx)
            copy(to, SHRINK ? small + dx * plane : large + dx, from, SHRINK ? large + dx : small + dx * plane, request);
    }
}

// Moves all elements to the tensor with the small image if SHRINK, and otherwise back.
template <bool SHRINK, typename T>
__device__ void permute(const ReorgArgs<T> &args, const T *from, T *to, int request)
{
    if (request == NOTHING)
        return;
    if (args.stride == 2 && args.cells % (Pack<T>::SIZE / 2) == 0 && aligned(from) && aligned(to))
        move_packs<SHRINK>(args, from, to, request);
    else
        move_elements<SHRINK>(args, from, to, request);
}

template <typename T>
__device__ void forward(const ReorgArgs<T> &args)
{
    if (args.reverse)
        permute<false>(args, args.data, args.output, args.output_request);
    else
        permute<true>(args, args.data, args.output, args.output_request);
}

// Backward is the transposed permutation.
template <typename T>
__device__ void backward(const ReorgArgs<T> &args)
{
    if (args.reverse)
        permute<true>(args, args.output_grad, args.data_grad, args.data_grad_request);
    else
        permute<false>(args, args.output_grad, args.data_grad, args.data_grad_request);
}
