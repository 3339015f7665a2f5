// The losses of YOLOv3's to YOLOv7's heads on the CPU. loss.h has their stages.
#pragma once

#include "loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

#include "yolo.inl"

// Returns the sum of weight * log(1 + exp(x)): one logarithm, of a product. A weight is 0 or `largest`.
template <typename V, typename A>
GLUONOPS_INLINE double sum_of_softplus(V x, V weight, A largest)
{
    const V zero = broadcast(A(0)), positive = maximum(x, zero);
    const V sums = 1 + full_range_exponential(x - positive - positive);
    double product = 1;
    for (int lane = 0; lane < int(sizeof(V) / sizeof(A)); ++lane)
        product *= weight[lane] != 0 ? double(sums[lane]) : 1;
    return double(largest) * logarithm(product) + double(reduce_sum(weight * positive));
}

// A prediction that a vector of cells leaves out. As a call it leaves the registers to the loop over the cells.
template <typename T, typename Loss>
__attribute__((noinline)) void compute_alone(const Loss &loss, const Anchor<T, Loss> &anchor, int64_t cell,
                                             double *parts)
{
    compute_prediction(loss, Prediction<T>(anchor, cell), anchor.truths, parts);
}

// The cells without a box. Lanes beyond the end count as assigned.
template <typename T, typename Loss>
void unassigned_cells(const Loss &loss, const Anchor<T, Loss> &anchor, double *parts)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    const int64_t cells = anchor.sizes.cells();
    // From this IoU on, a prediction is computed alone. pjreddie's program ignores it whatever its classes are.
    const A ignored = loss.alexeyab ? infinity<A>() : loss.ignore_thresh;
    const A alone = loss.alexeyab && loss.ignore_thresh < loss.truth_thresh ? loss.ignore_thresh : loss.truth_thresh;
    for_each_vector<T>(cells, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
        const Predictions<T, decltype(mask)> predictions(anchor, cell, mask);
        const YoloBox<A, V> predicted(loss, predictions);
        A *to = anchor.gradient + Loss::OBJECT * cells + cell;
        const V number = predictions.number(Loss::OBJECT), objectness = loss.activation(number);
        const V is_unassigned = 1 - load(to, mask, A(1));
        const V max_iou = largest_iou<T>(predicted.box, anchor.truths.all, anchor.truths.count);

        const V zero = broadcast(A(0));
        const V is_together = max_iou > alone ? zero : is_unassigned;
        const V weight = (max_iou > ignored ? zero : is_together) * loss.obj_normalizer;
        const V weighted_error = weight * objectness;
        store(to, weighted_error, mask);
        parts[COST] += double(reduce_sum(weighted_error * weighted_error));
        parts[NO_OBJECTNESS] += loss.new_coords ? 0.5 * double(reduce_sum(weighted_error * objectness))
                                                : sum_of_softplus(number, weight, loss.obj_normalizer);
        for (int lane = 0; lane < Simd<T>::LANES; ++lane)
            if (is_together[lane] != is_unassigned[lane])
                compute_alone(loss, anchor, cell + lane, parts);
    });
}

// The first box of a cell stands for all of them.
template <typename Loss, typename Prediction>
void assigned_cell(const Loss &loss, const Prediction &prediction, const Truths<Loss> &truths, int64_t t, double *parts)
{
    if (truths.next_at(0, prediction) == t)
        compute_prediction(loss, prediction, truths, parts);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
