// The losses of YOLO's heads. `Loss` is a RegionLoss, a YoloLoss or a GaussianLoss, and each has the functions
//     compute_background(loss, prediction, targets, parts)   a thread calls it where no ground truth is assigned. It
//                                                            returns false if it leaves the prediction over;
//     compute_prediction(loss, prediction, targets, parts)   some lanes call it together for any prediction.
// gridDim.y blocks share an image. Each finds the predictions to which the ground truths are assigned, computes its own
// predictions, and then those that are left over. The last block adds up the sums of all.
#include "../_shared_rows/shared_rows.cuh"
#include "../_boxes/boxes.inl"
#include "../_region/class_logits.inl"
#include "../_region/head.inl"

enum { LEFT = 1024 };   // The most predictions left over whose numbers a block holds.

struct Or { __device__ unsigned operator()(unsigned a, unsigned b) const { return a | b; } };

// The map of one image.
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

    // Returns where the first number of a prediction is. The next ones are a plane apart.
    __device__ int64_t offset(int anchor, int64_t cell) const { return anchor * channels() * cells() + cell; }
    __device__ A number(int anchor, int64_t cell, int channel) const
    {
        return load(data, offset(anchor, cell) + channel * cells());
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

    // Returns the area of the intersection with a box. If they are apart, it is a number that is not above 0.
    __device__ A intersection(const Sides<A> &other) const
    {
        const A w = smaller(other.across.high, right) - larger(other.across.low, left);
        const A h = smaller(other.down.high, bottom) - larger(other.down.low, top);
        return larger(w, A(0)) * h;
    }
};

// A prediction, and where its gradient goes. So many lanes share its classes, and the ground truths that its box is
// compared with.
template <typename T, typename Loss, int LANES_OF_ONE> struct Prediction {
    typedef typename Loss::Scalar A;
    enum { LANES = LANES_OF_ONE };
    const Map<T, Loss> &map;
    const T *from;
    A *to;
    int request, anchor, column, row, cell, height, width, classes;
    unsigned first_ones;   // a bit for each of the first 32 ground truths that are here, where lanes compute it

    // `number` is anchor * cells + cell. 32 bits hold it, because more predictions fit into no memory.
    __device__ Prediction(const Map<T, Loss> &map, A *gradient, int request, unsigned number)
        : map(map), request(request), height(map.height), width(map.width), classes(map.classes)
    {
        const unsigned cells = unsigned(height) * unsigned(width);
        anchor = number / cells;
        cell = number - anchor * cells;
        row = unsigned(cell) / unsigned(width);
        column = cell - row * width;
        from = map.data + map.offset(anchor, cell);
        to = gradient + map.offset(anchor, cell);
    }

    // Returns the same prediction, of which the compiler knows nothing. So its members are read again, and no register
    // holds them meanwhile.
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
    __device__ int lane() const { return threadIdx.x % LANES; }
    __device__ int sum(int of_lane) const { return reduce_lanes(of_lane, Sum(), LANES); }

    // Gives all lanes the best of their matches. Of several equal ones it is the first.
    template <typename Match>
    __device__ void share_best(Match &match) const
    {
        const A most = reduce_lanes(match.iou, Max(), LANES);
        match.truth = -reduce_lanes(match.iou == most ? -match.truth : -0x7fffffff, Max(), LANES);
        match.iou = most;
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

    // Those of image `b`, for this block.
    __device__ Targets of_image(int64_t b) const
    {
        Targets own = *this;
        own.all += (b * gridDim.y + blockIdx.y) * count;
        own.rows += b * count * 5;
        own.map.data += b * map.size();
        return own;
    }

    __device__ A class_id(int t) const { return all[t].class_id; }
    __device__ bool is_box(int t) const { return all[t].cell >= 0; }
    __device__ Box<A> box(int t) const { return all[t].box; }

    // The block's threads share the ground truths.
    __device__ void assign() const
    {
        for (int t = threadIdx.x; t < count; t += THREADS)
            all[t].set(GroundTruth<A>(rows, t, map.classes, map.height, map.width, loss.point_shift()), loss, map);
        __syncthreads();   // all are assigned
    }

    // Returns whether a ground truth is assigned to the prediction of an anchor in its cell.
    __device__ bool has_anchor(int t, int anchor) const
    {
        const Box<A> size = {0, 0, all[t].box.w, all[t].box.h};
        const Box<A> anchor_size = {0, 0, map.anchor_w(anchor) / A(map.width), map.anchor_h(anchor) / A(map.height)};
        return all[t].anchor == anchor || loss.fits(anchor_size, size);
    }

    template <typename Prediction>
    __device__ bool is_at(int t, const Prediction &prediction) const
    {
        return all[t].cell == prediction.cell && has_anchor(t, prediction.anchor);
    }

    // Returns which of the 32 predictions from number `first` on have a ground truth, a bit for each. A warp looks
    // together.
    __device__ unsigned assigned(int first) const
    {
        unsigned with_truth = 0;
        for (int t = threadIdx.x % WARP; t < count; t += WARP) {
            unsigned number = all[t].cell - first;
            for (int anchor = 0; is_box(t) && anchor < map.anchors; ++anchor, number += unsigned(map.cells()))
                if (number < 32 && has_anchor(t, anchor))
                    with_truth |= 1u << number;
        }
        return reduce_warp(with_truth, Or());
    }

    // Returns which of the 32 ground truths from number `first` on are at a prediction, a bit for each. Its lanes look
    // together.
    template <typename Prediction>
    __device__ unsigned ones_at(int first, const Prediction &prediction) const
    {
        enum { LANES = Prediction::LANES };
        unsigned here = 0;
        for (int t = prediction.lane(); t < WARP && first + t < count; t += LANES)
            here |= unsigned(is_at(first + t, prediction)) << t;
        return reduce_lanes(here, Or(), LANES);
    }

    // Returns the first ground truth from number `t` on that is at a prediction, or `count` if there is none.
    template <typename Prediction>
    __device__ int next_at(int t, const Prediction &prediction) const
    {
        for (; t < count; t = (t / 32 + 1) * 32) {
            const unsigned here = (t < 32 ? prediction.first_ones : ones_at(t / 32 * 32, prediction)) >> t % 32;
            if (here)
                return t + 31 - __clz(int(here & (0u - here)));   // the lowest bit
        }
        return count;
    }

    // Returns whether the IoU of any of them with a box is above a threshold. It needs no division: the IoU is above t
    // where the intersection is above t / (1 + t) of both areas.
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

    // Returns whether a row is neither a box nor padding. A warp looks together.
    __device__ bool any_invalid() const
    {
        int invalid = 0;
        for (int t = threadIdx.x % 32; t < count; t += 32)
            invalid += all[t].is_invalid;
        return reduce_warp(invalid, Sum()) > 0;
    }
};

// Sets all numbers of as many predictions as there are threads, from number `first` on. The same thread sets a number
// each time. A warp's stores are of whole sectors.
template <typename T, typename Loss, typename A>
__device__ void fill(const Map<T, Loss> &map, A *gradient, int first, A value)
{
    const int cells = int(map.cells()), end = int(minimum(first + THREADS, map.anchors * cells));
    for (int anchor = first / cells; anchor * cells < end; ++anchor) {
        const int start = first < anchor * cells ? 0 : first - anchor * cells;
        const int stop = int(minimum(end - anchor * cells, cells));
        for (int channel = threadIdx.x / WARP; channel < map.channels(); channel += WARPS) {
            A *const plane = gradient + map.offset(anchor, 0) + channel * map.cells();
            const int in_front = reinterpret_cast<size_t>(plane + start) / sizeof(A) % WARP;
#pragma unroll 4
            for (int cell = start - in_front + threadIdx.x % WARP; cell < stop; cell += WARP)
                if (cell >= start)
                    plane[cell] = value;
        }
    }
}

// The results of image `b`, by the last of its blocks. A warp adds up a part.
template <typename Args, typename A>
__device__ void write_parts(const Args &args, A (*of_threads)[PARTS], const PartialResults<A> &scratch, int64_t b)
{
    const int lane = threadIdx.x % WARP;
    const int64_t first = b * gridDim.y * PARTS;
    __syncthreads();   // all threads have theirs
    for (int part = threadIdx.x / WARP; part < PARTS; part += WARPS) {
        A sum = 0;
        for (int thread = lane; thread < THREADS; thread += WARP)
            sum += of_threads[thread][part];
        sum = reduce_warp(sum, Sum());
        if (lane == 0)
            scratch.partial[first + blockIdx.y * PARTS + part] = sum;
    }
    if (!scratch.is_last_block(b, gridDim.y) || threadIdx.x >= WARP)
        return;
    const A sum = lane < PARTS ? scratch.sum(first + lane, gridDim.y, PARTS) : A(0);
    const A loss = reduce_warp(lane <= CLASSES ? sum : A(0), Sum());
    if (lane < PARTS)
        store(args.parts, b * PARTS + lane, sum, args.parts_request);
    if (lane == 0)
        store(args.output, b, loss, args.output_request);
}

// Computes one image. An invalid row of its ground truth makes the results NaN.
template <typename Args, typename T, typename Loss>
__device__ void compute_image(const Args &args, const Targets<T, Loss> &targets, int64_t b)
{
    enum { LANES = Loss::TOGETHER };
    typedef typename Args::A A;
    const Map<T, Loss> &map = targets.map;
    A *const gradient = args.gradient + b * map.size();
    const int step = gridDim.y * THREADS;
    if (args.gradient_request == WRITE)
        fill(map, gradient, blockIdx.y * THREADS, A(0));
    targets.assign();
    const bool is_invalid = targets.any_invalid();
    __shared__ A of_threads[THREADS][PARTS];   // registers are short
    A *const parts = of_threads[threadIdx.x];
    for (int p = 0; p < PARTS; ++p)
        parts[p] = is_invalid ? not_a_number<A>() : A(0);
    const int predictions = int(map.anchors * map.cells());   // more fit into no memory
    __shared__ int left[LEFT];
    int count = 0;   // the predictions that the threads have left over
    for (int first = blockIdx.y * THREADS; first < predictions; first += step) {
        const int n = first + threadIdx.x, lane = threadIdx.x % WARP;
        bool is_left = !is_invalid && targets.assigned(n - lane) >> lane & 1;
        if (n < predictions && !is_invalid && !is_left) {
            const Prediction<T, Loss, 1> alone(map, gradient, args.gradient_request, n);
            is_left = !compute_background(targets.loss, alone, targets, parts);
        }
        if (is_invalid && args.gradient_request != NOTHING)
            fill(map, gradient, first, not_a_number<A>());
        if (args.gradient_request == WRITE)
            fill(map, gradient, first + step, A(0));   // for the next time
        int all_left;
        const int index = count + sum_before<WARPS>(int(is_left), all_left);
        if (is_left)
            left[index] = n;
        count += all_left;
        __syncthreads();   // their numbers are there
        if (count <= LEFT - THREADS && first + step < predictions)
            continue;
        for (int i = threadIdx.x / LANES; i < count; i += THREADS / LANES) {
            auto together = Prediction<T, Loss, LANES>(map, gradient, args.gradient_request, left[i]).again();
            together.first_ones = targets.ones_at(0, together);
            compute_prediction(targets.loss, together, targets, parts);
        }
        count = 0;
    }
    write_parts(args, of_threads, PartialResults<A>(args.counts, args.sums), b);
}

template <typename Args, typename Loss>
__device__ void head_loss_forward(const Args &args, const Loss &loss)
{
    typedef typename Args::Data T;
    const Map<T, Loss> map(args);
    __shared__ Loss shared_loss;   // registers are short
    if (threadIdx.x == 0)
        shared_loss = loss;
    __syncthreads();   // the attributes are there
    const Targets<T, Loss> targets = {args.targets, args.truth, int(args.truths), map, shared_loss};
    for (int64_t b = blockIdx.x; b < args.batch; b += gridDim.x)
        compute_image(args, targets.of_image(b), b);
}

// Multiplies the gradients of the images' losses by the head gradients.
template <typename Args>
__device__ void head_loss_backward(const Args &args)
{
    const int64_t of_image = args.anchor_count * args.channels * args.height * args.width;
    for (int64_t i = first_item(); i < args.batch * of_image; i += item_step()) {
        const typename Args::A own = load(args.gradient, i);   // It is under way during the division.
        store(args.data_grad, i, own * load(args.output_grad, quotient(i, of_image)), args.data_grad_request);
    }
}
