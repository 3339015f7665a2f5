"""Converters of sequences of different lengths, and of attention with interleaved heads."""
from __future__ import annotations

from .registry import CONVERTERS, Call, converts

CONVERTERS.update({
    "_contrib_div_sqrt_dim": "{0} / {0}.shape[-1] ** 0.5",
    "_contrib_interleaved_matmul_selfatt_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 3), part_of_heads({0}, <heads>, 1, 3))",
    "_contrib_interleaved_matmul_selfatt_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 2, 3), <heads>)",
    "_contrib_interleaved_matmul_encdec_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 1), part_of_heads({1}, <heads>, 0, 2))",
    "_contrib_interleaved_matmul_encdec_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 1, 2), <heads>)",
})


@converts("SequenceMask")
def sequence_mask(call: Call) -> str:
    if not call.flag("use_sequence_length"):
        return "{0}"
    return call.snippet("sequence_mask", value=call.value("value"), axis=call.value("axis"))


@converts("SequenceLast")
def sequence_last(call: Call) -> str:
    axis = call.value("axis", 0)
    if not call.flag("use_sequence_length"):
        return f"{{0}}.select({axis}, -1)"
    return call.snippet("sequence_last", axis=axis)


@converts("SequenceReverse")
def sequence_reverse(call: Call) -> str:
    return "sequence_reverse({0}, {1})" if call.flag("use_sequence_length") else "{0}.flip(0)"
