// The losses of YOLOv3's to YOLOv7's heads in CUDA. loss.cuh has their steps. `Loss` is a YoloLoss or a GaussianLoss.
#include "../_region/loss.cuh"
#include "../_region/yolo.inl"

// One image's map.
template <typename T, typename Loss> struct Map {
    typedef typename Loss::Scalar A;
    const T *data;
    int anchors, other_anchors, classes, height, width;
    const double *sizes, *other_sizes;   // of the anchors

    template <typename Args>
    __device__ explicit Map(const Args &args)
        : data(args.data), anchors(int(args.anchor_count)), other_anchors(int(args.other_anchors.count / 2)),
          classes(int(args.classes)), height(int(args.height)), width(int(args.width)), sizes(args.anchors.values),
          other_sizes(args.other_anchors.values) {}

    __device__ int64_t cells() const { return int64_t(height) * width; }
    __device__ int64_t size() const { return anchors * channels() * cells(); }
    __device__ int channels() const { return Loss::FIRST_CLASS + classes; }

    // Where the first number of a prediction is; the next ones are a plane apart.
    __device__ int64_t place(const AnchorCell &at) const { return at.anchor * channels() * cells() + at.cell; }

    __device__ A anchor_w(int anchor) const { return A(sizes[2 * anchor]); }
    __device__ A anchor_h(int anchor) const { return A(sizes[2 * anchor + 1]); }

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
            const double *const own = anchor < anchors ? sizes + 2 * anchor : other_sizes + 2 * (anchor - anchors);
            const Box<A> anchor_size = {0, 0, A(own[0]) / A(width), A(own[1]) / A(height)};
            const A iou = iou_of(anchor_size, size);
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
    int cell;     // -1: no box. 32 bits hold it, because more cells fit into no memory
    int anchor;
    Box<A> box;

    template <typename Targets>
    __device__ void set(const GroundTruth<A> &truth, const Targets &targets)
    {
        this->set_box(truth);
        box = truth.box;
        cell = truth.valid ? int(truth.row * targets.map.width + truth.column) : -1;
        anchor = truth.valid ? targets.map.best_anchor(truth.box) : -1;
    }
};

// A prediction. C++ has another one, of which several lanes may be computed together.
template <typename T, typename Loss> struct Prediction {
    typedef typename Loss::Scalar A;
    enum { LANES = 1 };
    const Map<T, Loss> &map;
    const T *from;
    const Gradient<A> gradient;   // from this place on
    int anchor, column, row, cell, height, width, classes;

    __device__ Prediction(const Map<T, Loss> &map, const Gradient<A> &of_image, const AnchorCell &at)
        : map(map), from(map.data + map.place(at)), gradient(of_image.behind(map.place(at))), anchor(at.anchor),
          column(at.column), row(at.row), cell(at.cell), height(map.height), width(map.width), classes(map.classes) {}

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
    __device__ int64_t at(int channel) const { return int64_t(channel) * (height * width); }   // 32 bits hold the cells
    __device__ A number(int channel) const { return load(from, at(channel)); }
    __device__ void put(int channel, A value) const { gradient.put(at(channel), value); }
    __device__ int lane() const { return 0; }
    template <typename V>
    __device__ V sum(V value) const { return value; }
    template <typename Best>
    __device__ void keep_best(const Best &) const {}
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

    __device__ A class_id(int t) const { return all[t].class_id; }
    __device__ bool is_invalid(int t) const { return all[t].is_invalid; }
    __device__ bool is_box(int t) const { return all[t].cell >= 0; }
    __device__ Box<A> box(int t) const { return all[t].box; }

    __device__ GroundTruth<A> truth(int t) const
    {
        return GroundTruth<A>(rows, t, map.classes, map.height, map.width, shift);
    }

    // Whether a ground truth is assigned to the prediction of an anchor in its cell.
    __device__ bool is_at(int t, const Prediction<T, Loss> &prediction) const
    {
        if (all[t].cell != prediction.cell)
            return false;
        const Box<A> size = {0, 0, all[t].box.w, all[t].box.h};
        return all[t].anchor == prediction.anchor || loss.fits(map.anchor_size(prediction.anchor), size);
    }

    // The first ground truth from number `t` on that is at a place; `count` if there is none.
    __device__ int next_at(int t, const Prediction<T, Loss> &prediction) const
    {
        while (t < count && !is_at(t, prediction))
            ++t;
        return t;
    }

    __device__ void compute(const AnchorCell &at, const Gradient<A> &gradient, A *parts) const
    {
        const Prediction<T, Loss> prediction(map, gradient, at);
        if (next_at(0, prediction) < count || !compute_background(prediction, parts))
            compute_prediction(loss, prediction, *this, parts);
    }

    // Computes a prediction to which no ground truth is assigned, if only its objectness has a target, which is 0 or
    // nothing. Returns whether it did.
    __device__ bool compute_background(const Prediction<T, Loss> &prediction, A *parts) const
    {
        const A number = prediction.number(Loss::OBJECT);
        const Box<A> box = YoloBox<A>(loss, prediction).box;
        const bool is_ignored = any_overlaps(all, count, box, loss.ignore_thresh);
        const bool has_matches = loss.truth_thresh < infinity<A>();
        if ((is_ignored && loss.alexeyab) || (has_matches && any_overlaps(all, count, box, loss.truth_thresh)))
            return false;
        const A weight = is_ignored ? A(0) : loss.obj_normalizer;
        const A weighted_error = weight * loss.activation(number);
        parts[NO_OBJECTNESS] += weight * loss.entropy(number, A(0));
        parts[COST] += weighted_error * weighted_error;
        prediction.gradient.put_all(0, map.channels(), map.cells(), A(0));
        prediction.put(Loss::OBJECT, weighted_error);
        return true;
    }
};

template <typename Args, typename Loss>
__device__ void yolo_forward(const Args &args, const Loss &loss)
{
    typedef typename Args::Data T;
    const Targets<T, Loss> targets = {args.targets, args.truth, int(args.truths), Map<T, Loss>(args), loss,
                                      loss.point_shift()};
    map_loss_forward(args, targets);
}
