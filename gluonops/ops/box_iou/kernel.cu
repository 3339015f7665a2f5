// box_iou. Forward: a thread has a box of rhs, and ROWS neighbouring ones of lhs. Backward: a block takes a tile of
// pairs. A thread of it has HELD boxes of rhs, and visits boxes of lhs one after the other. The threads that visit the
// same box add up its sums at once; those of the boxes of rhs are added up in the end.
#include "../_shared_rows/shared_rows.cuh"
#include "../_boxes/boxes.inl"

enum { NUMBERS = 4 };   // the numbers of a box

template <typename T>
__device__ Sides<typename Accumulator<T>::type> sides_at(const BoxIouArgs<T> &args, const T *boxes, int64_t i)
{
    BoxRow<typename Accumulator<T>::type> row;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        row.numbers[n] = load(boxes, NUMBERS * i + n);
    return sides_of(row, args.format == BoxIouFormat::Center);
}

template <typename T>
__device__ void forward(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t bands = quotient(args.lhs_boxes + ROWS - 1, ROWS);   // the bands of a set
    for (int64_t i = first_item(); i < args.sets * bands * args.rhs_boxes; i += item_step()) {
        const int64_t band = quotient(i, args.rhs_boxes), set = quotient(band, bands);
        const int64_t column = i - band * args.rhs_boxes, row = (band - set * bands) * ROWS;
        const Sides<A> other = sides_at(args, args.rhs, set * args.rhs_boxes + column);
        const T *const from = args.lhs + NUMBERS * (set * args.lhs_boxes + row);
        T *to = args.output + (set * args.lhs_boxes + row) * args.rhs_boxes + column;
        const int count = int(minimum(ROWS, args.lhs_boxes - row));
#pragma unroll 4
        for (int k = 0; k < count; ++k, to += args.rhs_boxes)
            store(to, 0, BoxPair<A>(sides_at(args, from, k), other, A(TINY_AREA)).iou, args.output_request);
    }
}

// Sums over the pairs of a box of the derivatives of grad_out * IoU: by the ends of the overlap that are the box's own,
// and by the box's area, with the opposite sign.
template <typename A>
struct Slopes {
    A left = 0, right = 0, top = 0, bottom = 0, area = 0;

    __device__ BoxRow<A> gradient(const Sides<A> &box, bool is_center) const
    {
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 - area * box.down.size,
                           (bottom + top) / 2 - area * box.across.size};
        return row_gradient(by, is_center);
    }
};

// Adds a derivative by an end of the overlap to the sum of the box whose end it is.
template <typename A>
__device__ void add_end(A by_end, bool is_lhs, A &of_lhs, A &of_rhs)
{
    if (is_lhs)
        of_lhs += by_end;
    else
        of_rhs += by_end;
}

// Adds a pair to the sums of its boxes; `areas` is the sum of theirs. With the union u and the intersection i, the
// derivatives of the IoU are (1 + IoU) / u by i, and -IoU / u by an area. Ends that coincide count as those of lhs.
template <typename A>
__device__ void add_pair(const Sides<A> &lhs, const Sides<A> &rhs, A areas, A grad_out, Slopes<A> &of_lhs,
                         Slopes<A> &of_rhs)
{
    const Side<A> &x = lhs.across, &other_x = rhs.across, &y = lhs.down, &other_y = rhs.down;
    const A width = smaller(x.high, other_x.high) - larger(x.low, other_x.low);
    const A height = smaller(y.high, other_y.high) - larger(y.low, other_y.low);
    const bool overlaps = width > 0 && height > 0;
    const A intersection = overlaps ? width * height : A(0);
    const A inverse = reciprocal(areas - intersection), by_area = grad_out * inverse * (intersection * inverse);
    const A by_intersection = overlaps ? grad_out * inverse + by_area : A(0);
    const A by_width = by_intersection * height, by_height = by_intersection * width;
    add_end(by_width, x.low >= other_x.low, of_lhs.left, of_rhs.left);
    add_end(by_width, x.high <= other_x.high, of_lhs.right, of_rhs.right);
    add_end(by_height, y.low >= other_y.low, of_lhs.top, of_rhs.top);
    add_end(by_height, y.high <= other_y.high, of_lhs.bottom, of_rhs.bottom);
    of_lhs.area += by_area;
    of_rhs.area += by_area;
}

// A tile: some columns of a set, and one of the gridDim.y bands of its rows.
struct Tile {
    int64_t set, number, first_row, first_column;   // number: in the set
    int row_count, column_count;

    template <typename T>
    __device__ Tile(const BoxIouArgs<T> &args, int64_t tile) : set(quotient(tile, args.column_tiles))
    {
        number = tile - set * args.column_tiles;
        const int64_t rows = quotient(args.lhs_boxes + gridDim.y - 1, gridDim.y), row = blockIdx.y * rows;
        const int64_t columns = HELD * blockDim.x, column = number * columns;
        row_count = int(minimum(rows, args.lhs_boxes - row));
        column_count = int(minimum(columns, args.rhs_boxes - column));
        first_row = set * args.lhs_boxes + row;
        first_column = set * args.rhs_boxes + column;
    }
};

// Stores the gradients of some boxes, of which each of `splits` blocks has left a share.
template <typename T, typename A>
__device__ void store_gradients(const PartialResults<A> &scratch, int64_t splits, int64_t boxes, int64_t first,
                                int count, T *grad, int request)
{
    for (int i = thread_number(); i < NUMBERS * count; i += THREADS)
        store(grad, NUMBERS * first + i, scratch.sum(NUMBERS * first + i, splits, NUMBERS * boxes), request);
}

// The gradients of a tile's pairs. Those of its boxes of rhs are left in shared memory, a part in each thread.
template <typename T, typename A>
__device__ void differentiate_tile(const BoxIouArgs<T> &args, const Tile &tile, A (*of_threads)[THREADS])
{
    const bool is_center = args.format == BoxIouFormat::Center;
    const T *const columns = args.rhs + NUMBERS * tile.first_column;
    volatile A *const of_rows = args.lhs_sums + NUMBERS * tile.number * args.sets * args.lhs_boxes;
    const T *grad_row = args.output_grad + (tile.first_row + threadIdx.y) * args.rhs_boxes
                     + tile.number * HELD * blockDim.x + threadIdx.x;
    Sides<A> boxes[HELD];
    A areas[HELD];
    Slopes<A> slopes[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        boxes[j] = sides_at(args, columns, minimum(j * blockDim.x + threadIdx.x, tile.column_count - 1));
        areas[j] = boxes[j].across.size * boxes[j].down.size + A(TINY_AREA);
    }
    for (int first = 0; first < tile.row_count; first += blockDim.y, grad_row += blockDim.y * args.rhs_boxes) {
        const bool has_row = first + int(threadIdx.y) < tile.row_count;   // a warp stays together
        const int64_t row = tile.first_row + first + (has_row ? threadIdx.y : 0);
        const Sides<A> box = sides_at(args, args.lhs, row);
        const A area = box.across.size * box.down.size;
        A grad_out[HELD];
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int column = j * blockDim.x;
            grad_out[j] = has_row && column + threadIdx.x < tile.column_count ? load(grad_row, column) : A(0);
        }
        Slopes<A> of_row;
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            add_pair(box, boxes[j], area + areas[j], grad_out[j], of_row, slopes[j]);
        const A sum = sum_four(of_row.gradient(box, is_center).numbers, blockDim.x);
        const int64_t index = NUMBERS * row + threadIdx.x;
        if (!has_row || threadIdx.x >= NUMBERS)
            continue;
        if (args.column_tiles == 1)
            store(args.lhs_grad, index, sum, args.lhs_grad_request);
        else
            of_rows[index] = sum;
    }
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const BoxRow<A> gradient = slopes[j].gradient(boxes[j], is_center);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n)
            of_threads[NUMBERS * j + n][thread_number()] = gradient.numbers[n];
    }
}

template <typename T>
__device__ void backward(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A of_threads[HELD * NUMBERS][THREADS];
    const PartialResults<A> of_rows(args.lhs_counts, args.lhs_sums), of_columns(args.rhs_counts, args.rhs_sums);
    const int64_t all_rows = args.sets * args.lhs_boxes, all_columns = args.sets * args.rhs_boxes;
    for (int64_t number = blockIdx.x; number < args.sets * args.column_tiles; number += gridDim.x) {
        const Tile tile(args, number);
        differentiate_tile(args, tile, of_threads);
        __syncthreads();   // the parts of all threads
        for (int i = thread_number(); i < NUMBERS * tile.column_count; i += THREADS) {
            const int j = i / NUMBERS / blockDim.x, lane = i / NUMBERS % blockDim.x;
            A sum = 0;
            for (int thread = lane; thread < THREADS; thread += blockDim.x)
                sum += of_threads[NUMBERS * j + i % NUMBERS][thread];
            of_columns.partial[NUMBERS * (blockIdx.y * all_columns + tile.first_column) + i] = sum;
        }
        if (of_columns.is_last_block(number, gridDim.y))
            store_gradients(of_columns, gridDim.y, all_columns, tile.first_column, tile.column_count, args.rhs_grad,
                            args.rhs_grad_request);
        if (args.column_tiles > 1 && of_rows.is_last_block(tile.set * gridDim.y + blockIdx.y, args.column_tiles))
            store_gradients(of_rows, args.column_tiles, all_rows, tile.first_row, tile.row_count, args.lhs_grad,
                            args.lhs_grad_request);
    }
}
