// The losses of a sigmoid on the CPU: the value and the slope of each, for one element. CUDA computes the same with
// fewer instructions, in sigmoid.cuh. V is a vector with one element per lane.

// sigmoid(x) and softplus(x) = log(1 + exp(x)), and those of -x, without a difference and without an overflow.
template <typename V>
struct SigmoidOf {
    V plus, minus, softplus_of_plus, softplus_of_minus;

    GLUONOPS_INLINE explicit SigmoidOf(V x)
    {
        const V e = exponential(x < 0 ? x : -x), larger = 1 / (1 + e), smaller = e * larger;
        plus = x < 0 ? smaller : larger;
        minus = x < 0 ? larger : smaller;
        const V small = log1p_of(e);
        softplus_of_plus = x < 0 ? small : x + small;
        softplus_of_minus = x < 0 ? small - x : small;
    }
};

// It tells which labels are ignored.
struct IgnoredLabel {
    Optional<int64_t> label;

    template <typename V>
    GLUONOPS_INLINE V unless_ignored(V value, V y) const
    {
        return label.has_value ? (y == every<V>(double(label.value)) ? every<V>(0) : value) : value;
    }
};

// -(w y log(p) + (1 - y) log(1 - p)), with the weight w of positives.
struct SigmoidCrossEntropy {
    IgnoredLabel ignored;

    template <typename V>
    GLUONOPS_INLINE V value(V x, V y, V weight) const
    {
        const SigmoidOf<V> sigmoid(x);
        const V loss = weight * y * sigmoid.softplus_of_minus + (1 - y) * sigmoid.softplus_of_plus;
        return ignored.unless_ignored(loss, y);
    }

    template <typename V>
    GLUONOPS_INLINE V slope(V x, V y, V weight) const
    {
        const SigmoidOf<V> sigmoid(x);
        return ignored.unless_ignored((1 - y) * sigmoid.plus - weight * y * sigmoid.minus, y);
    }
};

// alpha_t error^gamma times the cross-entropy, with error = y (1 - p) + (1 - y) p.
struct SigmoidFocal {
    IgnoredLabel ignored;
    double gamma, alpha;   // a negative alpha: no weights

    template <typename V>
    GLUONOPS_INLINE V weight(V y) const
    {
        return alpha < 0 ? every<V>(1) : every<V>(alpha) * y + every<V>(1 - alpha) * (1 - y);
    }

    template <typename V>
    GLUONOPS_INLINE V easing(V error) const
    {
        if (gamma == 2)
            return error * error;
        if (gamma == 0)
            return every<V>(1);
        const V least = every<V>(1e-37);   // its logarithm is finite, and its power as good as 0
        return exponential(every<V>(gamma) * log_of(error > least ? error : least));
    }

    template <typename V>
    GLUONOPS_INLINE V value(V x, V y) const
    {
        const SigmoidOf<V> sigmoid(x);
        const V loss = y * sigmoid.softplus_of_minus + (1 - y) * sigmoid.softplus_of_plus;
        const V error = y * sigmoid.minus + (1 - y) * sigmoid.plus;
        return ignored.unless_ignored(weight(y) * easing(error) * loss, y);
    }

    // The derivative of the error by x is (1 - 2 y) p (1 - p). It is divided by the error in a way that has no 0 / 0: a
    // label of 0 or 1 takes nothing of p or 1 - p. What is nearly 0 must stay so, because the loss may be 1e300.
    template <typename V>
    GLUONOPS_INLINE V slope(V x, V y) const
    {
        const SigmoidOf<V> sigmoid(x);
        const V loss = y * sigmoid.softplus_of_minus + (1 - y) * sigmoid.softplus_of_plus;
        const V error = y * sigmoid.minus + (1 - y) * sigmoid.plus;
        const V one = every<V>(1), plus = y == 0 ? one : sigmoid.plus, minus = y == 1 ? one : sigmoid.minus;
        const V by_error = (1 - 2 * y) / (y / plus + (1 - y) / minus);
        const V by_loss = (1 - y) * sigmoid.plus - y * sigmoid.minus;
        const V slope = weight(y) * easing(error) * (by_loss + every<V>(gamma) * by_error * loss);
        return ignored.unless_ignored(slope, y);
    }
};
