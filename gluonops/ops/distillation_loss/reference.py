"""``distillation_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array


def statistics(F, attrs, logits: Array) -> tuple[Array, Array, Array]:
    """Return the maximum of each row, the log-probabilities at the temperature, and the logarithm of their divisor."""
    row_max = F.BlockGrad(F.max(logits, axis=attrs.axis, keepdims=True))
    powers = F.broadcast_sub(logits, row_max) / attrs.temperature
    log_sum = F.log(F.sum(F.exp(powers), axis=attrs.axis, keepdims=True))
    return row_max, F.broadcast_sub(powers, log_sum), log_sum


def forward(F, attrs, data: Array, teacher: Array) -> tuple[Array, ...]:
    row_max, log_q, log_sum = statistics(F, attrs, data)
    teacher_max, log_p, teacher_log_sum = statistics(F, attrs, F.BlockGrad(teacher))
    divergence = F.sum(F.exp(log_p) * (log_p - log_q), axis=attrs.axis, keepdims=True)
    divergence = F.reshape(divergence, shape=(0, 0, -2))   # it has at least two dimensions
    rows = (divergence * attrs.temperature ** 2, row_max, log_sum, teacher_max, teacher_log_sum)
    return tuple(F.squeeze(values, axis=attrs.axis) for values in rows)


def backward(nd, attrs, shapes, output_grad, data, teacher, max, log_sum, teacher_max,   # noqa: A002
             teacher_log_sum) -> dict:
    def probabilities(logits, row_max, row_log_sum):
        powers = nd.broadcast_sub(logits, nd.expand_dims(row_max, axis=attrs.axis)) / attrs.temperature
        return nd.exp(nd.broadcast_sub(powers, nd.expand_dims(row_log_sum, axis=attrs.axis)))

    error = probabilities(data, max, log_sum) - probabilities(teacher, teacher_max, teacher_log_sum)
    grad_out = nd.expand_dims(output_grad, axis=attrs.axis)
    return {"data": nd.broadcast_mul(error * attrs.temperature, grad_out)}
