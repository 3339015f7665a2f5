// The losses of YOLO's heads. `Loss` is a RegionLoss, a YoloLoss or a GaussianLoss, and each has a function
// compute(loss, prediction, targets, parts). Forward has steps:
//     ASSIGN    a thread per ground truth finds the predictions to which it is assigned;
//     COMPUTE   gridDim.y blocks share an image, a thread per prediction. The last block adds up the sums of all.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.inl"
#include "../_region/class_logits.inl"
#include "../_region/head.inl"

enum { THREADS = 256 };

// One image's map.
template <typename T, typename Loss> struct Map {
    typedef typename Loss::Scalar A;
    const T *data;
    int anchors, classes, height, width;
    const double *anchor_sizes;

    template <typename Args>
    __device__ explicit Map(const Args &args)
        : data(args.data), anchors(int(args.anchor_count)), classes(int(args.classes)), height(int(args.height)),
          width(int(args.width)), anchor_sizes(args.anchors.values) {}

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    __device__ int channels() const { return Loss::FIRST_CLASS + classes; }
    __device__ A anchor_w(int anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    // Where the first number of a prediction is; the next ones are a plane apart.
    __device__ int64_t place(int anchor, int64_t cell) const { return anchor * channels() * cells() + cell; }
    __device__ A number(int anchor, int64_t cell, int channel) const
    {
        return load(data, place(anchor, cell) + channel * cells());
    }
};

// A ground truth as every prediction looks at it: its box, with the sides and the area, its cell and its best anchor. A
// row that is no box overlaps nothing.
template <typename A> struct __align__(16) Target {
    A left, right, top, bottom, area, class_id;
    int is_invalid;   // neither a box nor padding
    int cell;         // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;
    Box<A> box;

    template <typename Loss, typename Map>
    __device__ void set(const GroundTruth<A> &truth, const Loss &loss, const Map &map)
    {
        box = truth.box;
        left = truth.valid ? box.x - box.w / 2 : -lowest<A>();
        right = truth.valid ? box.x + box.w / 2 : lowest<A>();
        top = truth.valid ? box.y - box.h / 2 : -lowest<A>();
        bottom = truth.valid ? box.y + box.h / 2 : lowest<A>();
        area = truth.valid ? box.w * box.h : A(0);
        class_id = truth.class_id;
        is_invalid = !truth.valid && !truth.padding;
        cell = truth.valid ? int(truth.row * map.width + truth.column) : -1;
        anchor = truth.valid ? best_anchor(loss, map, box, cell) : -1;
    }

    // The area of the intersection with a box; where they are apart, a number that is not above 0.
    __device__ A intersection(const Sides<A> &other) const
    {
        const A w = smaller(other.across.high, right) - larger(other.across.low, left);
        const A h = smaller(other.down.high, bottom) - larger(other.down.low, top);
        return larger(w, A(0)) * h;
    }
};

// A prediction, and where its gradient goes.
template <typename T, typename Loss> struct Prediction {
    typedef typename Loss::Scalar A;
    const Map<T, Loss> &map;
    const T *from;
    A *to;
    int request, anchor, column, row, cell, height, width, classes;

    // `number` is anchor * cells + cell. 32 bits hold it, because more predictions fit into no memory.
    __device__ Prediction(const Map<T, Loss> &map, A *gradient, int request, unsigned number)
        : map(map), request(request), height(map.height), width(map.width), classes(map.classes)
    {
        const unsigned cells = unsigned(height) * unsigned(width);
        anchor = number / cells;
        cell = number - anchor * cells;
        row = unsigned(cell) / unsigned(width);
        column = cell - row * width;
        from = map.data + map.place(anchor, cell);
        to = gradient + map.place(anchor, cell);
    }

    // The same place, of which the compiler knows nothing: what it says is read again, and no register holds it
    // meanwhile.
    __device__ Prediction again() const
    {
        Prediction same = *this;
        same.column = int(opaque(column));
        same.row = int(opaque(row));
        same.height = int(opaque(height));
        same.width = int(opaque(width));
        return same;
    }

    __device__ A anchor_w() const { return map.anchor_w(anchor); }
    __device__ A anchor_h() const { return map.anchor_h(anchor); }
    __device__ A prior_w() const { return anchor_w() / A(width); }
    __device__ A prior_h() const { return anchor_h() / A(height); }
    __device__ int64_t at(int channel) const { return int64_t(channel) * (height * width); }   // 32 bits hold the cells
    __device__ A number(int channel) const { return load(from, at(channel)); }
    __device__ void put(int channel, A value) const { store(to, at(channel), value, request); }

    // The same value for the channels from one on.
    __device__ void put_all(int first, A value) const
    {
#pragma unroll 4
        for (int channel = first; channel < Loss::FIRST_CLASS + classes; ++channel)
            put(channel, value);
    }
};

// The ground truths of an image.
template <typename T, typename Loss> struct Targets {
    typedef typename Loss::Scalar A;
    Target<A> *all;
    const T *rows;
    int count;
    Map<T, Loss> map;
    const Loss &loss;

    // Those of image `b`, of the targets of the first one.
    __device__ Targets of_image(int64_t b) const
    {
        Targets own = *this;
        own.all += b * count;
        own.rows += b * count * 5;
        own.map.data += b * map.size();
        return own;
    }

    __device__ A class_id(int t) const { return all[t].class_id; }
    __device__ bool is_box(int t) const { return all[t].cell >= 0; }
    __device__ Box<A> box(int t) const { return all[t].box; }

    __device__ void assign(int t) const
    {
        all[t].set(GroundTruth<A>(rows, t, map.classes, map.height, map.width, loss.point_shift()), loss, map);
    }

    // Whether a ground truth is assigned to a prediction.
    __device__ bool is_at(int t, const Prediction<T, Loss> &prediction) const
    {
        if (all[t].cell != prediction.cell)
            return false;
        const Box<A> size = {0, 0, all[t].box.w, all[t].box.h};
        const Box<A> anchor_size = {0, 0, prediction.prior_w(), prediction.prior_h()};
        return all[t].anchor == prediction.anchor || loss.fits(anchor_size, size);
    }

    // The first ground truth from number `t` on that is at a place; `count` if there is none.
    __device__ int next_at(int t, const Prediction<T, Loss> &prediction) const
    {
        while (t < count && !is_at(t, prediction))
            ++t;
        return t;
    }

    // Whether the IoU of any of them with a box is above a threshold. It needs no division: the IoU is above t where
    // the intersection is above t / (1 + t) of both areas.
    __device__ bool any_overlaps(const Box<A> &box, A thresh) const
    {
        const Sides<A> sides = sides_of(box);
        const A share = thresh / (1 + thresh);
        A most = lowest<A>();   // the largest intersection, less that share of the target's area
#pragma unroll 4
        for (int t = 0; t < count; ++t)
            most = larger(most, all[t].intersection(sides) - share * all[t].area);
        return most > share * (box.w * box.h);
    }

    // Whether a row is neither a box nor padding. A warp looks together.
    __device__ bool any_invalid() const
    {
        int invalid = 0;
        for (int t = threadIdx.x % 32; t < count; t += 32)
            invalid += all[t].is_invalid;
        return reduce_warp(invalid, Sum()) > 0;
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
template <typename Args, typename T, typename Loss>
__device__ void compute_image(const Args &args, const Targets<T, Loss> &targets, int64_t b)
{
    typedef typename Args::A A;
    const Map<T, Loss> &map = targets.map;
    A *const gradient = args.gradient + b * map.size();
    const bool is_invalid = targets.any_invalid();
    __shared__ A of_threads[THREADS][PARTS];   // registers are short
    A *const parts = of_threads[threadIdx.x];
    for (int p = 0; p < PARTS; ++p)
        parts[p] = is_invalid ? not_a_number<A>() : A(0);
    const int predictions = int(map.anchors * map.cells());   // more fit into no memory
    for (int n = blockIdx.y * THREADS + threadIdx.x; n < predictions; n += gridDim.y * THREADS) {
        const Prediction<T, Loss> prediction(map, gradient, args.gradient_request, n);
        if (is_invalid)
            prediction.put_all(0, not_a_number<A>());
        else
            compute(targets.loss, prediction, targets, parts);
    }
    write_parts(args, parts, Scratch<A>(args.counts, args.sums), b);
}

template <typename Args, typename Loss>
__device__ void head_loss_forward(const Args &args, const Loss &loss)
{
    typedef typename Args::Data T;
    const Map<T, Loss> map(args);
    const Targets<T, Loss> targets = {args.targets, args.truth, int(args.truths), map, loss};
    if (args.step == args.ASSIGN) {
        for (int64_t t = first_item(); blockIdx.y == 0 && t < args.batch * targets.count; t += item_step())
            targets.of_image(t / targets.count).assign(int(t % targets.count));
        return;
    }
    for (int64_t b = blockIdx.x; b < args.batch; b += gridDim.x)
        compute_image(args, targets.of_image(b), b);
}

// The gradients of the images' losses, times the head gradients.
template <typename Args>
__device__ void head_loss_backward(const Args &args)
{
    const int64_t of_image = args.anchor_count * args.channels * args.height * args.width;
    for (int64_t i = first_item(); i < args.batch * of_image; i += item_step()) {
        const typename Args::A head = load(args.output_grad, quotient(i, of_image));
        store(args.data_grad, i, load(args.gradient, i) * head, args.data_grad_request);
    }
}
