// The gradients of a row's cross-entropy with its target distribution, for one class. C++ and CUDA share this text. It
// is C++14, includes nothing, and GLUONOPS_INLINE is what each of them needs in front of a function.
//
// The target of a class is (label_weight * label + uniform) * weight. The label is the second input, if it is a
// probability; else it is 1 at the label's class and 0 elsewhere. Then the second input is 0, and the label's class has
// a `share` besides. `at` is a class of a row: its inputs, weight and label, and the numbers of the row.

// Returns the target without the label's share.
template <typename Args, typename Element>
GLUONOPS_INLINE auto target_of(const Args &args, const Element &at)
{
    return (args.label_weight * at.inputs[1] + args.uniform) * at.weight;
}

// Returns the gradient by the logit. `expected` is the probability of the class times the sum of the row's targets.
template <typename Element, typename Expected, typename Target, typename Share>
GLUONOPS_INLINE auto gradient_by_logit(const Element &at, Expected expected, Target target, Share share)
{
    return at.row.factor * at.label.subtract_from(expected - target, share);
}

// Returns the gradient by the label, where it is a probability.
template <typename Args, typename Element, typename LogProbability>
GLUONOPS_INLINE auto gradient_by_label(const Args &args, const Element &at, LogProbability log_probability)
{
    return -args.label_weight * at.row.factor * at.weight * log_probability;
}
