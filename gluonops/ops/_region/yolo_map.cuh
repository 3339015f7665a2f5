// The losses of YOLOv3's to YOLOv7's heads in CUDA. Forward has steps:
//     ASSIGN    a thread per ground truth finds its cell and the anchor that fits it best. Where an image has few ground
//               truths, each block does so itself in the next step;
//     COMPUTE   gridDim.y blocks share an image. A thread per prediction looks how much each ground truth overlaps the
//               predicted box. Then some lanes compute together each prediction of which more than the objectness has
//               a target;
//     COMBINE   the sums of the blocks are added, where an image has several.
// `Loss` is a YoloLoss or a GaussianLoss.
#include "../_region/region.cuh"
#include "../_region/truth.cuh"
#include "../_region/loss.cuh"
#include "../_region/yolo_math.cuh"
#include "../_region/yolo.cuh"

// The lanes that compute a prediction of which more than the objectness has a target. They share its classes, and the
// ground truths that it is compared with.
template <typename Loss> struct Together { enum { LANES = 4 }; };

enum { WINDOWS = 64 };   // of 32 predictions, that a block takes at a time

__device__ inline int lowest_bit(unsigned bits) { return 31 - __clz(int(bits & (0u - bits))); }

// Sets the attributes that all heads have.
template <typename A>
__device__ void set_loss(YoloLoss<A> &loss, double ignore_thresh, double truth_thresh, double iou_thresh,
                         int64_t box_loss, double iou_normalizer, double obj_normalizer, double max_delta,
                         double scale_x_y, double label_smooth_eps, int64_t objectness_smooth)
{
    loss.objectness_smooth = objectness_smooth != 0;
    loss.several_anchors = iou_thresh < 1;
    loss.box_loss = int(box_loss);
    loss.ignore_thresh = A(ignore_thresh);
    loss.truth_thresh = truth_thresh < 1 ? A(truth_thresh) : infinity<A>();
    loss.iou_thresh = A(iou_thresh);
    loss.iou_normalizer = A(iou_normalizer);
    loss.obj_normalizer = A(obj_normalizer);
    loss.max_delta = max_delta > 0 ? A(max_delta) : infinity<A>();
    loss.scale_x_y = A(scale_x_y);
    loss.label_smooth_eps = A(label_smooth_eps);
}

// One image's map.
template <typename T, typename Loss> struct Map {
    typedef typename Loss::Scalar A;
    const T *data;
    int anchors, other_anchors, classes, height, width;
    const double *anchor_sizes;   // the head's, then the others'

    // The same map, of whose sizes the compiler knows nothing. Otherwise it computes what follows from them in front of
    // all loops, and has no registers left for it.
    __device__ Map again() const
    {
        Map same = *this;
        same.anchors = int(opaque(anchors));
        same.classes = int(opaque(classes));
        same.height = int(opaque(height));
        same.width = int(opaque(width));
        return same;
    }

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    __device__ int channels() const { return Loss::FIRST_CLASS + classes; }
    __device__ A anchor_w(int anchor) const { return A(anchor_sizes[2 * anchor]); }
    __device__ A anchor_h(int anchor) const { return A(anchor_sizes[2 * anchor + 1]); }

    __device__ Box<A> anchor_size(int anchor) const
    {
        const Box<A> size = {0, 0, anchor_w(anchor) / A(width), anchor_h(anchor) / A(height)};
        return size;
    }

    // The anchor of any head whose size has the largest IoU with the box's; `anchors` for one of another head.
    __device__ int best_anchor(const Box<A> &box) const
    {
        const Box<A> size = {0, 0, box.w, box.h};
        int best = 0;
        A max_iou = 0;
        for (int anchor = 0; anchor < anchors + other_anchors; ++anchor) {
            const A iou = iou_of(anchor_size(anchor), size);
            if (iou > max_iou) {
                max_iou = iou;
                best = anchor;
            }
        }
        return best < anchors ? best : anchors;
    }
};

// A ground truth as every prediction looks at it, with its cell and its best anchor.
template <typename A> struct __align__(16) Target : TargetBox<A> {
    int cell;           // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;
    unsigned anchors;   // which of the first MASKED it is assigned to: a bit for each
    Box<A> box;

    enum { MASKED = 32 };

    template <typename Targets>
    __device__ void set(const GroundTruth<A> &truth, const Targets &targets)
    {
        const typename Targets::ImageMap &map = targets.map;
        this->set_box(truth);
        box = truth.box;
        cell = truth.valid ? int(truth.row * map.width + truth.column) : -1;
        anchor = truth.valid ? map.best_anchor(truth.box) : -1;
        anchors = 0;
        for (int other = 0; truth.valid && other < map.anchors && other < MASKED; ++other)
            anchors |= unsigned(fits(other, targets)) << other;
    }

    // Whether the box is assigned to the predictions of an anchor in its cell.
    template <typename Targets>
    __device__ bool fits(int other, const Targets &targets) const
    {
        const Box<A> size = {0, 0, box.w, box.h};
        return other == anchor || targets.loss.fits(targets.map.anchor_size(other), size);
    }
};

// The ground truths of an image.
template <typename T, typename Loss> struct Targets {
    typedef typename Loss::Scalar A;
    typedef Target<A> Item;
    typedef Map<T, Loss> ImageMap;
    Item *all;
    const T *rows;
    int count;
    Map<T, Loss> map;
    const Loss &loss;
    A shift;   // from a box's centre to the point that says its cell, in boxes
    const Item *held;

    __device__ Targets again() const
    {
        Targets same = *this;
        same.map = map.again();
        return same;
    }

    __device__ bool is_held() const { return count <= HELD_TARGETS; }
    __device__ int cell(int t) const { return is_held() ? held[t].cell : all[t].cell; }
    __device__ int anchor(int t) const { return is_held() ? held[t].anchor : all[t].anchor; }
    __device__ unsigned anchors(int t) const { return is_held() ? held[t].anchors : all[t].anchors; }
    __device__ A class_id(int t) const { return is_held() ? held[t].class_id : all[t].class_id; }
    __device__ bool is_invalid(int t) const { return is_held() ? held[t].is_invalid : all[t].is_invalid; }
    __device__ bool is_box(int t) const { return cell(t) >= 0; }
    __device__ Box<A> box(int t) const
    {
        if (is_held())
            return held[t].box;
        return all[t].box;
    }

    __device__ GroundTruth<A> truth(int t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width, shift);
    }

    // Whether a ground truth is assigned to the predictions of an anchor in its cell.
    __device__ bool has_anchor(int t, int anchor) const
    {
        if (anchor < Item::MASKED)
            return anchors(t) >> anchor & 1;
        return is_held() ? held[t].fits(anchor, *this) : all[t].fits(anchor, *this);
    }

    template <typename Place>
    __device__ bool is_at(int t, const Place &place) const
    {
        return cell(t) == place.cell && has_anchor(t, place.anchor);
    }

    // Which of the 32 ground truths from number `first` on are at a place: a bit for each. Its lanes look together.
    template <typename Place>
    __device__ unsigned ones_at(int first, const Place &place) const
    {
        unsigned here = 0;
        for (int t = place.lane(); t < 32 && first + t < count; t += Place::LANES)
            here |= is_at(first + t, place) ? 1u << t : 0u;
        return reduce_lanes(here, Or(), Place::LANES);
    }

    // The first ground truth from number `t` on that is at a place; `count` if there is none.
    template <typename Place>
    __device__ int next_at(int t, const Place &place) const
    {
        for (; t < count; t = (t / 32 + 1) * 32) {
            const unsigned here = (t < 32 ? place.first_ones : ones_at(t / 32 * 32, place)) >> t % 32;
            if (here)
                return t + lowest_bit(here);
        }
        return count;
    }

    // Which of the 32 predictions from `first` on a ground truth is assigned to: a bit for each.
    __device__ unsigned assigned_predictions(int t, int first) const
    {
        unsigned assigned = 0, place = cell(t) - first;
        for (int anchor = 0; is_box(t) && anchor < map.anchors; ++anchor, place += unsigned(map.cells()))
            if (place < 32 && has_anchor(t, anchor))
                assigned |= 1u << place;
        return assigned;
    }
};

// A prediction. Its lanes compute it together.
template <typename T, typename Loss> struct Place {
    typedef typename Loss::Scalar A;
    enum { LANES = Together<Loss>::LANES };
    const Map<T, Loss> &map;
    const T *from;
    const Gradient<A> gradient;   // from this place on
    int anchor, column, row, cell, height, width, classes;
    unsigned first_ones;   // of the first 32 ground truths, those that are here

    __device__ Place(const Map<T, Loss> &map, const Gradient<A> &of_image, const Prediction &at)
        : map(map), from(map.data + first(map, at)), gradient(of_image.behind(first(map, at))), anchor(at.anchor),
          column(at.column), row(at.row), cell(at.cell), height(map.height), width(map.width), classes(map.classes),
          first_ones(0) {}

    static __device__ int64_t first(const Map<T, Loss> &map, const Prediction &at)
    {
        return at.anchor * map.channels() * map.cells() + at.cell;
    }

    // The same place, of which the compiler knows nothing: what it says is read again, and no register holds it
    // meanwhile.
    __device__ Place again() const
    {
        Place same = *this;
        same.anchor = int(opaque(anchor));
        same.column = int(opaque(column));
        same.row = int(opaque(row));
        same.height = int(opaque(height));
        same.width = int(opaque(width));
        return same;
    }

    __device__ A anchor_w() const { return map.anchor_w(anchor); }
    __device__ A anchor_h() const { return map.anchor_h(anchor); }
    __device__ int64_t at(int channel) const { return int64_t(channel) * (height * width); }   // 32 bits hold the cells
    __device__ A number(int channel) const { return load(from, at(channel)); }
    __device__ void put(int channel, A value) const { gradient.put(at(channel), value); }
    __device__ int lane() const { return threadIdx.x % LANES; }
    template <typename V>
    __device__ V sum(V value) const { return reduce_lanes(value, Sum(), LANES); }

    // All lanes get the best of theirs.
    template <typename Best>
    __device__ void keep_best(Best &best) const
    {
        const unsigned mask = (0xffffffffu >> (32 - LANES)) << (threadIdx.x % 32 - lane());
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) {
            const A iou = __shfl_xor_sync(mask, best.iou, step);
            const int truth = __shfl_xor_sync(mask, int(best.truth), step);
            const bool is_better = iou > best.iou || (iou == best.iou && truth < best.truth);
            best.iou = is_better ? iou : best.iou;
            best.truth = is_better ? truth : best.truth;
        }
    }
};

// Whether a ground truth overlaps a box by more than a threshold.
template <typename T, typename Loss, typename A>
__device__ bool any_overlaps(const Targets<T, Loss> &targets, const Edges<A> &box, A thresh)
{
    return targets.is_held() ? any_overlaps(targets.held, targets.count, box, thresh)
                             : any_overlaps(targets.all, targets.count, box, thresh);
}

// Computes a thread's prediction if only its objectness has a target, which is 0 or nothing. Returns whether it did. No
// ground truth is assigned to it.
template <typename T, typename Loss, typename A>
__device__ bool compute_background(const Targets<T, Loss> &targets, const Gradient<A> &gradient, int prediction,
                                   BackgroundSums<A> &sums)
{
    const Loss &loss = targets.loss;
    const Place<T, Loss> place(targets.map, gradient, Prediction(prediction, targets.map.height, targets.map.width));
    const A number = place.number(Loss::OBJECT);
    const Edges<A> sides(YoloBox<A>(loss, place).box);
    const bool is_ignored = any_overlaps(targets, sides, loss.ignore_thresh);
    const bool has_matches = loss.truth_thresh < infinity<A>();
    if ((is_ignored && loss.alexeyab) || (has_matches && any_overlaps(targets, sides, loss.truth_thresh)))
        return false;
    const A weight = is_ignored ? A(0) : loss.obj_normalizer;
    const A weighted_error = weight * loss.activation(number);
    sums.no_objectness += weight * loss.entropy(number, A(0));
    sums.cost += weighted_error * weighted_error;
    place.gradient.put_zeros(0, Loss::OBJECT, targets.map.cells());
    place.put(Loss::OBJECT, weighted_error);
    place.gradient.put_zeros(place.at(Loss::FIRST_CLASS), place.classes, targets.map.cells());
    return true;
}

// The predictions that the threads leave over, in WINDOWS windows: a bit for each. Those that a ground truth is assigned
// to are kept apart: a warp has only one kind at a time.
struct LeftOver {
    enum Kind { ASSIGNED, OVERLAPPING, KINDS };
    unsigned (*masks)[WINDOWS];   // of each kind and window

    // How many there are of a kind. A warp counts together.
    __device__ int count(Kind kind) const
    {
        int found = 0;
        for (int window = threadIdx.x % 32; window < WINDOWS; window += 32)
            found += __popc(masks[kind][window]);
        return reduce_warp(found, Sum());
    }

    // The place of number `n` of a kind in all windows.
    __device__ int place(Kind kind, int n) const
    {
        int window = 0;
        for (int here = __popc(masks[kind][0]); n >= here; here = __popc(masks[kind][++window]))
            n -= here;
        unsigned mask = masks[kind][window];
        for (; n > 0; --n)
            mask &= mask - 1;
        return 32 * window + lowest_bit(mask);
    }
};

// The predictions of WINDOWS windows, the first from `start` on, the next ones `step` behind each other: a thread
// computes each. What it leaves over is marked.
template <typename T, typename Loss, typename A>
__device__ void compute_windows(const Targets<T, Loss> &targets, const Gradient<A> &gradient, unsigned start,
                                unsigned step, const LeftOver &left, const BlockSums<A> &sums)
{
    const unsigned predictions = unsigned(targets.map.anchors * targets.map.cells()), lane = threadIdx.x % 32;
    BackgroundSums<A> background = {0, 0, 0};
    for (unsigned window = threadIdx.x / 32; window < WINDOWS; window += WARPS) {
        const unsigned first = start + window * step;
        unsigned assigned = 0, overlapping = 0;
        if (first < predictions) {
            assigned = assigned_predictions(targets, first);
            const bool is_free = first + lane < predictions && !(assigned >> lane & 1);
            const bool is_left = is_free && !compute_background(targets, gradient, first + lane, background);
            overlapping = reduce_warp(is_left ? 1u << lane : 0u, Or());
        }
        if (lane == 0) {
            left.masks[LeftOver::ASSIGNED][window] = assigned;
            left.masks[LeftOver::OVERLAPPING][window] = overlapping;
        }
    }
    sums.add(background);
}

// The predictions that the windows' threads have left over: some lanes compute each together.
template <typename T, typename Loss, typename A>
__device__ void compute_left(const Targets<T, Loss> &targets, const Gradient<A> &gradient, unsigned start,
                             unsigned step, const LeftOver &left, const BlockSums<A> &sums)
{
    enum { LANES = Together<Loss>::LANES, OF_WARP = 32 / LANES };
    __shared__ A parts[THREADS][PARTS];   // of each thread; registers are short
    const int assigned = left.count(LeftOver::ASSIGNED), overlapping = left.count(LeftOver::OVERLAPPING);
    const int behind_assigned = (assigned + OF_WARP - 1) / OF_WARP * OF_WARP;   // the next warp's
    for (int first = threadIdx.x / 32 * OF_WARP; first < behind_assigned + overlapping; first += WARPS * OF_WARP) {
        const int n = first + threadIdx.x % 32 / LANES;
        const bool is_assigned = first < behind_assigned;
        for (int p = 0; p < PARTS; ++p)
            parts[threadIdx.x][p] = 0;
        if (is_assigned ? n < assigned : n < behind_assigned + overlapping) {
            const int number = is_assigned ? left.place(LeftOver::ASSIGNED, n)
                                           : left.place(LeftOver::OVERLAPPING, n - behind_assigned);
            const Targets<T, Loss> own = targets.again();
            const Prediction at(start + number / 32 * step + number % 32, own.map.height, own.map.width);
            Place<T, Loss> place(own.map, gradient, at);
            place.first_ones = own.ones_at(0, place);
            compute_prediction(own.loss, place, own, parts[threadIdx.x]);
        }
        sums.add(parts[threadIdx.x]);
    }
}

// The predictions of one image that this block takes: every gridDim.y-th window, WINDOWS of them at a time.
template <typename T, typename Loss, typename A>
__device__ void compute_image(const Targets<T, Loss> &targets, const Outputs<T, A> &outputs, int64_t b,
                              const Partials<PARTS> &partials)
{
    __shared__ A of_warps[WARPS][PARTS];
    __shared__ unsigned masks[2][LeftOver::KINDS][WINDOWS];   // some warps may be at the next windows
    const BlockSums<A> sums = {of_warps};
    const Gradient<A> gradient = outputs.gradient_of(targets, b);
    const bool is_invalid = any_invalid(targets);
    sums.clear();
    if (is_invalid)
        gradient.spoil();
    const unsigned predictions = unsigned(targets.map.anchors * targets.map.cells()), step = 32 * gridDim.y;
    const unsigned end = is_invalid ? 0 : predictions;
    int turn = 0;
    for (unsigned start = 32 * blockIdx.y; start < end; start += WINDOWS * step, turn = 1 - turn) {
        const LeftOver left = {masks[turn]};
        compute_windows(targets.again(), gradient, start, step, left, sums);
        __syncthreads();   // all know what is left over
        compute_left(targets, gradient, start, step, left, sums);
    }
    sums.write(is_invalid, partials, b, outputs);
}

// `partial`: TARGET numbers for each ground truth, then PARTS for each block of an image.
template <typename T, typename Loss, typename A>
__device__ void yolo_forward(const Map<T, Loss> &map, const Loss &loss, const T *truth, int64_t truths, int64_t batch,
                             double *partial, int64_t step, const Outputs<T, A> &outputs)
{
    __shared__ Loss shared_loss;   // registers are short
    if (threadIdx.x == 0)
        shared_loss = loss;
    __syncthreads();   // the attributes are there
    const Targets<T, Loss> targets = {reinterpret_cast<Target<A> *>(partial), truth, int(truths), map, shared_loss,
                                      loss.point_shift(), 0};
    const Partials<PARTS> partials = {partial + batch * truths * TARGET, step};
    if (step == ASSIGN && blockIdx.y == 0)
        assign(targets, batch);
    if (step == COMBINE && blockIdx.y == 0)
        combine(partials, batch, outputs);
    for (int64_t b = blockIdx.x; step == COMPUTE && b < batch; b += gridDim.x) {
        const Targets<T, Loss> own = of_image(targets, b);
        outputs.gradient_of(own, b).clear();
        compute_image(hold(own), outputs, b, partials);
    }
}
