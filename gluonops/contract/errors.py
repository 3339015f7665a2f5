"""OpError, and how an error raised inside an operator reaches the user.

MXNet calls a CustomOp through C. An exception that Python raises there is printed, and the caller gets only
"Check failed". So the operator records its error here (:func:`remember`). MXNet has one function that turns a C failure
into a Python exception; it is wrapped to return the recorded error instead.
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import re
import sys
import threading
from collections.abc import Iterator


class OpError(ValueError):
    """Bad input to gluonops. The message says what is wrong, what was expected, and what to do.

    ``except gluonops.OpError`` catches it in every backend but builtin graphs: in the call, while shapes are inferred,
    or where the result is waited for. It is no ``mxnet.MXNetError``, because ``simple_bind``, and so ``Module.bind``,
    replaces those by errors of its own.

    Parameters
    ----------
    where : str
        The function that raises it, without the package's name: ``reorg``, ``backend``, ``export.symbol``.
    what : str
        The problem: what was passed, and what was expected.
    remedy : str
        What the user can do about it; one sentence, without the full stop.
    """

    def __init__(self, where: str, what: str, remedy: str):
        super().__init__(f"gluonops.{where}: {what}. {remedy}.")
        self.where, self.what, self.remedy = where, what, remedy

    def __reduce__(self) -> tuple:
        return type(self), (self.where, self.what, self.remedy)

    def about(self, name: object) -> OpError:
        """Return the same error, with the name of its subject, such as a file, in front of the text."""
        return type(self)(self.where, f"{name}: {self.what}", self.remedy)


@contextlib.contextmanager
def naming(name: object) -> Iterator[None]:
    """Put the name of its subject in front of an OpError that is raised in the body; see :meth:`OpError.about`."""
    try:
        yield
    except OpError as error:
        raise error.about(name) from error


def quoted(value: object) -> str:
    """Return a value as ``repr`` writes it for an error, or only the beginning if that is long."""
    return shortened(repr(value), 200)


def plural(count: int, one: str, several: str = "") -> str:
    """Return a number with its noun: ``1 dimension``, ``2 dimensions``, ``3 classes``.

    ``several`` is the plural of the noun where it is not ``one`` with an s.
    """
    return f"{count} {one if count == 1 else several or one + 's'}"


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning if it has more than ``length`` characters."""
    return text if len(text) <= length else text[:length] + "..."


# The names by which MXNet's texts refer to the call that has failed. An error in the body of an operator is raised in
# the thread that waits for the result, and an error in a property's callback is raised in the calling thread.
_BODY, _PROPERTY = "CustomOpFBFunc", "custom.cc"
# MXNet quotes an error of the C++ library in a list of messages, behind the name of the node, or unchanged.
_QUOTED = re.compile(r"^(?:\s*\[\d+\] |.*?Error in operator .*?: )?gluonops\.([\w.]+): (.*)\. (.*?)\.\s*$",
                     re.MULTILINE)
_lock = threading.Lock()
_from_bodies = collections.deque(maxlen=64)
_mentioned = []   # errors that an earlier error has listed, and whose results may still be waited for
_thread = threading.local()


def remember(where: str, error: Exception, body: bool) -> None:
    """Record an error raised inside a CustomOp until MXNet reports the failed call.

    ``body`` is True for an error in forward or backward, False for one in a property callback.
    """
    if not isinstance(error, OpError):
        cause, error = error, OpError(where, f"{type(error).__name__}: {error}",
                                      "The traceback above shows where; if the input is valid, report it")
        error.__cause__ = cause
    if body:
        with _lock:
            _from_bodies.append(error)
    else:
        _thread.error = error


def _recall(text: str) -> OpError | None:
    """Return the recorded error, or the C++ library's, that MXNet's error text is about, or None if it is neither."""
    if _BODY in text:
        with _lock:
            return _newest()
    if _PROPERTY in text:
        error, _thread.error = getattr(_thread, "error", None), None
        return error
    return from_library(text)


def from_library(text: str) -> OpError | None:
    """Return the error that a text of the C++ library describes, or None if it describes none of ours."""
    quoted = _QUOTED.search(text)
    return OpError(*quoted.groups()) if quoted else None


def _newest() -> OpError | None:
    """Return the last error from a body. Its text lists those before it: MXNet does not say whose call failed."""
    if not _from_bodies:
        return _mentioned.pop() if _mentioned else None
    error = _from_bodies.pop()
    _mentioned[:] = _from_bodies
    _from_bodies.clear()
    if not _mentioned:
        return error
    others = "; ".join(f"{other.where}: {other.what}" for other in _mentioned)
    combined = OpError(error.where, f"{error.what} (these failed earlier, and nothing waited for their results: "
                       f"{others})", error.remedy)
    combined.__cause__ = error.__cause__
    return combined


def _finish() -> None:
    """Wait for operators that still run: otherwise MXNet ends the process with SIGABRT."""
    import mxnet as mx  # here: a build reads contracts, which raise OpErrors, without MXNet
    try:
        mx.nd.waitall()
    except Exception as error:
        print(f"gluonops: an operator failed and nothing waited for its result: {error}", file=sys.stderr)


def install() -> None:
    """Wrap MXNet's factory of exceptions, once, and wait for running operators at exit."""
    import mxnet as mx
    original = mx.base.get_last_ffi_error
    if getattr(original, "gluonops", False):
        return

    def get_last_ffi_error() -> Exception:
        error = original()
        ours = _recall(str(error))
        if ours is None:
            return error
        ours.__context__ = error
        ours.__suppress_context__ = True   # hides MXNet's C++ traceback, which says less
        return ours

    get_last_ffi_error.gluonops = True
    mx.base.get_last_ffi_error = get_last_ffi_error
    atexit.register(_finish)
