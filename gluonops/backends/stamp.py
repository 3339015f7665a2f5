"""The end of the C++ library: what it was built from, how long it is, and its checksum.

The loader of the system trusts a library. One that is cut off ends the process with SIGBUS. So the build appends a
stamp, and the package reads it before it loads the library. A file may end in any bytes behind its ELF sections. In
front of the stamp stands a digest of the sources and of the compiler: an installation does not compile the same again.

This file imports neither gluonops nor MXNet: the build runs it as a file.
"""
from __future__ import annotations

import os
import pathlib
import struct
import zlib

MARK = b"gluonops"
DIGEST = 32   # bytes of the digest in front of the stamp, which is a SHA-256
STAMP = struct.Struct("<8sQI")   # the mark; the length and the CRC-32 of what is in front of the stamp


def append_stamp(path: str | os.PathLike, digest: bytes = bytes(DIGEST)) -> None:
    """Append to a library that the linker has just written the digest of what it was built from, and the stamp."""
    content = pathlib.Path(path).read_bytes() + digest
    with open(path, "ab") as file:
        file.write(digest + STAMP.pack(MARK, len(content), zlib.crc32(content)))


def digest_of(path: str | os.PathLike) -> bytes | None:
    """Return the digest of what a library was built from. Return None if there is no library, or a damaged one."""
    try:
        if damage(path):
            return None
    except OSError:
        return None
    return pathlib.Path(path).read_bytes()[-STAMP.size - DIGEST:-STAMP.size]


def damage(path: str | os.PathLike) -> str | None:
    """Return what is wrong with a library, or None if it is as it was built.

    Raise an OSError if the file cannot be read.
    """
    content = pathlib.Path(path).read_bytes()
    body, end = content[:-STAMP.size], content[-STAMP.size:]
    if len(end) < STAMP.size or not end.startswith(MARK):
        return "it is cut off, or gluonops did not build it"
    _, length, checksum = STAMP.unpack(end)
    if (length, checksum) != (len(body), zlib.crc32(body)):
        return "its content does not fit its checksum"
    return None
