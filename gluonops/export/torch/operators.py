"""Converters of sequences, and of attention with interleaved heads."""
from __future__ import annotations

from .registry import CONVERTERS, Call, arguments_of, converts

CONVERTERS.update({
    "_contrib_interleaved_matmul_selfatt_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 3), part_of_heads({0}, <heads>, 1, 3))",
    "_contrib_interleaved_matmul_selfatt_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 2, 3), <heads>)",
    "_contrib_interleaved_matmul_encdec_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 1), part_of_heads({1}, <heads>, 0, 2))",
    "_contrib_interleaved_matmul_encdec_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 1, 2), <heads>)",
})

# What computes a sequence operator if all sequences are as long as the data.
WITHOUT_LENGTHS = {"SequenceLast": "{0}.select(<axis=0>, -1)", "SequenceMask": "{0}", "SequenceReverse": "{0}.flip(0)"}


@converts(*WITHOUT_LENGTHS)
def sequence(call: Call) -> str:
    if not call.flag("use_sequence_length"):
        return WITHOUT_LENGTHS[call.node.op]
    function = call.node.op.replace("Sequence", "sequence_").lower()
    return call.snippet(function, **{name: call.value(name) for name in arguments_of(function)})
