// What the losses of maps share: a thread per prediction, blocks that share an image, and the sums of its parts.
#include "../_region/parts.cuh"
#include "../_region/truth.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { TARGET = 12 };         // numbers in `partial` for each ground truth
enum { HELD_TARGETS = 128 };  // ground truths of an image that a block holds in shared memory
enum Step { ASSIGN, COMPUTE, COMBINE };

// The place of a prediction, whose number is anchor * cells + cell. 32 bits hold it, because more predictions fit into no
// memory.
struct Prediction {
    int anchor, cell, column, row;

    __device__ Prediction(int number, int height, int width)
    {
        const unsigned cells = unsigned(height) * unsigned(width);
        anchor = unsigned(number) / cells;
        cell = number - anchor * cells;
        row = unsigned(cell) / unsigned(width);
        column = cell - row * width;
    }
};

template <typename A> struct Edges {
    A left, right, top, bottom, area;

    __device__ explicit Edges(const Box<A> &box)
        : left(box.x - box.w / 2), right(box.x + box.w / 2), top(box.y - box.h / 2), bottom(box.y + box.h / 2),
          area(box.w * box.h) {}
};

// A ground truth as every prediction looks at it: the sides and area of its box. A row that is no box overlaps nothing.
template <typename A> struct TargetBox {
    A left, right, top, bottom, area, class_id;
    int is_invalid;   // neither a box nor padding

    __device__ void set_box(const GroundTruth<A> &truth)
    {
        const Box<A> &box = truth.box;
        left = truth.valid ? box.x - box.w / 2 : -lowest<A>();
        right = truth.valid ? box.x + box.w / 2 : lowest<A>();
        top = truth.valid ? box.y - box.h / 2 : -lowest<A>();
        bottom = truth.valid ? box.y + box.h / 2 : lowest<A>();
        area = truth.valid ? box.w * box.h : A(0);
        class_id = truth.class_id;
        is_invalid = !truth.valid && !truth.padding;
    }

    // The area of the intersection with a box; where they are apart, a number that is not above 0.
    __device__ A intersection(const Edges<A> &box) const
    {
        const A w = smaller(box.right, right) - larger(box.left, left);
        const A h = smaller(box.bottom, bottom) - larger(box.top, top);
        return larger(w, A(0)) * h;
    }
};

// Whether the IoU of any of these targets with a box is above a threshold. It needs no division: the IoU is above t
// where the intersection is above t / (1 + t) of both areas.
template <typename Item, typename A>
__device__ bool any_overlaps(const Item *targets, int count, const Edges<A> &box, A thresh)
{
    const A share = thresh / (1 + thresh);
    A most = lowest<A>();   // of an intersection without that share of the target's area
#pragma unroll 4
    for (int t = 0; t < count; ++t)
        most = larger(most, targets[t].intersection(box) - share * targets[t].area);
    return most > share * box.area;
}

struct Or { __device__ unsigned operator()(unsigned a, unsigned b) const { return a | b; } };

// Which of the 32 predictions from `first` on have a ground truth assigned: a bit for each. A warp looks together.
template <typename Targets>
__device__ unsigned assigned_predictions(const Targets &targets, int first)
{
    unsigned assigned = 0;
    for (int t = threadIdx.x % 32; t < targets.count; t += 32)
        assigned |= targets.assigned_predictions(t, first);
    return reduce_warp(assigned, Or());
}

// `Targets` are the ground truths of the first image: `all` of them, their `rows` and `count`, and its `map`. These are
// those of image `b`.
template <typename Targets>
__device__ Targets of_image(Targets targets, int64_t b)
{
    targets.all += b * targets.count;
    targets.rows += b * targets.count * 5;
    targets.map.data += b * targets.map.size();
    return targets;
}

// Step ASSIGN, where a block does not hold the ground truths of an image.
template <typename Targets>
__device__ void assign(const Targets &targets, int64_t batch)
{
    for (int64_t t = first_item(); t < batch * targets.count; t += item_step()) {
        const Targets own = of_image(targets, t / targets.count);
        own.all[t % targets.count].set(own.truth(t % targets.count), own);
    }
}

// The ground truths of an image, in shared memory where there are at most HELD_TARGETS. Of each of `targets.all` there is
// what step ASSIGN has found out, else the block finds it out here.
template <typename Targets>
__device__ Targets hold(Targets targets)
{
    __shared__ typename Targets::Item held[HELD_TARGETS];
    targets.held = held;
    for (int t = threadIdx.x; targets.is_held() && t < targets.count; t += THREADS)
        held[t].set(targets.truth(t), targets);
    __syncthreads();   // all are assigned, and the sums of the image before are read
    return targets;
}

// Whether a row is neither a box nor padding. A warp looks together.
template <typename Targets>
__device__ bool any_invalid(const Targets &targets)
{
    int invalid = 0;
    for (int t = threadIdx.x % 32; t < targets.count; t += 32)
        invalid += targets.is_invalid(t);
    return reduce_warp(invalid, Sum()) > 0;
}

// Where an image's gradient goes.
template <typename A> struct Gradient {
    A *first;
    int64_t size;
    int request;

    // Whether one block sets all of an image to 0 before it computes what is not 0.
    __device__ bool is_cleared() const { return request == WRITE && gridDim.y == 1; }

    __device__ void clear() const
    {
        if (is_cleared())
            fill(first, size, A(0));
    }

    // This block's share becomes NaN.
    __device__ void spoil() const
    {
        const int64_t share = (size + gridDim.y - 1) / gridDim.y, start = blockIdx.y * share;
        if (request != NOTHING && start < size)
            fill(first + start, minimum(share, size - start), not_a_number<A>());
    }

    __device__ Gradient behind(int64_t elements) const
    {
        const Gradient rest = {first + elements, size - elements, request};
        return rest;
    }

    __device__ void put(int64_t i, A value) const { store(first, i, value, request); }

    // 0 for `count` elements, a step apart.
    __device__ void put_zeros(int64_t i, int count, int64_t step) const
    {
        if (request != WRITE || is_cleared())
            return;
        A *to = first + i;
#pragma unroll 4
        for (int c = 0; c < count; ++c, to += step)
            *to = 0;
    }

 private:
    // The block's threads set `count` elements to a value.
    __device__ static void fill(A *to, int64_t count, A value)
    {
        enum { SIZE = Pack<A>::SIZE };
        const int64_t behind_pack = reinterpret_cast<size_t>(to) % 16 / sizeof(A);
        const int64_t head = minimum(count, (SIZE - behind_pack) % SIZE), packs = (count - head) / SIZE;
        const int64_t tail = head + packs * SIZE;
        if (threadIdx.x < head)
            to[threadIdx.x] = value;
        if (threadIdx.x < count - tail)
            to[tail + threadIdx.x] = value;
        Pack<A> pack;
        pack.fill(value);
        A *place = to + head + SIZE * threadIdx.x;
#pragma unroll 4
        for (int64_t i = threadIdx.x; i < packs; i += THREADS, place += SIZE * THREADS)
            copy_pack(place, 0, pack, WRITE);
    }
};

// The outputs, and their requests.
template <typename T, typename A> struct Outputs {
    T *output;
    A *parts, *gradient;
    int output_request, parts_request, gradient_request;

    template <typename Targets>
    __device__ Gradient<A> gradient_of(const Targets &of_image, int64_t b) const
    {
        const int64_t size = of_image.map.size();
        const Gradient<A> own = {gradient + b * size, size, gradient_request};
        return own;
    }
};

// The results of image `b`, from the sums of the blocks that shared it.
template <typename T, typename A>
__device__ void combine_image(const Partials<PARTS> &partials, int64_t b, const Outputs<T, A> &outputs)
{
    A sums[PARTS] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int block = 0; block < gridDim.y; ++block)
#pragma unroll
        for (int p = 0; p < PARTS; ++p)
            sums[p] += A(partials.of_block(b, block)[p]);
    A loss = 0;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        loss += p <= CLASS_PART ? sums[p] : A(0);
        store(outputs.parts, b * PARTS + p, sums[p], outputs.parts_request);
    }
    store(outputs.output, b, loss, outputs.output_request);
}

// Step COMBINE.
template <typename T, typename A>
__device__ void combine(const Partials<PARTS> &partials, int64_t batch, const Outputs<T, A> &outputs)
{
    for (int64_t b = first_item(); b < batch; b += item_step())
        combine_image(partials, b, outputs);
}

// Backward: the gradients of the images' losses, times the head gradients. `size`: the elements of an image's map.
template <typename T, typename A>
__device__ void scale_gradient(const T *__restrict__ output_grad, const A *__restrict__ gradient,
                               T *__restrict__ data_grad, int data_grad_request, int64_t batch, int64_t size)
{
    for (int64_t i = first_item(); i < batch * size; i += item_step())
        store(data_grad, i, load(gradient, i) * load(output_grad, quotient(i, size)), data_grad_request);
}

// The sums of a prediction's parts that a thread, or a warp, adds up where only its objectness has a target.
template <typename A> struct BackgroundSums { A coordinates, no_objectness, cost; };

// The sums of a block, in shared memory: the first lane of a warp adds to those of its warp.
template <typename A> struct BlockSums {
    A (*of_warps)[PARTS];

    __device__ A *own() const { return of_warps[threadIdx.x / 32]; }

    __device__ void clear() const
    {
        for (int p = 0; threadIdx.x % 32 == 0 && p < PARTS; ++p)
            own()[p] = 0;
    }

    __device__ void add(const BackgroundSums<A> &background) const
    {
        const A coordinates = reduce_warp(background.coordinates, Sum());
        const A no_objectness = reduce_warp(background.no_objectness, Sum());
        const A cost = reduce_warp(background.cost, Sum());
        if (threadIdx.x % 32 != 0)
            return;
        own()[COORDINATES] += coordinates;
        own()[NO_OBJECTNESS] += no_objectness;
        own()[COST] += cost;
    }

    // What each thread of the warp has.
    __device__ void add(const A *parts) const
    {
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            const A sum = reduce_warp(parts[p], Sum());
            if (threadIdx.x % 32 == 0)
                own()[p] += sum;
        }
    }

    // NaN in each if the image has an invalid row. They are the results where an image has one block.
    template <typename T>
    __device__ void write(bool is_invalid, const Partials<PARTS> &partials, int64_t b,
                          const Outputs<T, A> &outputs) const
    {
        __syncthreads();   // the sums of all warps are there
        if (threadIdx.x >= 32)
            return;
        const int part = threadIdx.x;
        A sum = is_invalid ? not_a_number<A>() : A(0), loss = 0;
        for (int warp = 0; part < PARTS && warp < WARPS; ++warp)
            sum += of_warps[warp][part];
        for (int p = 0; p <= CLASS_PART; ++p)
            loss += __shfl_sync(0xffffffffu, sum, p);
        if (part >= PARTS)
            return;
        if (gridDim.y > 1) {
            partials.own(b)[part] = sum;
            return;
        }
        store(outputs.parts, b * PARTS + part, sum, outputs.parts_request);
        if (part == 0)
            store(outputs.output, b, loss, outputs.output_request);
    }
};
