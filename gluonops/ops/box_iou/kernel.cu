// box_iou. A block takes a tile of pairs: TILE_ROWS boxes of lhs with TILE_COLUMNS boxes of rhs. A lane has two boxes of
// rhs, and a warp visits every eighth box of lhs. Backward has steps:
//     TILES    the sums of each box's gradient over the tile;
//     BOXES    the sums over the tiles: a thread for a box.
// Bytes moved: forward the output, backward the head gradient.
#include "../_boxes/boxes.cuh"

enum Step { TILES, BOXES };
enum { WARPS = 8, HELD = 2, TOGETHER = 4, TILE_ROWS = 128, TILE_COLUMNS = 32 * HELD };

template <typename T, typename A>
__device__ Sides<A> sides_at(const T *boxes, int64_t i, bool is_center)
{
    BoxRow<A> row;
    for (int n = 0; n < 4; ++n)
        row.numbers[n] = load(boxes, 4 * i + n);
    return sides_of(row, is_center);
}

// How the pairs are divided into tiles.
struct Tiles {
    int64_t sets, lhs_count, rhs_count, of_rows, of_columns;

    __device__ Tiles(int64_t sets, int64_t lhs_count, int64_t rhs_count)
        : sets(sets), lhs_count(lhs_count), rhs_count(rhs_count), of_rows((lhs_count + TILE_ROWS - 1) / TILE_ROWS),
          of_columns((rhs_count + TILE_COLUMNS - 1) / TILE_COLUMNS) {}

    __device__ int64_t count() const { return sets * of_rows * of_columns; }
};

// A tile, and this thread's part of it: rows first_row, first_row + WARPS, ..., and columns column(0), column(1), ...
struct Tile {
    int64_t set, row_tile, column_tile, first_row, end_row, first_column;

    __device__ Tile(int64_t index, const Tiles &tiles)
    {
        const int64_t band = quotient(index, tiles.of_columns);   // the tiles of some rows
        column_tile = index - band * tiles.of_columns;
        set = quotient(band, tiles.of_rows);
        row_tile = band - set * tiles.of_rows;
        const int64_t start = row_tile * TILE_ROWS;
        first_row = set * tiles.lhs_count + start + threadIdx.x / 32;
        end_row = set * tiles.lhs_count + minimum(start + TILE_ROWS, tiles.lhs_count);
        first_column = column_tile * TILE_COLUMNS + threadIdx.x % 32;
    }

    __device__ int64_t column(int j) const { return first_column + 32 * j; }
};

// The boxes of rhs that a thread has. Behind the last one are copies of it.
template <typename A>
struct ColumnBoxes {
    Sides<A> boxes[HELD];

    template <typename T>
    __device__ ColumnBoxes(const T *rhs, const Tile &tile, const Tiles &tiles, bool is_center)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t column = minimum(tile.column(j), tiles.rhs_count - 1);
            boxes[j] = sides_at<T, A>(rhs, tile.set * tiles.rhs_count + column, is_center);
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(256, 3)
box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                double *__restrict__ partial, int output_request, int64_t step, int64_t sets, int64_t lhs_count,
                int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const Tiles tiles(sets, lhs_count, rhs_count);
    for (int64_t t = blockIdx.x; t < tiles.count(); t += gridDim.x) {
        const Tile tile(t, tiles);
        const ColumnBoxes<A> others(rhs, tile, tiles, is_center != 0);
#pragma unroll 4
        for (int64_t row = tile.first_row; row < tile.end_row; row += WARPS) {
            const Sides<A> box = sides_at<T, A>(lhs, row, is_center != 0);
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const BoxPair<A> pair(box, others.boxes[j], A(TINY_AREA));
                if (tile.column(j) < rhs_count)
                    store(output, row * rhs_count + tile.column(j), pair.iou, output_request);
            }
        }
    }
}

// Adds the derivatives of head * IoU by both boxes of a pair.
template <typename A>
__device__ void add_gradients(Box<A> &by_box, Box<A> &by_other, const BoxPair<A> &pair, A head)
{
    const Extent<A> &across = pair.across, &down = pair.down;
    const A inverse = 1 / pair.union_area;
    const A iou = pair.overlaps ? across.overlap * down.overlap * inverse : 0;
    const A by_union = -head * iou * inverse;
    const A by_intersection = pair.overlaps ? head * inverse - by_union : 0;   // the union has it as well
    const A by_across = by_intersection * down.overlap, by_down = by_intersection * across.overlap;
    const A x = by_across * across.overlap_by_center, y = by_down * down.overlap_by_center;
    by_box.x += x;
    by_box.y += y;
    by_box.w += by_across * across.overlap_by_size + by_union * pair.box.down.size;
    by_box.h += by_down * down.overlap_by_size + by_union * pair.box.across.size;
    by_other.x -= x;   // to move one box is to move the other one backward
    by_other.y -= y;
    by_other.w += by_across * (1 - across.overlap_by_size) + by_union * pair.other.down.size;
    by_other.h += by_down * (1 - down.overlap_by_size) + by_union * pair.other.across.size;
}

// The sums of four numbers over a warp. Eight lanes get each of them: the first eight that of x, the next that of y.
template <typename A>
__device__ A sum_of_four(const Box<A> &box)
{
    const bool upper = threadIdx.x & 16, second = threadIdx.x & 8;
    const A xw = (upper ? box.w : box.x) + __shfl_xor_sync(0xffffffffu, upper ? box.x : box.w, 16);
    const A yh = (upper ? box.h : box.y) + __shfl_xor_sync(0xffffffffu, upper ? box.y : box.h, 16);
    const A sum = (second ? yh : xw) + __shfl_xor_sync(0xffffffffu, second ? xw : yh, 8);
    return reduce_lanes(sum, Sum(), 8);
}

// The sums of a tile: of a box of lhs, (rows, column tiles), and of a box of rhs, (sets, row tiles, columns).
template <typename A>
struct TileSums {
    Box<A> *lhs, *rhs;
    Tiles tiles;

    __device__ TileSums(double *partial, const Tiles &tiles) : lhs(reinterpret_cast<Box<A> *>(partial)), tiles(tiles)
    {
        rhs = lhs + tiles.sets * tiles.lhs_count * tiles.of_columns;
    }

    __device__ Box<A> *of_row(int64_t row, int64_t column_tile) const { return lhs + row * tiles.of_columns + column_tile; }

    __device__ Box<A> *of_column(int64_t set, int64_t row_tile, int64_t column) const
    {
        return rhs + (set * tiles.of_rows + row_tile) * tiles.rhs_count + column;
    }

    __device__ Box<A> lhs_sum(int64_t row) const { return sum(of_row(row, 0), tiles.of_columns, 1); }

    __device__ Box<A> rhs_sum(int64_t set, int64_t column) const
    {
        return sum(of_column(set, 0, column), tiles.of_rows, tiles.rhs_count);
    }

 private:
    __device__ static Box<A> sum(const Box<A> *sums, int64_t count, int64_t step)
    {
        Box<A> total = {0, 0, 0, 0};
#pragma unroll 8
        for (int64_t i = 0; i < count; ++i) {
            const Box<A> &box = sums[i * step];
            total.x += box.x;
            total.y += box.y;
            total.w += box.w;
            total.h += box.h;
        }
        return total;
    }
};

// The sums of a thread's columns over the warps of the block. A thread stores one number of one column.
template <typename A>
__device__ void store_column_sums(const Box<A> *own, const TileSums<A> &sums, const Tile &tile)
{
    __shared__ A numbers[WARPS][TILE_COLUMNS][4];
    __syncthreads();   // the sums of the tile before are read
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        A *const of_column = numbers[threadIdx.x / 32][threadIdx.x % 32 + 32 * j];
        of_column[0] = own[j].x;
        of_column[1] = own[j].y;
        of_column[2] = own[j].w;
        of_column[3] = own[j].h;
    }
    __syncthreads();   // the sums of all warps are there
    const int number = threadIdx.x % 4;
    const int64_t column = tile.column_tile * TILE_COLUMNS + threadIdx.x / 4;
    A sum = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp)
        sum += numbers[warp][threadIdx.x / 4][number];
    if (column < sums.tiles.rhs_count)
        (&sums.of_column(tile.set, tile.row_tile, column)->x)[number] = sum;
}

// The head gradients of some rows at a thread's columns, which are read at once.
template <typename T>
struct Heads {
    typename Accumulator<T>::type values[TOGETHER][HELD];

    __device__ void read(const T *__restrict__ output_grad, const Tile &tile, int64_t row, int64_t rhs_count)
    {
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k)
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                const bool is_there = row + k * WARPS < tile.end_row && tile.column(j) < rhs_count;
                values[k][j] = is_there ? load(output_grad, (row + k * WARPS) * rhs_count + tile.column(j)) : 0;
            }
    }
};

template <typename T, typename A>
__device__ void sum_tile(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                         const TileSums<A> &sums, const Tile &tile, bool is_center)
{
    const int64_t rhs_count = sums.tiles.rhs_count;
    const ColumnBoxes<A> others(rhs, tile, sums.tiles, is_center);
    Box<A> of_columns[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j)
        of_columns[j].x = of_columns[j].y = of_columns[j].w = of_columns[j].h = 0;
    for (int64_t row = tile.first_row; row < tile.end_row; row += WARPS * TOGETHER) {
        Heads<T> heads;
        heads.read(output_grad, tile, row, rhs_count);
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            const int64_t own = row + k * WARPS;
            if (own >= tile.end_row)
                break;
            const Sides<A> box = sides_at<T, A>(lhs, own, is_center);
            Box<A> of_row = {0, 0, 0, 0};
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                if (tile.column(j) < rhs_count) {
                    const BoxPair<A> pair(box, others.boxes[j], A(TINY_AREA));
                    add_gradients(of_row, of_columns[j], pair, heads.values[k][j]);
                }
            const A sum = sum_of_four(of_row);
            if (threadIdx.x % 8 == 0)
                (&sums.of_row(own, tile.column_tile)->x)[threadIdx.x / 8 % 4] = sum;
        }
    }
    store_column_sums(of_columns, sums, tile);
}

template <typename T, typename A>
__device__ void store_gradient(T *grad, int64_t i, const Box<A> &sum, bool is_center, int request)
{
    const BoxRow<A> gradient = row_gradient(sum, is_center);
    for (int n = 0; n < 4; ++n)
        store(grad, 4 * i + n, gradient.numbers[n], request);
}

template <typename T>
__global__ void __launch_bounds__(256, 2)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const Tiles tiles(sets, lhs_count, rhs_count);
    const TileSums<A> sums(partial, tiles);
    if (step == TILES) {
        for (int64_t t = blockIdx.x; t < tiles.count(); t += gridDim.x)
            sum_tile(output_grad, lhs, rhs, sums, Tile(t, tiles), is_center != 0);
        return;
    }
    const int64_t lhs_boxes = sets * lhs_count, rhs_boxes = sets * rhs_count;
    for (int64_t i = first_item(); i < lhs_boxes + rhs_boxes; i += item_step()) {   // the boxes of lhs, then of rhs
        if (i < lhs_boxes) {
            store_gradient(lhs_grad, i, sums.lhs_sum(i), is_center != 0, lhs_grad_request);
        } else {
            const int64_t box = i - lhs_boxes, set = quotient(box, rhs_count);
            store_gradient(rhs_grad, box, sums.rhs_sum(set, box - set * rhs_count), is_center != 0, rhs_grad_request);
        }
    }
}
