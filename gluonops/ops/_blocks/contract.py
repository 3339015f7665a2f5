"""The launches of kernels in which several blocks share a row; see ``blocks.cuh``."""
from __future__ import annotations

from ...core import contract
from ...core.contract import Steps


def shared_rows(rows: int, blocks: int, numbers: int) -> Steps:
    """Of a kernel whose last block finishes a row: step 1, and step 0 in front where counts are not kept.

    ``partial`` has a count for each row, and ``numbers``.
    """
    partial = rows + numbers
    return Steps(blocks, partial, (1,) if partial <= contract.KEPT_NUMBERS else (0, 1))
