// The keys of losses: unsigned integers in the order of the losses. C++ and CUDA share this text. It is C++14, includes
// nothing, and GLUONOPS_INLINE is what each of them needs in front of a function.

template <typename A> struct KeyOf;
template <> struct KeyOf<float> { typedef unsigned Key; };
template <> struct KeyOf<double> { typedef unsigned long long Key; };

// Returns the key of a number that is no NaN.
template <typename A>
GLUONOPS_INLINE typename KeyOf<A>::Key key_of_number(A number)
{
    typedef typename KeyOf<A>::Key Key;
    const Key sign = Key(1) << (8 * sizeof(Key) - 1);
    Key bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits & sign ? ~bits : bits | sign;
}

// Returns the key of a loss: 0 if it does not count, and that of infinity for NaN.
template <typename A>
GLUONOPS_INLINE typename KeyOf<A>::Key key_of(A loss)
{
    const typename KeyOf<A>::Key key = key_of_number(loss == loss ? loss : infinity<A>());
    return loss == 0 ? 0 : key;
}

// Returns the least key of a loss above the threshold, if there is one. No loss has the highest key.
template <typename A>
GLUONOPS_INLINE typename KeyOf<A>::Key least_key_above(const Optional<double> &threshold)
{
    typedef typename KeyOf<A>::Key Key;
    if (!threshold.has_value)
        return ~Key(0);
    const A nearest = A(threshold.value);
    return key_of_number(nearest) + Key(double(nearest) <= threshold.value);
}
