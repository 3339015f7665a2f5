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
        const A nowhere = A(1e18);   // its square is finite
        left = is_there ? sides.across.low : nowhere;
        top = is_there ? sides.down.low : nowhere;
        right = is_there ? sides.across.high : -nowhere;
        bottom = is_there ? sides.down.high : -nowhere;
    }
};

// Sums over the pairs of a box: of the derivatives by the sides of the overlaps, where an end of the box is that of the
// overlap, and of those by its area, with the other sign.
template <typename A>
struct BoxSums {
    A left, top, right, bottom, area;

    __device__ void clear() { left = top = right = bottom = area = 0; }

    // The gradient of the box, NaN where there are pairs with NaNs: only overlaps are in the sums.
    __device__ Box<A> gradient(const Sides<A> &sides, unsigned nans) const
    {
        const A by_area = nans ? not_a_number<A>() : area;
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 - by_area * sides.down.size,
                           (bottom + top) / 2 - by_area * sides.across.size};
        return by;
    }
};

// Counts a box whose area is NaN.
template <typename A>
__device__ void count_nan(const Sides<A> &sides, unsigned *count)
{
    const A area = sides.across.size * sides.down.size;
    if (area != area)
        atomicAdd(count, 1u);
}

// Adds a pair to the sums of its boxes. `areas` is the sum of both, and TINY_AREA. Ends that coincide count as those of
// lhs. A pair that does not overlap adds 0 times the product of its distances, which has to be finite.
template <typename A>
__device__ void add_pair(const Bounds<A> &row, const Bounds<A> &column, A areas, A head, BoxSums<A> &of_row,
                         BoxSums<A> &of_column)
{
    const A w = smaller(row.right, column.right) - larger(row.left, column.left);
    const A h = smaller(row.bottom, column.bottom) - larger(row.top, column.top);
    const bool overlaps = smaller(w, h) > 0;
    const A intersection = w * h;
    const A inverse = reciprocal(areas - intersection);
    const A scale = overlaps ? head * inverse * inverse : A(0);
    of_row.area = fma(scale, intersection, of_row.area);
    of_column.area = fma(scale, intersection, of_column.area);
    const A by_intersection = scale * smaller(areas, -lowest<A>());   // of an infinite box it is 0
    add_to_one(row.left, column.left, by_intersection, h, of_row.left, of_column.left);
    add_to_one(row.top, column.top, by_intersection, w, of_row.top, of_column.top);
    add_to_one(column.right, row.right, by_intersection, h, of_row.right, of_column.right);
    add_to_one(column.bottom, row.bottom, by_intersection, w, of_row.bottom, of_column.bottom);
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

// The threads of a block in teams, which visit a row each at a time. A thread of a team has HELD of a tile's columns.
// What is left over of the threads has none.
template <typename A>
struct Teams {
    enum { HELD = 2, LEAST = 8, TURNS = sizeof(A) == 8 ? 2 : 6, AHEAD = TURNS == 2 ? 1 : 2 };
    // AHEAD: turns that are read at once. PLACES: of a turn in ThreadSums; 26 of them are for different banks.
    enum { PLACES = THREADS / LEAST * (LEAST + 1) + 26 };
    int size, count;
    int rows;         // that a block visits before it sums their sums
    int rotation;     // the threads of the warps that do so
    int reciprocal;   // 65536 / count, rounded up

    __device__ void set(int columns)
    {
        const int needed = (columns + HELD - 1) / HELD;
        size = needed < LEAST ? LEAST : needed;
        count = THREADS / unsigned(size);
        rows = TURNS * count;
        rotation = (rows + 31) & ~31;
        reciprocal = 65535 / unsigned(count) + 1;
    }

    __device__ int distance() const { return size | 1; }       // of teams in ThreadSums: odd, for different banks
    __device__ int place_of(int team, int lane) const { return team * distance() + lane; }   // in the first turn

    // The first place of a row, of those that a block visits.
    __device__ int place_of_row(int row) const
    {
        const int turn = row * reciprocal >> 16;
        return turn * PLACES + place_of(row - turn * count, 0);
    }
};

// The sums of the teams' threads in shared memory, for each turn.
template <typename A>
struct ThreadSums {
    enum { PLACES = Teams<A>::TURNS * Teams<A>::PLACES };
    Bounds<A> ends[PLACES];
    A areas[PLACES];

    __device__ static void put(Bounds<A> *end, A *area, const BoxSums<A> &sums)
    {
        const Bounds<A> of_ends = {sums.left, sums.top, sums.right, sums.bottom};
        *end = of_ends;
        *area = sums.area;
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

// Numbers that follow one another in a tensor, and are read at once.
template <typename T, int COUNT>
struct __align__(COUNT * sizeof(T)) Neighbours {
    T items[COUNT];
};

template <typename T>
__device__ bool are_at_once(const T *address, int count)
{
    return reinterpret_cast<size_t>(address) % (count * sizeof(T)) == 0;
}

// A box. PAIRED: its numbers are read at once.
template <bool CENTER, bool PAIRED, typename T, typename A>
__device__ Sides<A> read_box(const T *box)
{
    if (!PAIRED)
        return sides_at<T, A>(box, 0, CENTER);
    const Neighbours<T, 4> numbers = *reinterpret_cast<const Neighbours<T, 4> *>(box);
    return sides_at<T, A>(numbers.items, 0, CENTER);
}

// The tensors of backward.
template <typename T>
struct Tensors {
    const T *output_grad, *lhs, *rhs;
    T *lhs_grad, *rhs_grad;
    int lhs_request, rhs_request;
    bool is_center;
};

// From one turn to the next one, bytes of the head gradients and of the boxes; and from a thread's first column to its
// second.
struct Steps {
    int64_t head, row;
    int second;
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
    Steps steps;
    bool at_once;                                 // the step
    bool is_paired;                               // boxes, and pairs of head gradients, are read at once
    unsigned nan_rows, nan_columns;               // how often a box was seen whose area is NaN

    __device__ BackwardTile() {}
    __device__ BackwardTile(const Tensors<T> &tensors, const TileSums<A> &sums, int64_t number, bool at_once)
        : number(number), sums(sums), place(number, sums.tiles), at_once(at_once), nan_rows(0), nan_columns(0)
    {
        const Tiles &tiles = sums.tiles;
        const int64_t first_row = place.row_tile * tiles.rows;
        first_column = place.column_tile * tiles.columns;
        first_lhs = place.set * tiles.lhs_count + first_row;
        first_rhs = place.set * tiles.rhs_count + first_column;
        first_head = first_lhs * tiles.rhs_count + first_column;
        rows = int(minimum(tiles.rows, tiles.lhs_count - first_row));
        columns = int(minimum(tiles.columns, tiles.rhs_count - first_column));
        teams.set(int(tiles.columns));
        steps.head = teams.count * tiles.rhs_count * int64_t(sizeof(T));
        steps.row = teams.count * 4 * int64_t(sizeof(T));
        steps.second = lesser(1, columns - 1);
        is_paired = (tiles.rhs_count | tiles.columns) % 2 == 0 && are_at_once(tensors.output_grad, 2) &&
                    are_at_once(tensors.lhs, 4) && are_at_once(tensors.rhs, 4);
    }

    __device__ int64_t lhs_box(int row) const { return first_lhs + row; }
    __device__ int64_t rhs_box(int column) const { return first_rhs + column; }
    __device__ int64_t head_of(int row) const { return first_head + int64_t(row) * int(sums.tiles.rhs_count); }

    // The first column of a thread. Behind the last one it has columns of another thread, which it leaves out.
    __device__ int column_of(int lane) const { return lesser(HELD * lane, columns < HELD ? 0 : columns - HELD); }

    // The sums of a row over the team's threads; `i` is its number among those that are visited.
    template <bool CENTER, bool PAIRED>
    __device__ void finish_row(const Tensors<T> &tensors, const ThreadSums<A> &of_threads, int i, int row)
    {
        const BoxSums<A> row_sums = of_threads.sum(teams.place_of_row(i), teams.size, 1);
        const int64_t box = lhs_box(row);
        const Sides<A> sides = read_box<CENTER, PAIRED, T, A>(tensors.lhs + 4 * box);
        count_nan(sides, &nan_rows);
        const Box<A> sum = row_sums.gradient(sides, nan_columns);
        if (sums.tiles.of_columns == 1)
            store_gradient(tensors.lhs_grad, box, sum, CENTER, tensors.lhs_request);
        else
            *sums.of_row(box, place.column_tile) = sum;
    }

    // The sums of a column over the teams. In AT_ONCE, the last tile goes on with those of all tiles.
    __device__ void finish_column(const Tensors<T> &tensors, const ThreadSums<A> &of_threads, int column) const
    {
        enum { PLACES = Teams<A>::PLACES };
        const int lane = column / HELD, j = column - column_of(lane);
        const BoxSums<A> column_sums = of_threads.sum(j * PLACES + lane, teams.count, teams.distance());
        const int64_t box = rhs_box(column), in_set = first_column + column;
        const Sides<A> sides = sides_at<T, A>(tensors.rhs, box, tensors.is_center);
        *sums.of_column(place.set, place.row_tile, in_set) = column_sums.gradient(sides, nan_rows);
        if (at_once && is_last_of(unsigned(sums.tiles.of_rows), sums.counts + box))
            store_gradient(tensors.rhs_grad, box, sums.rhs_sum(place.set, in_set), tensors.is_center,
                           tensors.rhs_request);
    }
};

// The boxes of a thread's columns, and the sums over their pairs.
template <typename T, bool CENTER, bool PAIRED>
struct OwnColumns {
    typedef typename Accumulator<T>::type A;
    enum { HELD = Teams<A>::HELD, TURNS = Teams<A>::TURNS, AHEAD = Teams<A>::AHEAD, PLACES = Teams<A>::PLACES };
    Bounds<A> boxes[HELD];
    A areas[HELD];   // and TINY_AREA
    BoxSums<A> sums[HELD];

    __device__ OwnColumns(BackwardTile<T> &tile, const Tensors<T> &tensors, int lane)
    {
        const int first = tile.column_of(lane);
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const int column = first + j;
            const int64_t box = tile.rhs_box(lesser(column, tile.columns - 1));
            const Sides<A> sides = read_box<CENTER, PAIRED, T, A>(tensors.rhs + 4 * box);
            areas[j] = sides.across.size * sides.down.size + A(TINY_AREA);
            count_nan(sides, &tile.nan_columns);
            boxes[j].set(sides, column >= HELD * lane && column < tile.columns);
            sums[j].clear();
        }
    }

    // The pairs with a row; its sums.
    __device__ BoxSums<A> visit(const Sides<A> &sides, const A *heads)
    {
        const Bounds<A> row = {sides.across.low, sides.down.low, sides.across.high, sides.down.high};
        const A area = sides.across.size * sides.down.size;
        BoxSums<A> of_row;
        of_row.clear();
#pragma unroll
        for (int j = 0; j < HELD; ++j)
            add_pair(row, boxes[j], area + areas[j], heads[j], of_row, sums[j]);
        return of_row;
    }

    // The head gradients of a row. Where there is one column only, it is read twice.
    __device__ static void read_heads(A *heads, const T *head, int second)
    {
        if (PAIRED) {
            const Neighbours<T, 2> pair = *reinterpret_cast<const Neighbours<T, 2> *>(head);
            heads[0] = load(pair.items, 0);
            heads[1] = load(pair.items, 1);
        } else {
            heads[0] = load(head, 0);
            heads[1] = load(head, second);
        }
    }

    // The pairs with COUNT rows: of a turn, and of the next ones. `row` and `head` go on behind them.
    template <int COUNT>
    __device__ void visit_turns(const T *&row, const T *&head, const Steps &steps, Bounds<A> *ends, A *sizes)
    {
        Sides<A> sides[COUNT];
        A heads[COUNT][HELD];
#pragma unroll
        for (int n = 0; n < COUNT; ++n) {
            read_heads(heads[n], head, steps.second);
            sides[n] = read_box<CENTER, PAIRED, T, A>(row);
            head = behind(head, steps.head);
            row = behind(row, steps.row);
        }
#pragma unroll
        for (int n = 0; n < COUNT; ++n)
            ThreadSums<A>::put(ends + n * PLACES, sizes + n * PLACES, visit(sides[n], heads[n]));
    }

    // The pairs with the rows of the next turns. `left`: the rows of the tile from this team's next one on.
    __device__ void visit_rows(const T *&row, const T *&head, const BackwardTile<T> &tile, int left, Bounds<A> *ends,
                               A *sizes)
    {
        const Steps steps = tile.steps;
        const int count = tile.teams.count;
        int turn = 0;
#pragma unroll
        for (int t = 0; t < TURNS; t += AHEAD) {
            if (left <= (AHEAD - 1) * count)
                break;
            visit_turns<AHEAD>(row, head, steps, ends + t * PLACES, sizes + t * PLACES);
            left -= AHEAD * count;
            turn = t + AHEAD;
        }
        if (left > 0 && turn < TURNS)
            visit_turns<1>(row, head, steps, ends + turn * PLACES, sizes + turn * PLACES);
    }
};

// The sums of a tile, and in AT_ONCE the gradients. Rows are summed by other warps each time.
template <bool CENTER, bool PAIRED, typename T, typename A>
__device__ void sum_tile(BackwardTile<T> &tile, const Tensors<T> &tensors, ThreadSums<A> &of_threads)
{
    const Teams<A> teams = tile.teams;
    const int team = threadIdx.x / unsigned(teams.size), lane = threadIdx.x - team * teams.size;
    const int place = teams.place_of(team, lane), first = lesser(team, tile.rows - 1);
    Bounds<A> *const ends = of_threads.ends + place;
    A *const sizes = of_threads.areas + place;
    OwnColumns<T, CENTER, PAIRED> columns(tile, tensors, lane);
    const T *head = tensors.output_grad + tile.head_of(first) + tile.column_of(lane);
    const T *row = tensors.lhs + 4 * tile.lhs_box(first);
    int i = threadIdx.x;
    for (int done = 0; done < tile.rows; done += teams.rows) {
        const int left = threadIdx.x < teams.size * teams.count ? tile.rows - done - team : 0;
        columns.visit_rows(row, head, tile, left, ends, sizes);
        __syncthreads();   // the rows' sums are there
        if (i < lesser(teams.rows, tile.rows - done))
            tile.template finish_row<CENTER, PAIRED>(tensors, of_threads, i, done + i);
        i = (i + teams.rotation) % unsigned(THREADS);
        __syncthreads();   // the rows' sums are read
    }
#pragma unroll
    for (int j = 0; j < Teams<A>::HELD; ++j)
        if (threadIdx.x < teams.size * teams.count)
            ThreadSums<A>::put(ends + j * Teams<A>::PLACES, sizes + j * Teams<A>::PLACES, columns.sums[j]);
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
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
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
    __shared__ ThreadSums<A> of_threads;
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
        if (tensors.is_center && tile.is_paired)
            sum_tile<true, true>(tile, tensors, of_threads);
        else if (tensors.is_center)
            sum_tile<true, false>(tile, tensors, of_threads);
        else if (tile.is_paired)
            sum_tile<false, true>(tile, tensors, of_threads);
        else
            sum_tile<false, false>(tile, tensors, of_threads);
    } while (tile.number + gridDim.x < tile.sums.tiles.count());
}
