"""Converters of sequences of different lengths, and of attention with interleaved heads."""
from __future__ import annotations

from .registry import CONVERTERS, Call

CONVERTERS.update({
    "_contrib_interleaved_matmul_selfatt_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 3), part_of_heads({0}, <heads>, 1, 3))",
    "_contrib_interleaved_matmul_selfatt_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 2, 3), <heads>)",
    "_contrib_interleaved_matmul_encdec_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 1), part_of_heads({1}, <heads>, 0, 2))",
    "_contrib_interleaved_matmul_encdec_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 1, 2), <heads>)",
})

# MXNet's name -> the function that takes lengths, its options, and the text if all sequences are as long as the data.
FORMS = {
    "SequenceLast": ("sequence_last", ("axis",), "{0}.select(<axis=0>, -1)"),
    "SequenceMask": ("sequence_mask", ("value", "axis"), "{0}"),
    "SequenceReverse": ("sequence_reverse", (), "{0}.flip(0)"),
}


def _convert(call: Call) -> str:
    function, options, text = FORMS[call.node.op]
    if not call.flag("use_sequence_length"):
        return text
    return call.snippet(function, **{option: call.value(option) for option in options})


CONVERTERS.update(dict.fromkeys(FORMS, _convert))
