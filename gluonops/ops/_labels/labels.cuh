// Class labels: which class a row's label names, if any. Labels are compared in their own type and as integers: a GPU
// may compute 64 numbers in float32 while it computes one in float64.

enum { NO_CLASS = -1, IGNORED = -2 };

// Returns whether a label is a whole number of less than 63 bits. NaN is none.
template <typename L>
__device__ bool whole(L value, int64_t &number)
{
    number = value;
    return true;
}

template <typename A>
__device__ bool whole_float(A value, int64_t &number)
{
    const bool is_whole = fabs(value) < A(4e18) && value == floor(value);
    number = is_whole ? int64_t(value) : 0;
    return is_whole;
}

__device__ inline bool whole(float value, int64_t &number) { return whole_float(value, number); }
__device__ inline bool whole(double value, int64_t &number) { return whole_float(value, number); }
__device__ inline bool whole(__half value, int64_t &number) { return whole_float(float(value), number); }

// Returns the class that a label names: 0 to classes - 1, NO_CLASS or IGNORED.
template <typename L>
__device__ int64_t class_of_label(L value, int64_t classes, const Optional<int64_t> &ignore_label)
{
    int64_t number;
    if (!whole(value, number))
        return NO_CLASS;
    if (ignore_label.has_value && number == ignore_label.value)
        return IGNORED;
    return number >= 0 && number < classes ? number : NO_CLASS;
}

// Returns the class that the label of a row names.
template <typename Args>
__device__ int64_t class_of(const Args &args, int64_t row)
{
    return class_of_label(args.label[row], args.classes, args.ignore_label);
}
