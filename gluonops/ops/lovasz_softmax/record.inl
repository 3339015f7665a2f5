template <typename A> struct BitsOf;
template <> struct BitsOf<float> { typedef uint32_t Bits; };
template <> struct BitsOf<double> { typedef uint64_t Bits; };

// An error as bits that rise while it falls, and where it comes from.
template <typename A>
struct ErrorItem {
    typedef typename BitsOf<A>::Bits Bits;
    Bits key, place;   // the highest bit of the place: whether it has the class
};
