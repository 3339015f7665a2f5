// Ground truth: rows of (x, y, w, h, class). C++ and CUDA share this text. Whoever includes it has boxes.inl.

// A row of ground truth, and the cell of its centre. The row is a box, padding (zeros), or invalid. A box has its
// centre in the image, some area, and a class from 0 to classes - 1. A NaN makes a row invalid.
template <typename A> struct GroundTruth {
    Box<A> box;
    A class_id;
    bool padding, valid;
    int64_t column, row;

    // The cell is that of a point beside the centre: of `shift` boxes up and to the left.
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

    static GLUONOPS_INLINE int64_t cell_of(A place, int64_t cells)
    {
        const int64_t cell = int64_t(place * A(cells));
        return cell < 0 ? 0 : cell < cells ? cell : cells - 1;
    }
};
