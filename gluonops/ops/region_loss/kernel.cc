// region_loss on the CPU. loss.h has its stages.
#include "generated/region_loss.h"
#include "../_region/loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

#include "../_region/region.inl"

// The cells without a box. Lanes beyond the end count as assigned.
template <typename T, typename A>
void unassigned_cells(const RegionLoss<A> &loss, const Anchor<T, RegionLoss<A>> &anchor, double *parts)
{
    typedef typename Simd<T>::Vector V;
    const int64_t cells = anchor.sizes.cells();
    for_each_vector<T>(cells, [=](int64_t cell, auto mask) GLUONOPS_LAMBDA {
        const Predictions<T, decltype(mask)> predictions(anchor, cell, mask);
        const YoloBox<A, V> predicted(loss, predictions);
        A *to = anchor.gradient + cell;
        const V objectness = sigmoid(predictions.number(4));
        const V is_unassigned = 1 - load(to + 4 * cells, mask, A(1));
        const V max_iou = largest_iou<T>(predicted.box, anchor.truths.all, anchor.truths.count);
        const V weight = max_iou > loss.thresh ? broadcast(A(0)) : is_unassigned * loss.noobject_scale;
        const V weighted_error = weight * objectness;
        parts[NO_OBJECTNESS] += 0.5 * double(reduce_sum(weighted_error * objectness));
        store(to + 4 * cells, weighted_error * objectness * (1 - objectness), mask);

        V cost = weighted_error * weighted_error;
        if (loss.warm_up_scale > 0) {
            const V scale = is_unassigned * loss.warm_up_scale, x = predicted.offsets[0], y = predicted.offsets[1];
            const V errors[4] = {x - A(0.5), y - A(0.5), predicted.numbers[2], predicted.numbers[3]};
            V weighted[4];
            for (int c = 0; c < 4; ++c)
                weighted[c] = scale * errors[c];
            const V coordinates = weighted[0] * errors[0] + weighted[1] * errors[1] + weighted[2] * errors[2] +
                                  weighted[3] * errors[3];
            parts[COORDINATES] += 0.5 * double(reduce_sum(coordinates));
            cost += weighted[0] * weighted[0] + weighted[1] * weighted[1] + weighted[2] * weighted[2] +
                    weighted[3] * weighted[3];
            store(to, weighted[0] * x * (1 - x), mask);
            store(to + cells, weighted[1] * y * (1 - y), mask);
            store(to + 2 * cells, weighted[2], mask);
            store(to + 3 * cells, weighted[3], mask);
        } else {
            for (int c = 0; c < 4; ++c)
                store(to + c * cells, broadcast(A(0)), mask);
        }
        parts[COST] += double(reduce_sum(cost));
    });
}

template <typename T, typename A>
void assigned_cell(const RegionLoss<A> &loss, const Prediction<T> &prediction, const Truths<RegionLoss<A>> &truths,
                   int64_t t, double *parts)
{
    const YoloBox<A> predicted(loss, prediction);
    const ClassLogits<T> logits(prediction.from + 5 * prediction.cells, prediction.classes, prediction.cells,
                                loss.softmax);
    count_match(iou_of(predicted.box, truths.box(t)), logits.probability(truths.all[t].class_id), parts);
    if (truths.next_at(t + 1, prediction) == truths.count)
        compute_assigned(loss, prediction, predicted, logits, truths, int(t), parts);
}

template <typename T>
void forward(const RegionLossArgs<T> &args)
{
    typedef typename RegionLossArgs<T>::A A;
    const bool is_warm_up = value_at(args.seen, 0) < double(args.warmup_images);
    head_loss_forward(args, region_loss_of<A>(args, is_warm_up));
}

template <typename T>
void backward(const RegionLossArgs<T> &args)
{
    head_loss_backward(args);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
