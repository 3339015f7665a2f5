// What the losses of YOLO's heads compare: ground truth, rows of (x, y, w, h, class), and predicted boxes. C++ and CUDA
// share this text. A file that includes it includes boxes.inl before. `Loss` is a RegionLoss, a YoloLoss or a
// GaussianLoss. The numbers of the parts of an image's loss are those of loss.py.

// Counts a ground truth that is assigned to a prediction in the statistics.
template <typename A, typename S>
GLUONOPS_INLINE void count_match(A iou, A probability, S *sums)
{
    sums[IOU] += S(iou);
    sums[RECALL] += S(iou > A(0.5));
    sums[PROBABILITY] += S(probability);
    sums[TRUTHS] += 1;
}

// What the heads have in common. A head that differs has a function of its own.
template <typename A> struct HeadLoss {
    typedef A Scalar;
    enum { STEP = 1, OBJECT = 4, FIRST_CLASS = 5 };   // channels: from x to y, the objectness, and the first class
    List<double> other_anchors;

    // Returns the centre of a box along an axis, from the point that the head predicts. V is a number or a vector.
    template <typename V>
    GLUONOPS_INLINE V center(V point, V) const { return point; }

    // Returns how far the point lies from the centre, in sizes of the box.
    GLUONOPS_INLINE A point_shift() const { return 0; }

    // Returns whether the best anchor is the one whose predicted size fits best.
    GLUONOPS_INLINE bool compares_predictions() const { return false; }
};

// A row of ground truth, and the cell of its centre. The row is a box, padding (zeros), or invalid. A box has its
// centre in the image, some area, and a class from 0 to classes - 1. A NaN makes a row invalid.
template <typename A> struct GroundTruth {
    Box<A> box;
    A class_id;
    bool padding, valid;
    int64_t column, row;

    // The cell is that of a point which lies `shift` times the size of the box up and to the left of the centre.
    template <typename T>
    GLUONOPS_INLINE GroundTruth(const T *rows, int64_t t, int64_t classes, int64_t height, int64_t width, A shift = 0)
    {
        box.x = load(rows, 5 * t);
        box.y = load(rows, 5 * t + 1);
        box.w = load(rows, 5 * t + 2);
        box.h = load(rows, 5 * t + 3);
        class_id = load(rows, 5 * t + 4);
        padding = box.x == 0 && box.y == 0 && box.w == 0 && box.h == 0 && class_id == 0;
        valid = box.x >= 0 && box.x <= 1 && box.y >= 0 && box.y <= 1 && box.w > 0 && box.h > 0 && box.w * box.h < 2 &&
                class_id >= 0 && class_id < A(classes) && A(int64_t(class_id)) == class_id;
        column = valid ? cell_of(box.x - shift * box.w, width) : 0;
        row = valid ? cell_of(box.y - shift * box.h, height) : 0;
    }

    static GLUONOPS_INLINE int64_t cell_of(A position, int64_t cells)
    {
        const int64_t cell = int64_t(position * A(cells));
        return cell < 0 ? 0 : cell < cells ? cell : cells - 1;
    }
};

// What a head predicts of a box. Anchor sizes are in cells. In C++ V may be a vector, with a prediction per lane.
template <typename A, typename V = A> struct YoloBox {
    V numbers[4];
    V offsets[2];   // where the centre is, from the corner of its cell
    V factors[2];   // They multiply the anchor's size.
    V column, row;
    A width, height, anchor_w, anchor_h;
    Box<V> box;

    template <typename Loss, typename Prediction>
    GLUONOPS_INLINE YoloBox(const Loss &loss, const Prediction &prediction)
        : column(V(prediction.column)), row(V(prediction.row)), width(A(prediction.width)),
          height(A(prediction.height)), anchor_w(prediction.anchor_w()), anchor_h(prediction.anchor_h())
    {
        for (int c = 0; c < 4; ++c)
            numbers[c] = prediction.number(c * Loss::STEP);
        for (int c = 0; c < 2; ++c) {
            offsets[c] = loss.offset(numbers[c]);
            factors[c] = loss.factor(numbers[2 + c]);
        }
        box.w = factors[0] * prediction.prior_w();
        box.h = factors[1] * prediction.prior_h();
        box.x = loss.center(V((column + offsets[0]) / width), box.w);
        box.y = loss.center(V((row + offsets[1]) / height), box.h);
    }
};

// Returns which anchor has the size with the largest IoU with the box, of all heads. The result is `anchors` if it
// belongs to another head.
template <typename Loss, typename Map, typename A>
GLUONOPS_INLINE int best_anchor(const Loss &loss, const Map &map, const Box<A> &box, int64_t cell)
{
    const Box<A> box_size = {0, 0, box.w, box.h};
    const int anchors = int(map.anchors), all = anchors + int(loss.other_anchors.count / 2);
    int best = 0;
    A max_iou = 0;
    for (int anchor = 0; anchor < all; ++anchor) {
        const double *const of_anchor = anchor < anchors ? map.anchor_sizes + 2 * anchor
                                                         : loss.other_anchors.values + 2 * (anchor - anchors);
        Box<A> size = {0, 0, A(of_anchor[0]) / A(map.width), A(of_anchor[1]) / A(map.height)};
        if (loss.compares_predictions()) {
            size.w *= loss.factor(map.number(anchor, cell, 2));
            size.h *= loss.factor(map.number(anchor, cell, 3));
        }
        const A iou = iou_of(size, box_size);
        if (iou > max_iou) {
            max_iou = iou;
            best = anchor;
        }
    }
    return best < anchors ? best : anchors;
}
