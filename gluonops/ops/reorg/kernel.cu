// reorg: one permutation for every mode. The tensor with the large image is seen as
//     [image][line][dy][x][dx]    and the other as    [image][dy][dx][line][x],
// where a line is `stride` rows of the image. In DCR an image is a sample, its lines those of all channels; in CRD it
// is a channel; Darknet's mode is DCR with other sizes. contract.py has the arithmetic.
//
// A thread moves neighbours of one row of the large image. In the other tensor they are `stride` pieces, one per dx, a
// plane apart. Neighbouring threads take neighbours on both sides. So nothing is staged in shared memory.
//
// Bytes moved: every element is read once and written once. Strides 2 and 4 move 16 bytes of the large image at a time,
// with two divisions of 32 bits for their place. Other strides, and tensors that are unaligned or too large for that,
// move the `stride` elements of a cell's row.

enum { BLOCKS = 6 };   // of a multiprocessor at a time; Turing has room for four, and there ptxas ignores the number

template <int BYTES> struct Word;
template <> struct Word<1> { typedef unsigned char type; };
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<4> { typedef unsigned type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };

// N neighbours in a plane. Their address is a multiple of their bytes.
template <typename T, int N>
struct __align__(16) Piece {
    typedef typename Word<N * sizeof(T)>::type Bits;
    T items[N];

    __device__ void read(const T *from) { *reinterpret_cast<Bits *>(items) = *reinterpret_cast<const Bits *>(from); }

    // Under WRITE no bit changes, as in copy.
    __device__ void write(T *to, int request) const
    {
        Piece piece = *this;
        if (request == ADD) {
            piece.read(to);
#pragma unroll
            for (int j = 0; j < N; ++j)
                store(piece.items, j, load(items, j), ADD);
        }
        *reinterpret_cast<Bits *>(to) = *reinterpret_cast<const Bits *>(piece.items);
    }
};

struct Sizes {
    int64_t images, lines, cells, stride;   // cells: of a line

    __device__ int64_t rows() const { return images * lines * stride; }   // of the large image
    __device__ int64_t plane() const { return lines * cells; }

    // Where column `x` of a row of the large image starts in the other tensor: its element with dx 0. I is the type of
    // the row's number.
    template <typename I>
    __device__ int64_t small(I row, int64_t x) const
    {
        const I line = row / I(stride), image = line / I(lines);   // line: of all images
        const int64_t dy = row - line * I(stride), line_in_image = line - image * I(lines);
        return (image * stride + dy) * stride * plane() + line_in_image * cells + x;
    }
};

// 16 bytes of the large image at a time, or STRIDE elements if they are larger.
template <int STRIDE, typename T>
struct Unit {
    enum {
        PIECE = Pack<T>::SIZE > STRIDE ? Pack<T>::SIZE / STRIDE : 1,
        SIZE = PIECE * STRIDE,
        PACKS = SIZE / Pack<T>::SIZE
    };

    // Whether the tensors consist of units, and 32 bits hold their number.
    static __device__ bool fits(const T *from, const T *to, const Sizes &sizes)
    {
        return sizes.stride == STRIDE && sizes.cells % PIECE == 0 && aligned(from) && aligned(to) &&
               sizes.rows() * (sizes.cells / PIECE) < 0x80000000ll;
    }

    static __device__ void shrink(const T *__restrict__ large, T *__restrict__ small, int64_t plane, int request)
    {
        Pack<T> packs[PACKS];
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
            packs[p] = load_pack(large, p * Pack<T>::SIZE);
#pragma unroll
        for (int dx = 0; dx < STRIDE; ++dx) {
            Piece<T, PIECE> piece;
#pragma unroll
            for (int j = 0; j < PIECE; ++j) {
                const int i = j * STRIDE + dx;
                piece.items[j] = packs[i / Pack<T>::SIZE].items[i % Pack<T>::SIZE];
            }
            piece.write(small + dx * plane, request);
        }
    }

    static __device__ void enlarge(const T *__restrict__ small, T *__restrict__ large, int64_t plane, int request)
    {
        Piece<T, PIECE> pieces[STRIDE];
#pragma unroll
        for (int dx = 0; dx < STRIDE; ++dx)
            pieces[dx].read(small + dx * plane);
#pragma unroll
        for (int p = 0; p < PACKS; ++p) {
            Pack<T> pack;
#pragma unroll
            for (int j = 0; j < Pack<T>::SIZE; ++j) {
                const int i = p * Pack<T>::SIZE + j;
                pack.items[j] = pieces[i % STRIDE].items[i / STRIDE];
            }
            copy_pack(large, p * Pack<T>::SIZE, pack, request);
        }
    }
};

template <bool SHRINK, int STRIDE, typename T>
__device__ void move_units(const T *__restrict__ from, T *__restrict__ to, int request, Sizes sizes)
{
    typedef Unit<STRIDE, T> U;
    sizes.stride = STRIDE;   // known to the compiler
    const unsigned across = unsigned(sizes.cells / U::PIECE), units = unsigned(sizes.rows()) * across;
    for (int64_t i = first_item(); i < units; i += item_step()) {
        const unsigned row = unsigned(i) / across, x = (unsigned(i) - row * across) * U::PIECE;
        const int64_t large = i * U::SIZE, small = sizes.small(row, x);
        if (SHRINK)
            U::shrink(from + large, to + small, sizes.plane(), request);
        else
            U::enlarge(from + small, to + large, sizes.plane(), request);
    }
}

template <bool SHRINK, typename T>
__device__ void move_elements(const T *__restrict__ from, T *__restrict__ to, int request, const Sizes &sizes)
{
    const int64_t plane = sizes.plane();
    for (int64_t i = first_item(); i < sizes.rows() * sizes.cells; i += item_step()) {
        const int64_t row = i / sizes.cells;
        const int64_t large = i * sizes.stride, small = sizes.small(row, i - row * sizes.cells);
        for (int64_t dx = 0; dx < sizes.stride; ++dx)
            copy(to, SHRINK ? small + dx * plane : large + dx, from, SHRINK ? large + dx : small + dx * plane, request);
    }
}

// Moves everything: to the tensor with the small image if SHRINK, else back.
template <bool SHRINK, typename T>
__device__ void permute(const T *__restrict__ from, T *__restrict__ to, int request, const Sizes &sizes)
{
    if (request == NOTHING)
        return;
    if (Unit<2, T>::fits(from, to, sizes))
        move_units<SHRINK, 2>(from, to, request, sizes);
    else if (Unit<4, T>::fits(from, to, sizes))
        move_units<SHRINK, 4>(from, to, request, sizes);
    else
        move_elements<SHRINK>(from, to, request, sizes);
}

template <typename T>
__device__ void forward(const ReorgArgs<T> &args)
{
    const Sizes sizes = {args.images, args.lines, args.cells, args.stride};
    if (args.reverse)
        permute<false>(args.data, args.output, args.output_request, sizes);
    else
        permute<true>(args.data, args.output, args.output_request, sizes);
}

// The transposed permutation.
template <typename T>
__device__ void backward(const ReorgArgs<T> &args)
{
    const Sizes sizes = {args.images, args.lines, args.cells, args.stride};
    if (args.reverse)
        permute<true>(args.output_grad, args.data_grad, args.data_grad_request, sizes);
    else
        permute<false>(args.output_grad, args.data_grad, args.data_grad_request, sizes);
}
