// region_loss. loss.cuh has its steps. Bytes moved: forward five of the map's planes and the gradient, backward twice
// the gradient.
#include "../_region/loss.cuh"
#include "../_region/region.inl"

// Computes a prediction to which no ground truth is assigned. None is left over.
template <typename A, typename Prediction, typename Targets>
__device__ bool compute_background(const RegionLoss<A> &loss, const Prediction &prediction, const Targets &targets,
                                   A *parts)
{
    const YoloBox<A> predicted(loss, prediction);
    const A priors[4] = {A(0.5), A(0.5), 0, 0};
    const A weight = targets.any_overlaps(predicted.box, loss.thresh) ? A(0) : loss.noobject_scale;
    A own[PARTS] = {};   // in registers
    regress_box(prediction, predicted, priors, loss.warm_up_scale, own);
    regress_objectness(prediction, A(0), weight, NO_OBJECTNESS, own);
    parts[COORDINATES] += own[COORDINATES];
    parts[NO_OBJECTNESS] += own[NO_OBJECTNESS];
    parts[COST] += own[COST];
    return true;
}

template <typename T, typename A, int LANES>
__device__ void compute_prediction(const RegionLoss<A> &loss, const Prediction<T, RegionLoss<A>, LANES> &prediction,
                                   const Targets<T, RegionLoss<A>> &targets, A *parts)
{
    const YoloBox<A> predicted(loss, prediction);
    const ClassLogits<T> logits(prediction.from + prediction.at(5), prediction.classes, targets.map.cells(),
                                loss.softmax);
    int last = 0;
    for (int t = targets.next_at(0, prediction); t < targets.count; t = targets.next_at(t + 1, prediction)) {
        if (prediction.lane() == 0)
            count_match(iou_of(predicted.box, targets.box(t)), logits.probability(int(targets.class_id(t))), parts);
        last = t;
    }
    compute_assigned(loss, prediction, predicted, logits, targets, last, parts);
}

template <typename T, typename L>
__device__ void forward(const RegionLossArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    const bool is_warm_up = double(load(args.seen, 0)) < double(args.warmup_images);
    head_loss_forward(args, region_loss_of<A>(args, is_warm_up));
}

template <typename T, typename L>
__device__ void backward(const RegionLossArgs<T, L> &args) { head_loss_backward(args); }
