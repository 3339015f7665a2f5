"""distillation_loss: Hinton, Vinyals and Dean, section 2, as a divergence, and the derivative of section 2.1."""
import numpy as np
from ops._softmax.oracle import nll, softmax


def forward(attrs, data, teacher):
    student_nll, teacher_nll = (nll(logits / attrs.temperature, attrs.axis) for logits in (data, teacher))
    p = softmax(teacher, attrs.axis, attrs.temperature)
    hidden = {}
    for prefix, logits in (("", data), ("teacher_", teacher)):
        row_max = logits.max(attrs.axis, keepdims=True)
        log_sum = np.log(np.exp((logits - row_max) / attrs.temperature).sum(attrs.axis))
        hidden.update({f"{prefix}max": row_max.squeeze(attrs.axis), f"{prefix}log_sum": log_sum})
    return {"output": attrs.temperature ** 2 * (p * (student_nll - teacher_nll)).sum(attrs.axis), **hidden}


def backward(attrs, head, data, teacher):
    q, p = (softmax(logits, attrs.axis, attrs.temperature) for logits in (data, teacher))
    return {"data": np.expand_dims(head, attrs.axis) * attrs.temperature * (q - p)}
