template <typename A> struct BitsOf;
template <> struct BitsOf<float> { typedef uint32_t Bits; };
template <> struct BitsOf<double> { typedef uint64_t Bits; };

// An error as bits that rise while it falls, and where it comes from.
template <typename A>
struct ErrorItem {
    typedef typename BitsOf<A>::Bits Bits;
    static const Bits HAS_CLASS = Bits(1) << (8 * sizeof(Bits) - 1);
    Bits key, pixel;   // HAS_CLASS is added to a pixel that has the class

    GLUONOPS_INLINE Bits offset() const { return pixel & ~HAS_CLASS; }
};
