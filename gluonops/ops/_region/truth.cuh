// Ground truth: rows of (x, y, w, h, class). region.h has the same for C++. They are two texts on purpose: there a row is
// read once per image, and here each thread reads every row.
#include "../_boxes/boxes.cuh"

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
