"""How much memory one file of a data set may take when it is unpacked or decoded, and how long its numbers may be."""
import os

from ..core.errors import OpError

VARIABLE = "GLUONOPS_MAX_DECODED_MIB"
DEFAULT = 512   # MiB: an RGB image of 179 megapixels, where Pillow refuses one as well
MIB = 1 << 20
MAX_DIGITS = 100   # a longer number is refused; Python refuses some thousands


def is_whole_number(text: str) -> bool:
    """Whether a text is a whole number from 0, in ASCII digits and not longer than Python reads."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def max_bytes() -> int:
    """The limit in bytes: ``GLUONOPS_MAX_DECODED_MIB``, or 512 MiB.

    An OpError if the variable is not a positive integer.
    """
    text = os.environ.get(VARIABLE, str(DEFAULT))
    if not (is_whole_number(text) and int(text) > 0):
        raise OpError("data", f"{VARIABLE} is {text!r}; expected a positive integer, a number of MiB",
                      "Correct it, or unset it")
    return int(text) * MIB


def check_size(where: str, name: str, size: int) -> None:
    """Raise an OpError if the file ``name`` would take more memory than the limit: so many bytes."""
    limit = max_bytes()
    if size > limit:
        raise OpError(where, f"{name} takes {size / MIB:,.0f} MiB of memory or more; the limit is {limit // MIB:,} MiB",
                      f"Replace it by a smaller one, or set {VARIABLE} if you trust the file")
