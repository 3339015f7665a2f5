"""``region_loss`` out of MXNet's own operators, and its gradient.

Every anchor and cell looks up the last truth that chose it. Letters are the sizes: B images, A anchors, H rows,
W columns, K classes. What follows from the truths is constant; the loss alone has a gradient.
"""
from .._truths import match
from ..region_decode.reference import CLASSES, HEIGHT, OBJECT, WIDTH, X, Y, channels, class_probabilities, grid, split

WARM_UP_SCALE = 0.01   # Darknet's


def forward(F, attrs, data, truth, seen):
    maps = split(F, attrs, data)                                            # B, A, 5+K, H, W
    raw = [channels(F, maps, i) for i in range(CLASSES)]                    # B, A, 1, H, W each
    out = [F.sigmoid(value) if i in (X, Y, OBJECT) else value for i, value in enumerate(raw)]
    p = class_probabilities(F, attrs, maps)                                 # B, A, K, H, W
    asked = match(F, attrs, grid(F, attrs, maps), [F.BlockGrad(value) for value in out[:OBJECT]], F.BlockGrad(p),
                  F.BlockGrad(truth))
    claimed, zero = asked.claimed, F.zeros_like(asked.claimed)              # B, A, 1, H, W
    early = F.cast(seen, dtype="float64") < attrs.warmup_images             # 1
    early = F.broadcast_like(F.reshape(early, shape=(1, 1, 1, 1, 1)), zero)

    scale = F.where(claimed, asked.scale, F.where(early, zero + WARM_UP_SCALE, zero))
    scales = dict.fromkeys((X, Y, WIDTH, HEIGHT), scale)
    targets = {X: F.where(claimed, asked.x, zero + 0.5), Y: F.where(claimed, asked.y, zero + 0.5),
               WIDTH: F.where(claimed, asked.w, zero), HEIGHT: F.where(claimed, asked.h, zero)}
    missed = F.where(asked.overlap > attrs.thresh, zero, zero + attrs.noobject_scale)
    scales[OBJECT] = F.where(claimed, zero + attrs.object_scale, missed)
    targets[OBJECT] = claimed * asked.iou if attrs.rescore else claimed
    off = {i: out[i] - targets[i] for i in targets}
    pull = {i: scales[i] * off[i] for i in targets}                         # minus Darknet's delta
    wanted = F.broadcast_mul(claimed, asked.classes)
    class_pull = (F.broadcast_mul(claimed, p) - wanted) * attrs.class_scale

    def total(values):
        return F.sum(values, axis=(1, 2, 3, 4))

    coordinates = total(sum(pull[i] * off[i] for i in (X, Y, WIDTH, HEIGHT))) * 0.5
    objects, others = (total(pull[OBJECT] * off[OBJECT] * mask) * 0.5 for mask in (claimed, 1 - claimed))
    classes = total(claimed * cross_entropy(F, attrs, maps, wanted)) * attrs.class_scale
    loss = (coordinates + objects + others + classes) * asked.judgement
    cost = total(sum(value * value for value in pull.values())) + total(class_pull * class_pull)
    parts = F.stack(coordinates, objects, others, classes, cost, asked.total_iou, asked.total_recall,
                    asked.total_probability, asked.count, axis=1)
    for i in (X, Y, OBJECT):
        pull[i] = pull[i] * out[i] * (1 - out[i])
    gradient = F.concat(*[pull[i] for i in range(CLASSES)], class_pull, dim=2)
    gradient = F.broadcast_mul(gradient, F.reshape(asked.judgement, shape=(-1, 1, 1, 1, 1)))
    return (loss, F.BlockGrad(F.broadcast_mul(parts, F.expand_dims(asked.judgement, axis=1))),
            F.BlockGrad(F.reshape_like(gradient, data)))


def cross_entropy(F, attrs, maps, targets):
    """Of every anchor and cell, for the target probabilities (B, A, K, H, W)."""
    logits = channels(F, maps, CLASSES, CLASSES + attrs.classes)
    if attrs.softmax:
        top = F.BlockGrad(F.max(logits, axis=2, keepdims=True))
        log_sum = F.log(F.sum(F.exp(F.broadcast_sub(logits, top)), axis=2, keepdims=True)) + top
        return F.sum(F.broadcast_sub(log_sum, logits) * targets, axis=2, keepdims=True)
    top = F.BlockGrad(F.relu(logits))
    log_sum = F.log(F.exp(-top) + F.exp(logits - top)) + top                # of exp(0) + exp(logit)
    return F.sum(log_sum - logits * targets, axis=2, keepdims=True)


def backward(nd, attrs, shapes, output_grad, gradient):
    return {"data": nd.broadcast_mul(gradient, output_grad.reshape((-1, 1, 1, 1)))}
