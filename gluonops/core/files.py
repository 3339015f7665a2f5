"""Files that are written whole or not at all."""
import os
import tempfile

__all__ = ["replace"]


def replace(savers):
    """Save every file under a temporary name beside its own, then rename all: a failure leaves what was there.

    Parameters
    ----------
    savers : dict of str to callable
        Path -> function that writes the file at the path it is given.
    """
    temporary = {}
    try:
        for path, save in savers.items():
            handle, temporary[path] = tempfile.mkstemp(dir=os.path.dirname(path) or ".",
                                                       prefix=os.path.basename(path) + ".")
            os.close(handle)
            save(temporary[path])
            os.chmod(temporary[path], 0o666 & ~_umask())
        for path in savers:
            os.replace(temporary[path], path)
            del temporary[path]
    finally:
        for path in temporary.values():
            os.unlink(path)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
