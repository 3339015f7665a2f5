// box_iou. A block takes a tile of pairs: TILE_ROWS boxes of lhs with TILE_COLUMNS boxes of rhs. A team of lanes has
// the boxes of rhs, and visits some of lhs. Backward has steps:
//     TILES    the sums of each box's gradient over the tile;
//     BOXES    the sums over the tiles: a thread for a box.
// Bytes moved: forward the output, backward the head gradient.
#include "../_boxes/boxes.cuh"

enum Step { TILES, BOXES };
enum { WARPS = 8, TILE_ROWS = 384, TILE_COLUMNS = 64 };

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

// A tile, and this thread's part of it: rows first_row, first_row + TEAMS, ..., and HELD columns. LANES threads are a
// team.
template <int LANES>
struct Tile {
    enum { TEAMS = 32 * WARPS / LANES, HELD = TILE_COLUMNS / LANES };
    int64_t set, row_tile, column_tile, first_row, end_row, first_column;

    __device__ Tile(int64_t index, const Tiles &tiles)
    {
        const int64_t band = quotient(index, tiles.of_columns);   // the tiles of some rows
        column_tile = index - band * tiles.of_columns;
        set = quotient(band, tiles.of_rows);
        row_tile = band - set * tiles.of_rows;
        const int64_t start = row_tile * TILE_ROWS;
        first_row = set * tiles.lhs_count + start + threadIdx.x / LANES;
        end_row = set * tiles.lhs_count + minimum(start + TILE_ROWS, tiles.lhs_count);
        first_column = column_tile * TILE_COLUMNS + threadIdx.x % LANES;
    }

    __device__ int64_t column(int j) const { return first_column + LANES * j; }
};

// A box as its pairs look at it.
template <typename A>
struct __align__(16) Rectangle {
    A left, top, right, bottom, width, height;

    __device__ void set(const Sides<A> &sides)
    {
        left = sides.across.low;
        top = sides.down.low;
        right = sides.across.high;
        bottom = sides.down.high;
        width = sides.across.size;
        height = sides.down.size;
    }

    __device__ A area() const { return width * height; }

    // A NaN of a box is in its area.
    __device__ A iou(const Rectangle &other) const
    {
        const A w = smaller(right, other.right) - larger(left, other.left);
        const A h = smaller(bottom, other.bottom) - larger(top, other.top);
        const A intersection = larger(larger(w, A(0)) * h, A(0));
        return intersection / (area() + other.area() - intersection + A(TINY_AREA));
    }
};

// The boxes of rhs that a thread has. Behind the last one are copies of it.
template <typename A, int LANES>
struct ColumnBoxes {
    enum { HELD = Tile<LANES>::HELD };
    Rectangle<A> boxes[HELD];

    template <typename T>
    __device__ ColumnBoxes(const T *rhs, const Tile<LANES> &tile, const Tiles &tiles, bool is_center)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t column = minimum(tile.column(j), tiles.rhs_count - 1);
            boxes[j].set(sides_at<T, A>(rhs, tile.set * tiles.rhs_count + column, is_center));
        }
    }
};

// The boxes of lhs of a tile, in shared memory.
template <typename T, typename A, int LANES>
__device__ void hold_rows(Rectangle<A> *held, const T *lhs, const Tile<LANES> &tile, bool is_center)
{
    const int64_t start = tile.first_row - threadIdx.x / LANES;
    __syncthreads();   // the boxes of the tile before are read
    for (int64_t i = threadIdx.x; i < tile.end_row - start; i += 32 * WARPS)
        held[i].set(sides_at<T, A>(lhs, start + i, is_center));
    __syncthreads();   // the boxes of the tile are there
}

// The IoUs of this thread's part of a tile.
template <int REQUEST, typename T, typename A>
__device__ void write_tile(T *__restrict__ output, const Rectangle<A> *rows, const Rectangle<A> *columns,
                           const Tile<32> &tile, int64_t rhs_count)
{
    enum { HELD = Tile<32>::HELD };
    const int count = int(tile.end_row - tile.first_row);   // from the warp's first row on
    bool is_there[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j)
        is_there[j] = tile.column(j) < rhs_count;
    const Rectangle<A> *from = rows + threadIdx.x / 32;
    char *place = reinterpret_cast<char *>(output + tile.first_row * rhs_count + tile.first_column);
    const int64_t bytes = WARPS * rhs_count * int64_t(sizeof(T));
#pragma unroll 4
    for (int n = 0; n < count; n += WARPS, from += WARPS, place += opaque(bytes)) {
        T *const to = reinterpret_cast<T *>(place);
        const Rectangle<A> row = *from;
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            if (is_there[j])
                store(to, 32 * j, row.iou(columns[j]), REQUEST);
    }
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 4)
box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                double *__restrict__ partial, int output_request, int64_t step, int64_t sets, int64_t lhs_count,
                int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Rectangle<A> rows[TILE_ROWS];
    const Tiles tiles(sets, lhs_count, rhs_count);
    for (int64_t t = blockIdx.x; t < tiles.count(); t += gridDim.x) {
        const Tile<32> tile(t, tiles);
        hold_rows(rows, lhs, tile, is_center != 0);
        const ColumnBoxes<A, 32> columns(rhs, tile, tiles, is_center != 0);
        if (output_request == WRITE)
            write_tile<WRITE>(output, rows, columns.boxes, tile, rhs_count);
        else if (output_request == ADD)
            write_tile<ADD>(output, rows, columns.boxes, tile, rhs_count);
    }
}

// The derivatives of a pair's head * IoU: by the sides of its overlap, `across` and `down`; and by both areas.
template <typename A>
struct PairGradient {
    A across, down, area;

    // `column_area` has TINY_AREA in it.
    __device__ PairGradient(const Rectangle<A> &row, const Rectangle<A> &column, A column_area, A head)
    {
        const A w = smaller(row.right, column.right) - larger(row.left, column.left);
        const A h = smaller(row.bottom, column.bottom) - larger(row.top, column.top);
        const bool overlaps = smaller(w, h) > 0;
        const A intersection = overlaps ? w * h : A(0);
        const A inverse = reciprocal(row.area() + column_area - intersection);
        const A by_iou = head * inverse;
        area = -by_iou * intersection * inverse;
        const A by_intersection = overlaps ? by_iou - area : A(0);   // the union has it as well
        across = by_intersection * h;
        down = by_intersection * w;
    }
};

// Sums over the pairs of a box: of the derivatives by the sides of the overlaps, where an end of the box is that of the
// overlap, and of those by its area.
template <typename A>
struct BoxSums {
    A left, top, right, bottom, area;

    __device__ BoxSums() : left(0), top(0), right(0), bottom(0), area(0) {}

    __device__ Box<A> gradient(const Rectangle<A> &box) const
    {
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 + area * box.height,
                           (bottom + top) / 2 + area * box.width};
        return by;
    }
};

// Adds a pair to the sums of its boxes. Ends that coincide count as those of lhs.
template <typename A>
__device__ void add_pair(const PairGradient<A> &pair, const Rectangle<A> &row, const Rectangle<A> &column,
                         BoxSums<A> &of_row, BoxSums<A> &of_column)
{
    add_to_one(row.left, column.left, pair.across, of_row.left, of_column.left);
    add_to_one(row.top, column.top, pair.down, of_row.top, of_column.top);
    add_to_one(column.right, row.right, pair.across, of_row.right, of_column.right);
    add_to_one(column.bottom, row.bottom, pair.down, of_row.bottom, of_column.bottom);
    of_row.area += pair.area;
    of_column.area += pair.area;
}

// The sums of four numbers over a team. A quarter of its lanes get each of them: the first ones that of x, the next
// ones that of y.
template <int LANES, typename A>
__device__ A sum_of_four(const Box<A> &box)
{
    const unsigned mask = (0xffffffffu >> (32 - LANES)) << threadIdx.x % 32 / LANES * LANES;
    const bool upper = threadIdx.x & LANES / 2, second = threadIdx.x & LANES / 4;
    const A xw = (upper ? box.w : box.x) + __shfl_xor_sync(mask, upper ? box.x : box.w, LANES / 2);
    const A yh = (upper ? box.h : box.y) + __shfl_xor_sync(mask, upper ? box.y : box.h, LANES / 2);
    const A sum = (second ? yh : xw) + __shfl_xor_sync(mask, second ? xw : yh, LANES / 4);
    return reduce_lanes(sum, Sum(), LANES / 4);
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

    __device__ Box<A> *of_row(int64_t row, int64_t column_tile) const
    {
        return lhs + row * tiles.of_columns + column_tile;
    }

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

// The lanes that share the boxes of rhs in backward.
template <typename A> struct Team { enum { LANES = sizeof(A) == 8 ? 32 : 16 }; };

// The sum of a number over the teams of a warp.
template <typename A>
__device__ A sum_of_teams(A value)
{
#pragma unroll
    for (int step = Team<A>::LANES; step < 32; step *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// The sums of a thread's columns over the teams of the block. A thread stores one number of one column.
template <typename A>
__device__ void store_column_sums(const Box<A> *own, const TileSums<A> &sums, const Tile<Team<A>::LANES> &tile)
{
    enum { TEAM = Team<A>::LANES };
    __shared__ A numbers[WARPS][TILE_COLUMNS][4];
#pragma unroll
    for (int j = 0; j < Tile<TEAM>::HELD; ++j) {
        const Box<A> of_warp = {sum_of_teams(own[j].x), sum_of_teams(own[j].y), sum_of_teams(own[j].w),
                                sum_of_teams(own[j].h)};
        A *const of_column = numbers[threadIdx.x / 32][threadIdx.x % TEAM + TEAM * j];
        if (threadIdx.x % 32 < TEAM) {
            of_column[0] = of_warp.x;
            of_column[1] = of_warp.y;
            of_column[2] = of_warp.w;
            of_column[3] = of_warp.h;
        }
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

// The tiles computed once more, as no register holds them meanwhile.
__device__ inline Tiles tiles_again(int64_t sets, int64_t lhs_count, int64_t rhs_count)
{
    return Tiles(opaque(sets), opaque(lhs_count), opaque(rhs_count));
}

// The sums of the tile with this number.
template <typename T>
__device__ void sum_tile(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                         double *__restrict__ partial, int64_t number, int64_t sets, int64_t lhs_count,
                         int64_t rhs_count, bool is_center)
{
    typedef typename Accumulator<T>::type A;
    enum { TEAM = Team<A>::LANES, TEAMS = Tile<TEAM>::TEAMS, HELD = Tile<TEAM>::HELD };
    enum { TOGETHER = 2 };   // rows whose head gradients are read at once
    const Tiles tiles = tiles_again(sets, lhs_count, rhs_count);
    const Tile<TEAM> tile(number, tiles);
    __shared__ Rectangle<A> rows[TILE_ROWS];
    hold_rows(rows, lhs, tile, is_center);
    const ColumnBoxes<A, TEAM> columns(rhs, tile, tiles, is_center);
    BoxSums<A> of_columns[HELD];
    A areas[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j)
        areas[j] = columns.boxes[j].area() + A(TINY_AREA);
    const int columns_left = int(minimum(rhs_count - tile.first_column, TILE_COLUMNS));   // from the first own one on
    const int count = int(tile.end_row - tile.first_row);   // from the team's first row on
    const Rectangle<A> *from = rows + threadIdx.x / TEAM;
    const T *head = output_grad + tile.first_row * rhs_count + tile.first_column;
    __shared__ Box<A> row_sums[TILE_ROWS];
    A *row_sum = &row_sums[threadIdx.x / TEAM].x + threadIdx.x / (TEAM / 4) % 4;
    const int64_t head_bytes = TEAMS * rhs_count * int64_t(sizeof(T));
    for (int n = 0; n < count; n += TEAMS * TOGETHER, from += TEAMS * TOGETHER, row_sum += 4 * TEAMS * TOGETHER) {
        A heads[TOGETHER][HELD];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k, head = behind(head, head_bytes))
#pragma unroll
            for (int j = 0; j < HELD; ++j)
                heads[k][j] = TEAM * j < columns_left && n + k * TEAMS < count ? load(head, TEAM * j) : A(0);
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            if (n + k * TEAMS >= count)
                break;
            const Rectangle<A> box = from[k * TEAMS];
            BoxSums<A> of_row;
#pragma unroll
            for (int j = 0; j < HELD; ++j) {   // without a column the head gradient is 0
                const PairGradient<A> pair(box, columns.boxes[j], areas[j], heads[k][j]);
                add_pair(pair, box, columns.boxes[j], of_row, of_columns[j]);
            }
            const A sum = sum_of_four<TEAM>(of_row.gradient(box));
            if (threadIdx.x % (TEAM / 4) == 0)
                row_sum[4 * TEAMS * k] = sum;
        }
    }
    const Tiles all = tiles_again(sets, lhs_count, rhs_count);
    const Tile<TEAM> same(opaque(number), all);
    const ColumnBoxes<A, TEAM> boxes(rhs, same, all, is_center);
    Box<A> column_sums[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j)
        column_sums[j] = of_columns[j].gradient(boxes.boxes[j]);
    const TileSums<A> sums(partial, all);
    store_column_sums(column_sums, sums, same);
    const int64_t start = same.first_row - threadIdx.x / TEAM;
    for (int64_t row = threadIdx.x; row < same.end_row - start; row += 32 * WARPS)
        *sums.of_row(start + row, same.column_tile) = row_sums[row];
}

template <typename T, typename A>
__device__ void store_gradient(T *grad, int64_t i, const Box<A> &sum, bool is_center, int request)
{
    const BoxRow<A> gradient = row_gradient(sum, is_center);
    for (int n = 0; n < 4; ++n)
        store(grad, 4 * i + n, gradient.numbers[n], request);
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 3)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const Tiles tiles(sets, lhs_count, rhs_count);
    const TileSums<A> sums(partial, tiles);
    if (step == TILES) {
        for (int64_t t = blockIdx.x; t < tiles_again(sets, lhs_count, rhs_count).count(); t += gridDim.x)
            sum_tile(output_grad, lhs, rhs, partial, t, sets, lhs_count, rhs_count, is_center != 0);
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
