// Ground truth: rows of (x, y, w, h, class), and the overlap of boxes. region.h has the same for C++. They are two texts
// on purpose: there the code lies in the namespace of an instruction set and has vectors beside it, and a row is read
// once per image; here each thread reads every row, and NVRTC compiles C++03 and includes nothing but such files.

// Centre and size.
template <typename A> struct Box { A x, y, w, h; };

// A row of ground truth, and the cell of its centre. The row is a box, padding (zeros), or invalid. A box has its
// centre in the image, some area, and a class from 0 to classes - 1. A NaN makes a row invalid.
template <typename A> struct GroundTruth {
    Box<A> box;
    A class_id;
    bool padding, valid;
    int64_t column, row;

    template <typename T>
    __device__ GroundTruth(const T *rows, int64_t t, int64_t classes, int64_t height, int64_t width)
    {
        box.x = load(rows, 5 * t);
        box.y = load(rows, 5 * t + 1);
        box.w = load(rows, 5 * t + 2);
        box.h = load(rows, 5 * t + 3);
        class_id = load(rows, 5 * t + 4);
        padding = box.x == 0 && box.y == 0 && box.w == 0 && box.h == 0 && class_id == 0;
        valid = box.x >= 0 && box.x <= 1 && box.y >= 0 && box.y <= 1 && box.w > 0 && box.h > 0 && box.w * box.h < 2 &&
                class_id >= 0 && class_id < A(classes) && A(int64_t(class_id)) == class_id;
        column = valid ? int64_t(box.x * A(width)) : 0;
        row = valid ? int64_t(box.y * A(height)) : 0;
        column = column < width ? column : width - 1;
        row = row < height ? row : height - 1;
    }
};

// The length of two intervals' intersection; negative where they are apart.
template <typename A>
__device__ A intersection_length(A center, A size, A other_center, A other_size)
{
    const A low = center - size / 2, other_low = other_center - other_size / 2;
    const A high = center + size / 2, other_high = other_center + other_size / 2;
    return (high < other_high ? high : other_high) - (low > other_low ? low : other_low);
}

// Intersection over union; 0 where the boxes do not overlap.
template <typename A>
__device__ A iou_of(const Box<A> &a, const Box<A> &b)
{
    const A w = intersection_length(a.x, a.w, b.x, b.w), h = intersection_length(a.y, a.h, b.y, b.h);
    const A intersection = w > 0 && h > 0 ? w * h : A(0);
    return intersection > 0 ? intersection / (a.w * a.h + b.w * b.h - intersection) : A(0);
}
