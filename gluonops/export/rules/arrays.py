"""Rules of sequences, and of attention with interleaved heads."""
from __future__ import annotations

from ..operators.shapes import Call, Shape, shape_of


@shape_of("SequenceMask", "SequenceReverse", "SequenceLast")
def sequence(call: Call) -> Shape:
    """They may read the length of each sequence. Time and batch are the first two axes."""
    time = call.axis(default=0)
    call.expect(1, (call.data[1 - time],))
    return call.reduced([time], False) if call.node.op == "SequenceLast" else call.data


# Attention with interleaved heads: (time, batch, heads * parts * size), with two or three parts.
@shape_of("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def attention(call: Call) -> Shape:
    time, batch, width = call.data
    if "encdec" in call.node.op:
        call.expect(1, (call.shapes[1][0], batch, 2 * width))
    return batch * call.value("heads"), time, call.shapes[-1][0]


@shape_of("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def attended(call: Call) -> Shape:
    time, batch, width = call.data
    call.expect(1, (batch * call.value("heads"), call.shapes[1][1], time))
    return call.shapes[1][1], batch, width // (3 if "selfatt" in call.node.op else 2)
