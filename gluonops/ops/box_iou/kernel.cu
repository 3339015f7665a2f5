// box_iou. A block takes a tile of pairs: some boxes of lhs, its rows, with some boxes of rhs, its columns. A thread
// has boxes of rhs in registers, and visits some of lhs. Backward has steps:
//     TILES      the sums of each box's gradient over the tile;
//     BOXES      the sums over the tiles: a thread for a box;
//     AT_ONCE    both, where a tile has all boxes of rhs. The last block that has written a box's sums goes on.
// Bytes moved: forward the output, backward the head gradient.
#include "../_boxes/boxes.cuh"

enum Step { TILES, BOXES, AT_ONCE };
enum { THREADS = 256, WARPS = THREADS / 32 };
enum { TILE_ROWS = 384, TILE_COLUMNS = 64 };   // of forward

__device__ inline int lesser(int a, int b) { return a < b ? a : b; }

template <typename T, typename A>
__device__ Sides<A> sides_at(const T *boxes, int64_t i, bool is_center)
{
    BoxRow<A> row;
    for (int n = 0; n < 4; ++n)
        row.numbers[n] = load(boxes, 4 * i + n);
    return sides_of(row, is_center);
}

// How the pairs are divided into tiles of at most `rows` and `columns`.
struct Tiles {
    int64_t sets, lhs_count, rhs_count, rows, columns, of_rows, of_columns;

    __device__ Tiles() {}
    __device__ Tiles(int64_t sets, int64_t lhs_count, int64_t rhs_count, int64_t rows, int64_t columns)
        : sets(sets), lhs_count(lhs_count), rhs_count(rhs_count), rows(rows), columns(columns),
          of_rows(quotient(lhs_count + rows - 1, rows)), of_columns(quotient(rhs_count + columns - 1, columns)) {}

    __device__ int64_t count() const { return sets * of_rows * of_columns; }
};

// Which tile it is, and where it starts.
struct Place {
    int64_t set, row_tile, column_tile;

    __device__ Place() {}
    __device__ Place(int64_t index, const Tiles &tiles)
    {
        const int64_t band = quotient(index, tiles.of_columns);   // the tiles of some rows
        column_tile = index - band * tiles.of_columns;
        set = quotient(band, tiles.of_rows);
        row_tile = band - set * tiles.of_rows;
    }
};

// A tile of forward, and this thread's part of it: rows first_row, first_row + WARPS, ..., and HELD columns.
struct Tile {
    enum { HELD = TILE_COLUMNS / 32 };
    int64_t set, start_row, first_row, end_row, first_column;

    __device__ Tile(int64_t index, const Tiles &tiles)
    {
        const Place place(index, tiles);
        const int64_t start = place.row_tile * TILE_ROWS;
        set = place.set;
        start_row = set * tiles.lhs_count + start;
        first_row = start_row + threadIdx.x / 32;
        end_row = set * tiles.lhs_count + minimum(start + TILE_ROWS, tiles.lhs_count);
        first_column = place.column_tile * TILE_COLUMNS + threadIdx.x % 32;
    }

    __device__ int64_t column(int j) const { return first_column + 32 * j; }
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
template <typename A>
struct ColumnBoxes {
    enum { HELD = Tile::HELD };
    Rectangle<A> boxes[HELD];

    template <typename T>
    __device__ ColumnBoxes(const T *rhs, const Tile &tile, const Tiles &tiles, bool is_center)
    {
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int64_t column = minimum(tile.column(j), tiles.rhs_count - 1);
            boxes[j].set(sides_at<T, A>(rhs, tile.set * tiles.rhs_count + column, is_center));
        }
    }
};

// The boxes of lhs of a tile, in shared memory.
template <typename T, typename A>
__device__ void hold_rows(Rectangle<A> *held, const T *lhs, const Tile &tile, bool is_center)
{
    __syncthreads();   // the boxes of the tile before are read
    for (int64_t i = threadIdx.x; i < tile.end_row - tile.start_row; i += THREADS)
        held[i].set(sides_at<T, A>(lhs, tile.start_row + i, is_center));
    __syncthreads();   // the boxes of the tile are there
}

// The IoUs of this thread's part of a tile.
template <int REQUEST, typename T, typename A>
__device__ void write_tile(T *__restrict__ output, const Rectangle<A> *rows, const Rectangle<A> *columns,
                           const Tile &tile, int64_t rhs_count)
{
    enum { HELD = Tile::HELD };
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
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                double *__restrict__ partial, int output_request, int64_t step, int64_t sets, int64_t lhs_count,
                int64_t rhs_count, int64_t is_center, int64_t tile_rows, int64_t tile_columns)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Rectangle<A> rows[TILE_ROWS];
    const Tiles tiles(sets, lhs_count, rhs_count, TILE_ROWS, TILE_COLUMNS);
    for (int64_t t = blockIdx.x; t < tiles.count(); t += gridDim.x) {
        const Tile tile(t, tiles);
        hold_rows(rows, lhs, tile, is_center != 0);
        const ColumnBoxes<A> columns(rhs, tile, tiles, is_center != 0);
        if (output_request == WRITE)
            write_tile<WRITE>(output, rows, columns.boxes, tile, rhs_count);
        else if (output_request == ADD)
            write_tile<ADD>(output, rows, columns.boxes, tile, rhs_count);
    }
}

// A box as its pairs look at it in backward. One that is nowhere overlaps nothing.
template <typename A>
struct __align__(16) Bounds {
    A left, top, right, bottom;

    __device__ void set(const Sides<A> &sides, bool is_there)
    {
        const A nowhere = lowest<A>();
        left = is_there ? sides.across.low : -nowhere;
        top = is_there ? sides.down.low : -nowhere;
        right = is_there ? sides.across.high : nowhere;
        bottom = is_there ? sides.down.high : nowhere;
    }
};

// Sums over the pairs of a box: of the derivatives by the sides of the overlaps, where an end of the box is that of the
// overlap, and of those by its area, with the other sign.
template <typename A>
struct BoxSums {
    A left, top, right, bottom, area;

    __device__ void clear() { left = top = right = bottom = area = 0; }

    __device__ Box<A> gradient(A width, A height) const
    {
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 - area * height,
                           (bottom + top) / 2 - area * width};
        return by;
    }
};

// Adds a pair to the sums of its boxes. `areas` is the sum of both, and TINY_AREA. Ends that coincide count as those of
// lhs.
template <typename A>
__device__ void add_pair(const Bounds<A> &row, const Bounds<A> &column, A areas, A head, BoxSums<A> &of_row,
                         BoxSums<A> &of_column)
{
    const A w = smaller(row.right, column.right) - larger(row.left, column.left);
    const A h = smaller(row.bottom, column.bottom) - larger(row.top, column.top);
    const bool overlaps = smaller(w, h) > 0;
    const A intersection = overlaps ? w * h : A(0);
    const A inverse = reciprocal(areas - intersection);
    const A iou = intersection * inverse, by_iou = head * inverse;
    of_row.area = fma(by_iou, iou, of_row.area);
    of_column.area = fma(by_iou, iou, of_column.area);
    const A by_ends = overlaps ? by_iou : A(0);
    const A by_intersection = fma(by_ends, iou, by_ends);   // the union has it as well
    const A by_across = by_intersection * h, by_down = by_intersection * w;
    add_to_one(row.left, column.left, by_across, of_row.left, of_column.left);
    add_to_one(row.top, column.top, by_down, of_row.top, of_column.top);
    add_to_one(column.right, row.right, by_across, of_row.right, of_column.right);
    add_to_one(column.bottom, row.bottom, by_down, of_row.bottom, of_column.bottom);
}

// The sums of a tile: of a box of lhs, (rows, column tiles), where there are several of these, and of a box of rhs,
// (sets, row tiles, columns). In AT_ONCE, in front of them, a count for each box of rhs.
template <typename A>
struct TileSums {
    unsigned *counts;
    Box<A> *lhs, *rhs;
    Tiles tiles;

    __device__ TileSums() {}
    __device__ TileSums(double *partial, const Tiles &tiles)
        : counts(reinterpret_cast<unsigned *>(partial)), tiles(tiles)
    {
        lhs = reinterpret_cast<Box<A> *>(partial + tiles.sets * tiles.rhs_count);
        rhs = lhs + (tiles.of_columns > 1 ? tiles.sets * tiles.lhs_count * tiles.of_columns : 0);
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
#pragma unroll 4
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

template <typename T, typename A>
__device__ void store_gradient(T *grad, int64_t i, const Box<A> &sum, bool is_center, int request)
{
    const BoxRow<A> gradient = row_gradient(sum, is_center);
    for (int n = 0; n < 4; ++n)
        store(grad, 4 * i + n, gradient.numbers[n], request);
}

// The threads of a block in teams. A thread of a team has HELD of a tile's columns, and all of it visit the same rows.
// What is left over of the threads has none.
template <typename A>
struct Teams {
    enum { HELD = 16 / sizeof(A), LEAST = 8, TURNS = HELD };   // TURNS: most, with the rows that are held
    enum { MOST_ROWS = TURNS * THREADS / LEAST };
    int size, count, turns;

    __device__ void set(int64_t columns, int rows)
    {
        const int needed = int(columns + HELD - 1) / HELD;
        size = needed < LEAST ? LEAST : needed;
        count = THREADS / unsigned(size);
        turns = rows < count ? 1 : int(minimum(rows / unsigned(count), TURNS));
    }

    __device__ int rows() const { return turns * count; }      // that a block holds, and computes
    __device__ int distance() const { return size | 1; }       // of teams in ThreadSums: odd, for different banks
};

// The sums of the teams' threads in shared memory, TURNS for each.
template <typename A>
struct ThreadSums {
    enum { LEAST = Teams<A>::LEAST, PLACES = THREADS / LEAST * (LEAST + 1) };
    Bounds<A> ends[Teams<A>::TURNS * PLACES];
    A areas[Teams<A>::TURNS * PLACES];

    __device__ void put(int place, const BoxSums<A> &sums)
    {
        const Bounds<A> of_ends = {sums.left, sums.top, sums.right, sums.bottom};
        ends[place] = of_ends;
        areas[place] = sums.area;
    }

    // The sum of `count` of them, `step` places apart.
    __device__ BoxSums<A> sum(int place, int count, int step) const
    {
        const Bounds<A> *of_ends = ends + place;
        const A *of_areas = areas + place;
        BoxSums<A> total;
        total.clear();
#pragma unroll 4
        for (int i = 0; i < count; ++i, of_ends += step, of_areas += step) {
            const Bounds<A> own = *of_ends;
            total.left += own.left;
            total.top += own.top;
            total.right += own.right;
            total.bottom += own.bottom;
            total.area += *of_areas;
        }
        return total;
    }
};

// A row of a tile, of those that a block holds in shared memory.
template <typename A>
struct __align__(16) HeldRow {
    Bounds<A> bounds;
    A area, width, height;
};

// Two neighbours of a tensor, which are read at once.
template <typename T>
struct __align__(2 * sizeof(T)) Pair {
    T first, second;
};

// The tensors of backward.
template <typename T>
struct Tensors {
    const T *output_grad, *lhs, *rhs;
    T *lhs_grad, *rhs_grad;
    int lhs_request, rhs_request;
    bool is_center;
};

// A tile of backward, in shared memory, because registers are short. Rows and columns are counted from its first one.
template <typename T>
struct BackwardTile {
    typedef typename Accumulator<T>::type A;
    enum { HELD = Teams<A>::HELD };
    int64_t number;
    TileSums<A> sums;
    Place place;
    Teams<A> teams;
    int rows, columns;
    int64_t first_lhs, first_rhs, first_column;   // the boxes of the first row and column; that column in its set
    int64_t first_head;                           // of the head gradients
    int64_t head_step;                            // bytes from one turn's head gradients to the next one's
    bool at_once, has_pairs;                      // has_pairs: of head gradients, which are read at once

    __device__ BackwardTile() {}
    __device__ BackwardTile(const Tensors<T> &tensors, const TileSums<A> &sums, int64_t number, bool at_once)
        : number(number), sums(sums), place(number, sums.tiles), at_once(at_once)
    {
        const Tiles &tiles = sums.tiles;
        const int64_t first_row = place.row_tile * tiles.rows;
        first_column = place.column_tile * tiles.columns;
        first_lhs = place.set * tiles.lhs_count + first_row;
        first_rhs = place.set * tiles.rhs_count + first_column;
        first_head = first_lhs * tiles.rhs_count + first_column;
        rows = int(minimum(tiles.rows, tiles.lhs_count - first_row));
        columns = int(minimum(tiles.columns, tiles.rhs_count - first_column));
        teams.set(tiles.columns, rows);
        head_step = teams.count * tiles.rhs_count * int64_t(sizeof(T));
        has_pairs = tiles.rhs_count >= HELD && (tiles.rhs_count | tiles.columns) % 2 == 0 &&
                    reinterpret_cast<size_t>(tensors.output_grad) % sizeof(Pair<T>) == 0;
    }

    __device__ int64_t lhs_box(int row) const { return first_lhs + row; }
    __device__ int64_t rhs_box(int column) const { return first_rhs + column; }
    __device__ int64_t head_of(int row) const { return first_head + int64_t(row) * int(sums.tiles.rhs_count); }

    // The first column of a thread. Behind the last one it has columns of another thread, which it leaves out.
    __device__ int column_of(int lane) const
    {
        return lesser(HELD * lane, sums.tiles.rhs_count < HELD ? 0 : columns - HELD);
    }

    // The first row that is held with row `done`. Those in front of `done` are left out.
    __device__ int start(int done) const
    {
        const int last = rows - teams.rows();
        return last < 0 ? 0 : lesser(done, last);
    }

    __device__ bool is_left_out(int row, int done) const { return row < done || row >= rows; }

    __device__ HeldRow<A> row_to_hold(const Tensors<T> &tensors, int i, int done) const
    {
        const int row = start(done) + i;
        const Sides<A> sides = sides_at<T, A>(tensors.lhs, lhs_box(lesser(row, rows - 1)), tensors.is_center);
        HeldRow<A> held;
        held.bounds.set(sides, !is_left_out(row, done));
        held.width = sides.across.size;
        held.height = sides.down.size;
        held.area = held.width * held.height;
        return held;
    }

    // The head gradients of HELD columns from `head` on.
    __device__ void read_heads(A *heads, const T *head) const
    {
        if (has_pairs) {
#pragma unroll
            for (int j = 0; j < HELD; j += 2) {
                const Pair<T> pair = reinterpret_cast<const Pair<T> *>(head)[j / 2];
                heads[j] = load(&pair.first, 0);
                heads[j + 1] = load(&pair.second, 0);
            }
        } else {
            const int last = int(sums.tiles.rhs_count) - 1;
#pragma unroll
            for (int j = 0; j < HELD; ++j)   // the last column's again where there are too few
                heads[j] = load(head, lesser(j, last));
        }
    }

    // The sums of a row that is held, over the team's threads.
    __device__ void finish_row(const Tensors<T> &tensors, const ThreadSums<A> &of_threads, const HeldRow<A> &held,
                               int i, int done) const
    {
        const int row = start(done) + i;
        if (is_left_out(row, done))
            return;
        int turn = 0;
        for (; i >= teams.count; i -= teams.count)
            ++turn;
        const BoxSums<A> row_sums = of_threads.sum(turn * ThreadSums<A>::PLACES + i * teams.distance(), teams.size, 1);
        const int64_t box = lhs_box(row);
        const Box<A> sum = row_sums.gradient(held.width, held.height);
        if (sums.tiles.of_columns == 1)
            store_gradient(tensors.lhs_grad, box, sum, tensors.is_center, tensors.lhs_request);
        else
            *sums.of_row(box, place.column_tile) = sum;
    }

    // The sums of a column over the teams. In AT_ONCE, the last tile goes on with those of all tiles.
    __device__ void finish_column(const Tensors<T> &tensors, const ThreadSums<A> &of_threads, int column) const
    {
        const int lane = column / HELD, j = column - column_of(lane);
        const BoxSums<A> column_sums = of_threads.sum(j * ThreadSums<A>::PLACES + lane, teams.count, teams.distance());
        const int64_t box = rhs_box(column), in_set = first_column + column;
        const Sides<A> sides = sides_at<T, A>(tensors.rhs, box, tensors.is_center);
        const Box<A> sum = column_sums.gradient(sides.across.size, sides.down.size);
        *sums.of_column(place.set, place.row_tile, in_set) = sum;
        if (at_once && is_last_of(unsigned(sums.tiles.of_rows), sums.counts + box))
            store_gradient(tensors.rhs_grad, box, sums.rhs_sum(place.set, in_set), tensors.is_center,
                           tensors.rhs_request);
    }
};

// Where the threads are, in shared memory: their teams, the first of their columns, their places in ThreadSums; and of
// the rows that are held, those that they read and sum.
struct Seats {
    int teams[THREADS], firsts[THREADS], places[THREADS], rows[THREADS];
};

// The boxes of a thread's columns, and the sums over their pairs.
template <typename T>
struct OwnColumns {
    typedef typename Accumulator<T>::type A;
    enum { HELD = Teams<A>::HELD };
    Bounds<A> boxes[HELD];
    A areas[HELD];   // and TINY_AREA
    BoxSums<A> sums[HELD];

    __device__ OwnColumns(const BackwardTile<T> &tile, const Tensors<T> &tensors, Seats &seats)
    {
        const int team = threadIdx.x / unsigned(tile.teams.size), lane = threadIdx.x - team * tile.teams.size;
        const int first = tile.column_of(lane);
        seats.teams[threadIdx.x] = team;
        seats.firsts[threadIdx.x] = first;
        seats.places[threadIdx.x] = team * tile.teams.distance() + lane;
        seats.rows[threadIdx.x] = threadIdx.x;
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int column = first + j;
            const int64_t box = tile.rhs_box(lesser(column, tile.columns - 1));
            const Sides<A> sides = sides_at<T, A>(tensors.rhs, box, tensors.is_center);
            boxes[j].set(sides, column >= HELD * lane && column < tile.columns);
            areas[j] = sides.across.size * sides.down.size + A(TINY_AREA);
            sums[j].clear();
        }
    }

    // The pairs with a row; its sums.
    __device__ BoxSums<A> visit(const Bounds<A> &row, A area, const A *heads)
    {
        BoxSums<A> of_row;
        of_row.clear();
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            add_pair(row, boxes[j], area + areas[j], heads[j], of_row, sums[j]);
        return of_row;
    }

    // The pairs with the rows that are held.
    __device__ void visit_rows(const BackwardTile<T> &tile, const Tensors<T> &tensors, const Seats &seats,
                               const HeldRow<A> *held, int done, ThreadSums<A> &of_threads)
    {
        enum { PLACES = ThreadSums<A>::PLACES };
        const int team = seats.teams[threadIdx.x], first_place = seats.places[threadIdx.x];
        const int row = tile.start(done) + lesser(team, tile.rows - 1);
        const T *head = tensors.output_grad + tile.head_of(row) + seats.firsts[threadIdx.x];
        const HeldRow<A> *from = held + team;
        const int end = first_place + tile.teams.turns * PLACES;
#pragma unroll 1
        for (int place = first_place; place < end; place += PLACES, from += tile.teams.count) {
            A heads[HELD];
            tile.read_heads(heads, head);
            head = behind(head, tile.head_step);
            of_threads.put(place, visit(from->bounds, from->area, heads));
        }
    }
};

// The sums of a tile, and in AT_ONCE the gradients. Rows are held and summed by other warps each time.
template <typename T, typename A>
__device__ void sum_tile(const BackwardTile<T> &tile, const Tensors<T> &tensors)
{
    __shared__ HeldRow<A> held[Teams<A>::MOST_ROWS];
    __shared__ ThreadSums<A> of_threads;
    __shared__ Seats seats;
    OwnColumns<T> columns(tile, tensors, seats);
    if (threadIdx.x < tile.teams.rows())
        held[threadIdx.x] = tile.row_to_hold(tensors, threadIdx.x, 0);
    for (int done = 0; done < tile.rows; done += tile.teams.rows()) {
        __syncthreads();   // the rows are held
        if (seats.teams[threadIdx.x] < tile.teams.count)
            columns.visit_rows(tile, tensors, seats, held, done, of_threads);
        __syncthreads();   // the rows' sums are there
        const int i = seats.rows[threadIdx.x];
        if (i < tile.teams.rows()) {
            tile.finish_row(tensors, of_threads, held[i], i, done);
            if (done + tile.teams.rows() < tile.rows)
                held[i] = tile.row_to_hold(tensors, i, done + tile.teams.rows());
        }
        seats.rows[threadIdx.x] = (i + (tile.teams.rows() + 31) / 32 * 32) % THREADS;
    }
    __syncthreads();   // the rows' sums are read
#pragma unroll
    for (int j = 0; j < Teams<A>::HELD; ++j)
        if (seats.teams[threadIdx.x] < tile.teams.count)
            of_threads.put(j * ThreadSums<A>::PLACES + seats.places[threadIdx.x], columns.sums[j]);
    __syncthreads();   // the columns' sums are there
    if (threadIdx.x < tile.columns)
        tile.finish_column(tensors, of_threads, threadIdx.x);
}

// Step BOXES: the boxes of lhs that have no gradient yet, then those of rhs.
template <typename T, typename A>
__device__ void sum_boxes(const TileSums<A> &sums, const Tensors<T> &tensors)
{
    const Tiles &tiles = sums.tiles;
    const int64_t lhs_boxes = tiles.of_columns > 1 ? tiles.sets * tiles.lhs_count : 0;
    for (int64_t i = first_item(); i < lhs_boxes + tiles.sets * tiles.rhs_count; i += item_step()) {
        if (i < lhs_boxes) {
            store_gradient(tensors.lhs_grad, i, sums.lhs_sum(i), tensors.is_center, tensors.lhs_request);
        } else {
            const int64_t box = i - lhs_boxes, set = quotient(box, tiles.rhs_count);
            store_gradient(tensors.rhs_grad, box, sums.rhs_sum(set, box - set * tiles.rhs_count), tensors.is_center,
                           tensors.rhs_request);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 3)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center, int64_t tile_rows, int64_t tile_columns)
{
    typedef typename Accumulator<T>::type A;
    const Tensors<T> tensors = {output_grad, lhs, rhs, lhs_grad, rhs_grad, lhs_grad_request, rhs_grad_request,
                                is_center != 0};
    if (step == BOXES) {
        const Tiles tiles(sets, lhs_count, rhs_count, tile_rows, tile_columns);
        sum_boxes(TileSums<A>(partial, tiles), tensors);
        return;
    }
    __shared__ BackwardTile<T> tile;
    if (threadIdx.x == 0)
        tile.number = int64_t(blockIdx.x) - gridDim.x;
    do {
        __syncthreads();   // the tile before is done
        if (threadIdx.x == 0) {   // of which no register holds anything while it is computed
            const Tiles tiles(opaque(sets), opaque(lhs_count), opaque(rhs_count), tile_rows, tile_columns);
            const TileSums<A> sums(partial, tiles);
            tile = BackwardTile<T>(tensors, sums, tile.number + gridDim.x, step == AT_ONCE);
        }
        __syncthreads();   // the tile is there
        sum_tile<T, A>(tile, tensors);
    } while (tile.number + gridDim.x < tile.sums.tiles.count());
}
