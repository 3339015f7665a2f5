// What the arguments of a kernel are made of, in C++ and in CUDA. C++ includes this text inside its namespace. It is
// C++14, includes nothing, and GLUONOPS_INLINE is what each of them needs in front of a function.

// The type in which a type is computed and summed: float for float16, the type itself for all others.
template <typename T> struct Accumulator { typedef T type; };

// An attribute that may be None.
template <typename V>
struct Optional {
    bool has_value;
    V value;
};

// The numbers of an attribute that is a tuple.
template <typename V>
struct List {
    const V *values;
    int64_t count;
};

// A number for each index of a dimension, and their sum. Where the attribute is None, there are no `values`, and each
// of them is 1.
template <typename A>
struct Weights {
    const A *values;
    double sum;

    GLUONOPS_INLINE A of(int64_t i) const { return values ? values[i] : A(1); }
};
