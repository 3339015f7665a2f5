// The losses of YOLOv3's to YOLOv7's heads in CUDA. loss.cuh has their steps.
#include "../_region/loss.cuh"
#include "../_region/yolo.inl"

// Computes a prediction to which no ground truth is assigned, if only its objectness has a target, which is 0 or
// nothing. Returns whether it did.
template <typename Loss, typename Prediction, typename Targets, typename A>
__device__ bool compute_background(const Loss &loss, const Prediction &prediction, const Targets &targets, A *parts)
{
    const A number = prediction.number(Loss::OBJECT);
    const Box<A> box = YoloBox<A>(loss, prediction).box;
    const bool overlaps = targets.any_overlaps(box, loss.ignore_thresh);
    const bool has_matches = loss.truth_thresh < infinity<A>();
    if ((overlaps && loss.objectness_smooth) || (has_matches && targets.any_overlaps(box, loss.truth_thresh)))
        return false;
    const bool is_ignored = overlaps && (!loss.alexeyab || has_likely_class(loss, prediction));
    const A weight = is_ignored ? A(0) : loss.obj_normalizer;
    const A weighted_error = weight * loss.activation(number);
    parts[NO_OBJECTNESS] += weight * loss.entropy(number, A(0));
    parts[COST] += weighted_error * weighted_error;
    prediction.put(Loss::OBJECT, weighted_error);
    return true;
}
