// Boxes: their overlap, and the losses of a box that is regressed to another, with their derivatives. C++ and CUDA
// share this text. It is C++14, includes nothing, and GLUONOPS_INLINE is what each of them needs in front of a
// function. boxes.h includes it for C++. A is a number or, in C++, a vector with one pair of boxes per lane.

// The type that a comparison gives, and a function that puts a number into every lane.
template <typename A> struct Lanes {
    typedef bool Mask;
    static GLUONOPS_INLINE A all(double x) { return A(x); }
};

#define LOSS_EPS 1e-7      // The losses add it, as torchvision does.
#define TINY_AREA 1e-18    // added to a union, so that boxes without an area have the IoU 0

// The centre and the size of a box, or the derivatives by them.
template <typename A> struct Box { A x, y, w, h; };

// Returns the length of two intervals' intersection, which is negative if they are apart.
template <typename A>
GLUONOPS_INLINE A intersection_length(A center, A size, A other_center, A other_size)
{
    const A low = center - size / 2, other_low = other_center - other_size / 2;
    const A high = center + size / 2, other_high = other_center + other_size / 2;
    return (high < other_high ? high : other_high) - (low > other_low ? low : other_low);
}

// Returns the intersection over union, which is 0 if the boxes do not overlap.
template <typename A>
GLUONOPS_INLINE A iou_of(const Box<A> &a, const Box<A> &b)
{
    const A w = intersection_length(a.x, a.w, b.x, b.w), h = intersection_length(a.y, a.h, b.y, b.h);
    const A intersection = w > 0 && h > 0 ? w * h : A(0);
    return intersection > 0 ? intersection / (a.w * a.h + b.w * b.h - intersection) : A(0);
}

// A box along one axis.
template <typename A> struct Side { A center, size, low, high; };

template <typename A>
GLUONOPS_INLINE Side<A> side_of_center(A center, A size)
{
    return {center, size, center - size / 2, center + size / 2};
}

template <typename A>
GLUONOPS_INLINE Side<A> side_of_corners(A low, A high) { return {(low + high) / 2, high - low, low, high}; }

template <typename A> struct Sides { Side<A> across, down; };

template <typename A>
GLUONOPS_INLINE Sides<A> sides_of(const Box<A> &box)
{
    return {side_of_center(box.x, box.w), side_of_center(box.y, box.h)};
}

// The four numbers in a row of boxes: the centre and the size if is_center, and otherwise left, top, right and bottom.
template <typename A> struct BoxRow { A numbers[4]; };

template <typename A>
GLUONOPS_INLINE Sides<A> sides_of(const BoxRow<A> &row, bool is_center)
{
    const A *of = row.numbers;
    Sides<A> sides;
    if (is_center) {
        sides.across = side_of_center(of[0], of[2]);
        sides.down = side_of_center(of[1], of[3]);
    } else {
        sides.across = side_of_corners(of[0], of[2]);
        sides.down = side_of_corners(of[1], of[3]);
    }
    return sides;
}

// Returns the derivatives by the four numbers of a row, from those by centre and size.
template <typename A>
GLUONOPS_INLINE BoxRow<A> row_gradient(const Box<A> &by, bool is_center)
{
    if (is_center)
        return {{by.x, by.y, by.w, by.h}};
    return {{by.x / 2 - by.w, by.y / 2 - by.h, by.x / 2 + by.w, by.y / 2 + by.h}};
}

// Two boxes along one axis: the distance of their centres, how far they overlap, how long their hull is, and the
// derivatives of both lengths by the first one's centre and size. Ends that coincide count as the first one's.
template <typename A> struct Extent {
    A distance, overlap, overlap_by_center, overlap_by_size, hull, hull_by_center, hull_by_size;

    GLUONOPS_INLINE Extent(const Side<A> &side, const Side<A> &other)
    {
        const A zero = Lanes<A>::all(0), one = Lanes<A>::all(1);
        const A low_inside = side.low >= other.low ? one : zero, high_inside = side.high <= other.high ? one : zero;
        const A low_outside = side.low <= other.low ? one : zero, high_outside = side.high >= other.high ? one : zero;
        distance = side.center - other.center;
        overlap = (side.high <= other.high ? side.high : other.high) - (side.low >= other.low ? side.low : other.low);
        overlap_by_center = high_inside - low_inside;
        overlap_by_size = (high_inside + low_inside) / 2;
        hull = (side.high >= other.high ? side.high : other.high) - (side.low <= other.low ? side.low : other.low);
        hull_by_center = high_outside - low_outside;
        hull_by_size = (high_outside + low_outside) / 2;
    }

    // Returns the sides with the derivatives by the other box. The ends that are not those of the first box are those
    // of the other one, and moving one box is the same as moving the other one backward.
    GLUONOPS_INLINE Extent exchanged() const
    {
        Extent extent = *this;
        extent.distance = -distance;
        extent.overlap_by_center = -overlap_by_center;
        extent.overlap_by_size = 1 - overlap_by_size;
        extent.hull_by_center = -hull_by_center;
        extent.hull_by_size = 1 - hull_by_size;
        return extent;
    }
};

// Two boxes: the area of their union, to which `eps` is added, and their IoU.
template <typename A> struct BoxPair {
    Sides<A> box, other;
    Extent<A> across, down;
    typename Lanes<A>::Mask overlaps;
    A union_area, iou;

    GLUONOPS_INLINE BoxPair(const Sides<A> &box, const Sides<A> &other, A eps)
        : box(box), other(other), across(box.across, other.across), down(box.down, other.down)
    {
        overlaps = (across.overlap > 0) & (down.overlap > 0);
        const A intersection = overlaps ? across.overlap * down.overlap : Lanes<A>::all(0);
        union_area = box.across.size * box.down.size + other.across.size * other.down.size - intersection + eps;
        iou = intersection / union_area;
    }

    // Returns the derivatives of a loss by the first box. The loss is -IoU plus a term in the union's area and the
    // hull's sides. The arguments are its derivatives by these. The derivative by the union includes what -IoU adds.
    GLUONOPS_INLINE Box<A> gradient(A by_union, A by_hull_across, A by_hull_down) const
    {
        const A by_intersection = overlaps ? -1 / union_area - by_union : Lanes<A>::all(0);
        const A by_across = by_intersection * down.overlap, by_down = by_intersection * across.overlap;
        return {by_across * across.overlap_by_center + by_hull_across * across.hull_by_center,
                by_down * down.overlap_by_center + by_hull_down * down.hull_by_center,
                by_across * across.overlap_by_size + by_hull_across * across.hull_by_size + by_union * box.down.size,
                by_down * down.overlap_by_size + by_hull_down * down.hull_by_size + by_union * box.across.size};
    }

    // Returns the pair with the other box as the first one.
    GLUONOPS_INLINE BoxPair exchanged() const
    {
        BoxPair pair = *this;
        pair.box = other;
        pair.other = box;
        pair.across = across.exchanged();
        pair.down = down.exchanged();
        return pair;
    }
};

// arctan(width / height) of a box, and its derivatives. Without a height it is a constant: pi/2 with the sign of the
// width, and 0 for a point.
template <typename A> struct AspectAngle {
    A value, by_width, by_height;

    GLUONOPS_INLINE AspectAngle(A width, A height)
    {
        const A zero = Lanes<A>::all(0), one = Lanes<A>::all(1), right = Lanes<A>::all(1.5707963267948966);
        const typename Lanes<A>::Mask is_flat = height == 0;
        const A divisor = is_flat ? one : height;
        const A ratio = width / divisor;
        const A negative = width < 0 ? -right : zero;
        const A limit = width > 0 ? right : negative;
        value = is_flat ? limit : arctangent(ratio);
        by_width = is_flat ? zero : one / (divisor * (1 + ratio * ratio));
        by_height = -ratio * by_width;
    }
};

// A loss of the first box of a pair, and its derivatives by centre and size.
template <typename A> struct BoxLoss {
    A loss;
    Box<A> gradient;
};

// 1 - IoU.
template <typename A>
GLUONOPS_INLINE BoxLoss<A> iou_loss_of(const BoxPair<A> &pair)
{
    const A zero = Lanes<A>::all(0);
    return {1 - pair.iou, pair.gradient(pair.iou / pair.union_area, zero, zero)};
}

// 1 - GIoU. `eps` is added to the hull's area.
template <typename A>
GLUONOPS_INLINE BoxLoss<A> giou_loss_of(const BoxPair<A> &pair, A eps)
{
    const A hull = pair.across.hull * pair.down.hull + eps;
    const A filled = pair.union_area / hull;
    const A by_union = (pair.iou - filled) / pair.union_area, by_hull = filled / hull;
    return {2 - pair.iou - filled, pair.gradient(by_union, by_hull * pair.down.hull, by_hull * pair.across.hull)};
}

// 1 - DIoU. `eps` is added to the square of the hull's diagonal.
template <typename A>
GLUONOPS_INLINE BoxLoss<A> diou_loss_of(const BoxPair<A> &pair, A eps)
{
    const Extent<A> &across = pair.across, &down = pair.down;
    const A squared_diagonal = across.hull * across.hull + down.hull * down.hull + eps;
    const A penalty = (across.distance * across.distance + down.distance * down.distance) / squared_diagonal;
    const A by_hull = -2 * penalty / squared_diagonal;
    BoxLoss<A> result = {1 - pair.iou + penalty,
                         pair.gradient(pair.iou / pair.union_area, by_hull * across.hull, by_hull * down.hull)};
    result.gradient.x += 2 * across.distance / squared_diagonal;
    result.gradient.y += 2 * down.distance / squared_diagonal;
    return result;
}

// 1 - CIoU. The weight of the aspect ratios' term, the paper's alpha, is a constant of the gradient.
template <typename A>
GLUONOPS_INLINE BoxLoss<A> ciou_loss_of(const BoxPair<A> &pair, A eps)
{
    const A scale = Lanes<A>::all(0.40528473456935109);   // 4 / pi^2
    const AspectAngle<A> angle(pair.box.across.size, pair.box.down.size);
    const AspectAngle<A> other(pair.other.across.size, pair.other.down.size);
    const A difference = other.value - angle.value;
    const A v = scale * difference * difference;
    const A distance = pair.iou < 1 ? 1 - pair.iou : Lanes<A>::all(0);   // rounding may make the IoU larger than 1
    const A alpha = v / (distance + v + eps);
    const A by_angle = -2 * alpha * scale * difference;
    BoxLoss<A> result = diou_loss_of(pair, eps);
    result.loss += alpha * v;
    result.gradient.w += by_angle * angle.by_width;
    result.gradient.h += by_angle * angle.by_height;
    return result;
}

// `Kinds` is the enumeration of an attribute that has the contract's KINDS.
template <typename Kinds, typename A>
GLUONOPS_INLINE BoxLoss<A> box_loss_of(int kind, const BoxPair<A> &pair, A eps)
{
    switch (kind) {
    case Kinds::Iou: return iou_loss_of(pair);
    case Kinds::Giou: return giou_loss_of(pair, eps);
    case Kinds::Diou: return diou_loss_of(pair, eps);
    default: return ciou_loss_of(pair, eps);
    }
}
