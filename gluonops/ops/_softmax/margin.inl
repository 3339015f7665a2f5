// The margins of a margin softmax: what takes the place of the label's cosine, and its derivative. C++ and CUDA share
// this text. It is C++14, includes nothing, and GLUONOPS_INLINE is what each of them needs in front of a function.
// Both define square_root(x), arc_cosine(x), cosine_of_pi(x) for cos(pi x), sine_of_pi(x) and whole_part(x) before it.

#define COSINE_LIMIT (1 - 1.0 / 1048576)   // The derivative by an angle is taken where the label's cosine is no larger.
#define INVERSE_PI 0.31830988618379067

template <typename A>
struct MarginValue {
    A cosine, slope;   // the label's cosine with its margin, and its derivative by the label's cosine
};

// cos(m1 * angle + m2) - m3, falling beyond pi as well.
template <typename A>
struct Margin {
    A m1, m2, m3, cosine_of_m2, sine_of_m2;
    bool easy;

    GLUONOPS_INLINE MarginValue<A> operator()(A cosine) const
    {
        const bool has_angle = m1 != 1 || m2 != 0;
        const bool is_easy = easy && cosine <= 0;
        const MarginValue<A> kept = {cosine, 1};
        MarginValue<A> value = has_angle && !is_easy ? of_angle(limited(cosine)) : kept;
        value.cosine -= m3;
        return value;
    }

    // NaN stays.
    GLUONOPS_INLINE A limited(A cosine) const
    {
        const A limit = A(COSINE_LIMIT);
        return cosine > limit ? limit : cosine < -limit ? -limit : cosine;
    }

    GLUONOPS_INLINE MarginValue<A> of_angle(A cosine) const
    {
        const A sine = square_root((1 - cosine) * (1 + cosine));
        return m1 == 1 ? additive(cosine, sine) : monotone(cosine, sine);
    }

    // ArcFace: cos(angle + m2). Beyond pi it is a line.
    GLUONOPS_INLINE MarginValue<A> additive(A cosine, A sine) const
    {
        const MarginValue<A> within = {cosine * cosine_of_m2 - sine * sine_of_m2,
                                       cosine_of_m2 + cosine * sine_of_m2 / sine};
        const MarginValue<A> beyond = {cosine - m2 * sine_of_m2, 1};
        return cosine > -cosine_of_m2 ? within : beyond;
    }

    // SphereFace: (-1)^k cos(u) - 2 k from u = k pi to (k + 1) pi.
    GLUONOPS_INLINE MarginValue<A> monotone(A cosine, A sine) const
    {
        const A half_turns = (m1 * arc_cosine(cosine) + m2) * A(INVERSE_PI);
        const A k = whole_part(half_turns), rest = half_turns - k;
        return {cosine_of_pi(rest) - 2 * k, m1 * sine_of_pi(rest) / sine};
    }
};
