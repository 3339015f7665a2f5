// What the losses of maps share: a thread per prediction, blocks that share an image, and the sums of its parts.
#include "../_region/parts.cuh"
#include "../_region/truth.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, TARGET = 8 };   // numbers in `partial` for each ground truth
enum Step { ASSIGN, COMPUTE, COMBINE };

// The place of a prediction.
struct Prediction {
    int64_t anchor, column, row;

    __device__ Prediction(int64_t number, int64_t height, int64_t width)
    {
        const int64_t line = number / width;   // of all anchors
        anchor = line / height;
        row = line - anchor * height;
        column = number - line * width;
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

    // Whether the IoU with a box is above `thresh`, without the division.
    __device__ bool overlaps(const Edges<A> &box, A thresh) const
    {
        const A w = smaller(box.right, right) - larger(box.left, left);
        const A h = smaller(box.bottom, bottom) - larger(box.top, top);
        const A intersection = larger(w, A(0)) * larger(h, A(0));
        return intersection > thresh * (box.area + area - intersection);
    }
};

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
        own.all[t % targets.count].set(own.truth(t % targets.count), own.map);
    }
}

// NaN if a row is neither a box nor padding, else 0. A warp looks together.
template <typename A, typename Targets>
__device__ A nan_if_invalid(const Targets &targets)
{
    int invalid = 0;
    for (int64_t t = threadIdx.x % 32; t < targets.count; t += 32)
        invalid += targets.all[t].is_invalid;
    return reduce_lanes(invalid, Sum(), 32) > 0 ? not_a_number<A>() : A(0);
}

// Where an image's gradient goes.
template <typename A> struct Gradient {
    A *first;
    int request;
    A nan_if_invalid;   // added to every element

    __device__ void put(int64_t i, A value) const { store(first, i, nan_if_invalid + value, request); }
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
        store(data_grad, i, load(gradient, i) * load(output_grad, i / size), data_grad_request);
}

// The sums of a block, and NaN in each if the image has an invalid row.
template <typename A>
__device__ void write_sums(const A *sums, A nan_if_invalid, double *to)
{
    __shared__ A of_warps[WARPS][PARTS];
    __syncthreads();   // the sums of the image before may still be read
    for (int p = 0; p < PARTS; ++p) {
        const A sum = reduce_lanes(sums[p], Sum(), 32);
        if (threadIdx.x % 32 == 0)
            of_warps[threadIdx.x / 32][p] = sum;
    }
    __syncthreads();   // the sums of all warps are there
    if (threadIdx.x < PARTS) {
        A sum = nan_if_invalid;
        for (int warp = 0; warp < WARPS; ++warp)
            sum += of_warps[warp][threadIdx.x];
        to[threadIdx.x] = sum;
    }
}
