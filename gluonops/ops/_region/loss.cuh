// What the losses of maps share. Forward has steps:
//     ASSIGN    a thread per ground truth finds the predictions to which it is assigned;
//     COMPUTE   gridDim.y blocks share an image, a thread per prediction. The last block adds up the sums of all.
#include "../_blocks/blocks.cuh"
#include "../_region/parts.inl"
#include "../_boxes/boxes.inl"
#include "../_region/ground_truth.inl"

enum { THREADS = 256 };

// The anchor and the cell of a prediction, whose number is anchor * cells + cell. 32 bits hold it, because more
// predictions fit into no memory.
struct AnchorCell {
    int anchor, cell, column, row;

    __device__ AnchorCell(int number, int height, int width)
    {
        const unsigned cells = unsigned(height) * unsigned(width);
        anchor = unsigned(number) / cells;
        cell = number - anchor * cells;
        row = unsigned(cell) / unsigned(width);
        column = cell - row * width;
    }
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
    __device__ A intersection(const Sides<A> &box) const
    {
        const A w = smaller(box.across.high, right) - larger(box.across.low, left);
        const A h = smaller(box.down.high, bottom) - larger(box.down.low, top);
        return larger(w, A(0)) * h;
    }
};

// Whether the IoU of any of these targets with a box is above a threshold. It needs no division: the IoU is above t
// where the intersection is above t / (1 + t) of both areas.
template <typename Item, typename A>
__device__ bool any_overlaps(const Item *targets, int count, const Box<A> &box, A thresh)
{
    const Sides<A> sides = sides_of(box);
    const A share = thresh / (1 + thresh);
    A most = lowest<A>();   // of an intersection without that share of the target's area
#pragma unroll 4
    for (int t = 0; t < count; ++t)
        most = larger(most, targets[t].intersection(sides) - share * targets[t].area);
    return most > share * (box.w * box.h);
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

// Step ASSIGN.
template <typename Targets>
__device__ void assign(const Targets &targets, int64_t batch)
{
    for (int64_t t = first_item(); t < batch * targets.count; t += item_step()) {
        const Targets own = of_image(targets, t / targets.count);
        own.all[t % targets.count].set(own.truth(t % targets.count), own);
    }
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

// Where an image's gradient goes, from a place on.
template <typename A> struct Gradient {
    A *first;
    int request;

    __device__ Gradient behind(int64_t elements) const
    {
        const Gradient rest = {first + elements, request};
        return rest;
    }

    __device__ void put(int64_t i, A value) const { store(first, i, value, request); }

    // The same value for `count` elements, a step apart.
    __device__ void put_all(int64_t i, int count, int64_t step, A value) const
    {
#pragma unroll 4
        for (int c = 0; c < count; ++c)
            put(i + c * step, value);
    }
};

// The results of image `b`, by the last of its blocks. `own` are the sums of this thread.
template <typename Args, typename A>
__device__ void write_parts(const Args &args, const A *own, const Scratch<A> &scratch, int64_t b)
{
    for (int p = 0; p < PARTS; ++p) {
        const A sum = reduce_block(own[p], Sum());
        if (threadIdx.x == 0)
            scratch.partial[(b * gridDim.y + blockIdx.y) * PARTS + p] = sum;
    }
    if (!scratch.is_last_block(b, gridDim.y) || threadIdx.x > 0)
        return;
    A loss = 0;
    for (int p = 0; p < PARTS; ++p) {
        const A sum = scratch.sum(b * gridDim.y * PARTS + p, gridDim.y, PARTS);
        loss += p <= CLASS_PART ? sum : A(0);
        store(args.parts, b * PARTS + p, sum, args.parts_request);
    }
    store(args.output, b, loss, args.output_request);
}

// One image. An invalid row of its ground truth makes it NaN.
template <typename Args, typename Targets>
__device__ void compute_image(const Args &args, const Targets &targets, int64_t b)
{
    typedef typename Args::A A;
    const typename Targets::ImageMap &map = targets.map;
    const Gradient<A> gradient = {args.gradient + b * map.size(), args.gradient_request};
    const bool is_invalid = any_invalid(targets);
    __shared__ A of_threads[THREADS][PARTS];   // registers are short
    A *const parts = of_threads[threadIdx.x];
    for (int p = 0; p < PARTS; ++p)
        parts[p] = is_invalid ? not_a_number<A>() : A(0);
    const int predictions = int(map.anchors * map.cells());   // more fit into no memory
    for (int n = blockIdx.y * THREADS + threadIdx.x; n < predictions; n += gridDim.y * THREADS) {
        const AnchorCell at(n, map.height, map.width);
        if (is_invalid)
            gradient.put_all(map.place(at), map.channels(), map.cells(), not_a_number<A>());
        else
            targets.compute(at, gradient, parts);
    }
    write_parts(args, parts, Scratch<A>(args.counts, args.sums), b);
}

// Both steps. `targets` are those of the first image.
template <typename Args, typename Targets>
__device__ void map_loss_forward(const Args &args, const Targets &targets)
{
    if (args.step == args.ASSIGN) {
        if (blockIdx.y == 0)
            assign(targets, args.batch);
        return;
    }
    for (int64_t b = blockIdx.x; b < args.batch; b += gridDim.x)
        compute_image(args, of_image(targets, b), b);
}

// Backward: the gradients of the images' losses, times the head gradients.
template <typename Args>
__device__ void scale_gradient(const Args &args)
{
    const int64_t of_image = args.anchor_count * args.channels * args.height * args.width;
    for (int64_t i = first_item(); i < args.batch * of_image; i += item_step()) {
        const typename Args::A head = load(args.output_grad, quotient(i, of_image));
        store(args.data_grad, i, load(args.gradient, i) * head, args.data_grad_request);
    }
}
