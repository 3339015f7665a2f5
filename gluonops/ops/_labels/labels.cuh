// Class labels: which class a row's label names, if any.

enum { NO_CLASS = -1, IGNORED = -2 };

// The class that a row's label names: 0 to classes - 1, NO_CLASS or IGNORED.
template <typename L>
__device__ int64_t class_of(const L *label, int64_t row, int64_t classes, bool ignores, int64_t ignore_label)
{
    const double value = load(label, row);   // a double holds every class exactly
    if (ignores && value == double(ignore_label))
        return IGNORED;
    const bool within = value >= 0 && value < double(classes);   // false for NaN
    return within && value == floor(value) ? int64_t(value) : NO_CLASS;
}
