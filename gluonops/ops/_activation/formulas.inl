// The activations: the value and the slope of each, for one element. C++ and CUDA share this text. It is C++14,
// includes nothing, and GLUONOPS_INLINE is what each of them needs in front of a function. activation.h includes it for
// C++. V is a number or, in C++, a vector with one element per lane.

// Returns a number in every lane.
template <typename V> GLUONOPS_INLINE V every(double x);

// exp(-|x|), which does not overflow. NaN stays.
template <typename V>
GLUONOPS_INLINE V decay(V x) { return exponential(x < 0 ? x : -x); }

// sigmoid(x), and sigmoid(-x) without a difference.
template <typename V>
struct Sigmoids {
    V of_x, of_minus_x;

    GLUONOPS_INLINE explicit Sigmoids(V x)
    {
        const V e = decay(x), larger = 1 / (1 + e), smaller = e * larger;
        of_x = x < 0 ? smaller : larger;
        of_minus_x = x < 0 ? larger : smaller;
    }
    GLUONOPS_INLINE V slope() const { return of_x * of_minus_x; }
};

// x tanh(softplus(x)). With e = exp(-|x|), the hyperbolic tangent is a fraction without a difference, and its
// derivative is 4 (1 + e) / bottom^2, times e or its square.
struct Mish {
    template <typename V>
    struct Fraction {
        V e, top, bottom;

        GLUONOPS_INLINE explicit Fraction(V x) : e(decay(x))
        {
            top = x < 0 ? e * (e + 2) : 1 + 2 * e;
            bottom = x < 0 ? top + 2 : top + 2 * e * e;
        }
    };

    template <typename V>
    GLUONOPS_INLINE V value(V x) const
    {
        const Fraction<V> tanh(x);
        return x * (tanh.top / tanh.bottom);
    }

    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const Fraction<V> tanh(x);
        const V inverse = 1 / tanh.bottom, e = tanh.e;
        const V factor = x < 0 ? e : e * e;
        return (tanh.top + 4 * (x * (factor * (1 + e)) * inverse)) * inverse;
    }
};

// x sigmoid(beta x).
struct Swish {
    double beta;

    template <typename V>
    GLUONOPS_INLINE V value(V x) const
    {
        return x * Sigmoids<V>(x * every<V>(beta)).of_x;
    }

    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const V factor = every<V>(beta);
        const Sigmoids<V> sigmoid(x * factor);
        return sigmoid.of_x + x * sigmoid.slope() * factor;
    }
};

// x min(max(x + 3, 0), 6) / 6.
struct HardSwish {
    template <typename V>
    GLUONOPS_INLINE V gate(V x) const
    {
        const V low = every<V>(0), high = every<V>(6), shifted = x + 3;
        const V from_low = shifted < 0 ? low : shifted;
        const V bounded = from_low > 6 ? high : from_low;
        return bounded * every<V>(1.0 / 6);
    }

    template <typename V>
    GLUONOPS_INLINE V value(V x) const { return x * gate(x); }

    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const V none = every<V>(0), size = x < 0 ? -x : x;
        return gate(x) + (size < 3 ? x * every<V>(1.0 / 6) : none);
    }
};

// x P(X < x) of a normal X; Normal<V> has this probability and its density.
struct Gelu {
    template <typename V>
    GLUONOPS_INLINE V value(V x) const { return x * Normal<V>(x).probability; }

    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const Normal<V> normal(x);
        return normal.probability + x * normal.density();
    }
};

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), written with tanh(u) = 2 sigmoid(2 u) - 1.
struct GeluTanh {
    // Far from 0 the sigmoid is 0 or 1. Its argument and the argument's derivative stay finite.
    template <typename V>
    GLUONOPS_INLINE V bounded(V x) const
    {
        const V low = every<V>(-30), high = every<V>(30);
        const V above = x < -30 ? low : x;
        return above > 30 ? high : above;
    }

    template <typename V>
    GLUONOPS_INLINE Sigmoids<V> sigmoid(V b) const
    {
        return Sigmoids<V>(b * (b * b * every<V>(2 * 0.79788456080286535588 * 0.044715)
                                + every<V>(2 * 0.79788456080286535588)));
    }

    template <typename V>
    GLUONOPS_INLINE V value(V x) const { return x * sigmoid(bounded(x)).of_x; }

    template <typename V>
    GLUONOPS_INLINE V slope(V x) const
    {
        const V b = bounded(x);
        const Sigmoids<V> s = sigmoid(b);
        const V inner = b * b * every<V>(6 * 0.79788456080286535588 * 0.044715)
            + every<V>(2 * 0.79788456080286535588);
        return s.of_x + b * s.slope() * inner;
    }
};
