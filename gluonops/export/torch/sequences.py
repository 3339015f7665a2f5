"""Converters of sequences of different lengths."""
from __future__ import annotations

from .registry import CONVERTERS, Call

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
