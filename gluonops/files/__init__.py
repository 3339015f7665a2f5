"""Works with files of MXNet without MXNet: symbol JSON, ``.params`` and ``.rec`` are listed, checked and converted.

Only NumPy is needed, on any system. A net is named by its path without ``-symbol.json``, by one of its two files, or by
a folder or an archive that contains it.
"""
from .describe import check, describe
from .read import read, records, write
from .writers import convert

__all__ = ["check", "convert", "describe", "read", "records", "write"]
