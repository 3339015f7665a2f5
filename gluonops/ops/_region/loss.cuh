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

// A threshold of a box's IoU, without a division: IoU > t where the intersection is above t / (1 + t) of both areas.
template <typename A> struct OverlapThreshold {
    A share, own;   // own: of the box's area

    __device__ OverlapThreshold(A thresh, const Edges<A> &box) : share(thresh / (1 + thresh)), own(share * box.area) {}
    __device__ bool is_exceeded(A intersection, A area) const { return intersection > share * area + own; }
};

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
        own.all[t % targets.count].set(own.truth(t % targets.count), own.map);
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
        held[t].set(targets.truth(t), targets.map);
    __syncthreads();   // all are assigned, and the sums of the image before are read
    return targets;
}

// NaN if a row is neither a box nor padding, else 0. A warp looks together.
template <typename A, typename Targets>
__device__ A nan_if_invalid(const Targets &targets)
{
    int invalid = 0;
    for (int64_t t = threadIdx.x % 32; t < targets.count; t += 32)
        invalid += targets.is_invalid(t);
    return reduce_lanes(invalid, Sum(), 32) > 0 ? not_a_number<A>() : A(0);
}

// Where an image's gradient goes.
template <typename A> struct Gradient {
    A *first;
    int request;
    A nan_if_invalid;   // added to every element

    __device__ void put(int64_t i, A value) const { store(first, i, nan_if_invalid + value, request); }

    // 0 for `count` elements, a step apart.
    __device__ void put_zeros(int64_t i, int count, int64_t step) const
    {
        if (request == WRITE)
            put_zeros_as<WRITE>(first + i, count, step);
        else if (request == ADD)
            put_zeros_as<ADD>(first + i, count, step);
    }

 private:
    template <int REQUEST>
    __device__ void put_zeros_as(A *to, int count, int64_t step) const
    {
#pragma unroll 4
        for (int c = 0; c < count; ++c, to += step)
            store(to, 0, nan_if_invalid, REQUEST);
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
        const Gradient<A> own = {gradient + b * of_image.map.size(), gradient_request, nan_if_invalid<A>(of_image)};
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

    // NaN in each if the image has an invalid row. They are the results where an image has one block.
    template <typename T>
    __device__ void write(A nan_if_invalid, const Partials<PARTS> &partials, int64_t b, const Outputs<T, A> &outputs) const
    {
        __syncthreads();   // the sums of all warps are there
        if (threadIdx.x >= 32)
            return;
        const int part = threadIdx.x;
        A sum = nan_if_invalid, loss = 0;
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
