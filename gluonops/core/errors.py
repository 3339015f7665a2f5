"""OpError, and the road by which an error raised inside an operator reaches the user.

MXNet calls a CustomOp through C: what Python raises there is printed, and the caller gets a bare
"Check failed". So the operator side remembers its error here (:func:`remember`), and the one function with
which MXNet turns a C failure into a Python exception is wrapped to hand out the remembered one instead.
"""
import atexit
import collections
import re
import sys
import threading

__all__ = ["OpError"]


class OpError(ValueError):
    """Bad input to gluonops: says what, what it got, what was expected, and what to do.

    ``except gluonops.OpError`` catches it wherever it is found out, in every backend but builtin graphs: in the call,
    while shapes are inferred, or by whoever waits for the result. It is no ``mxnet.MXNetError``: MXNet repackages
    those on its way out of ``simple_bind``, and so of ``Module.bind``.

    Parameters
    ----------
    where : str
        Who complains, without the package's name: ``reorg``, ``backend``, ``export.symbol``.
    what : str
        The complaint: what was got, and what was expected.
    remedy : str
        What the user can do about it; one sentence, without the full stop.
    """

    def __init__(self, where, what, remedy):
        super().__init__(f"gluonops.{where}: {what}. {remedy}.")
        self.where, self.what, self.remedy = where, what, remedy

    def __reduce__(self):
        return type(self), (self.where, self.what, self.remedy)


# How MXNet names the call that failed: an error inside an op's body surfaces in whichever thread waits for
# the result, one inside a property callback in the calling thread itself.
_BODY, _PROPERTY = "CustomOpFBFunc", "custom.cc"
# How MXNet quotes what the C++ library refuses: in a list of messages, behind the node's name, or as it is.
_QUOTED = re.compile(r"^(?:\s*\[\d+\] |.*?Error in operator .*?: )?gluonops\.([\w.]+): (.*)\. (.*?)\.\s*$",
                     re.MULTILINE)
_lock = threading.Lock()
_from_bodies = collections.deque(maxlen=64)
_mentioned = []   # in the text of an error handed out before them; somebody may wait for their results yet
_here = threading.local()


def remember(where, error, body):
    """Keep an error raised inside a CustomOp until MXNet reports the failed call."""
    if not isinstance(error, OpError):
        cause, error = error, OpError(where, f"{type(error).__name__}: {error}",
                                      "The traceback above is where it happened; if the input is sound, report it")
        error.__cause__ = cause
    if body:
        with _lock:
            _from_bodies.append(error)
    else:
        _here.error = error


def _recall(text):
    if _BODY in text:
        with _lock:
            return _newest()
    if _PROPERTY in text:
        error, _here.error = getattr(_here, "error", None), None
        return error
    quoted = _QUOTED.search(text)
    return OpError(*quoted.groups()) if quoted else None


def _newest():
    """Of the errors from bodies the last one. MXNet does not say whose call failed, so its text names the others."""
    if not _from_bodies:
        return _mentioned.pop() if _mentioned else None
    error = _from_bodies.pop()
    _mentioned[:] = _from_bodies
    _from_bodies.clear()
    if not _mentioned:
        return error
    others = "; ".join(f"{other.where}: {other.what}" for other in _mentioned)
    whole = OpError(error.where, f"{error.what} (failed before it, with nobody waiting for the result: {others})",
                    error.remedy)
    whole.__cause__ = error.__cause__
    return whole


def _finish():
    """At exit, wait for operators still running: MXNet would end the process under them with SIGABRT."""
    import mxnet as mx
    try:
        mx.nd.waitall()
    except Exception as error:
        print(f"gluonops: an operator failed and nothing waited for its result: {error}", file=sys.stderr)


def install():
    """Wrap MXNet's factory of exceptions, once, and leave no operator running at exit."""
    import mxnet as mx  # here: contracts, which raise OpErrors, are read without MXNet at build time
    original = mx.base.get_last_ffi_error
    if getattr(original, "gluonops", False):
        return

    def get_last_ffi_error():
        error = original()
        ours = _recall(str(error))
        if ours is None:
            return error
        ours.__context__ = error
        ours.__suppress_context__ = True   # a traceback of MXNet's C++ would stand before ours, and say less
        return ours

    get_last_ffi_error.gluonops = True
    mx.base.get_last_ffi_error = get_last_ffi_error
    atexit.register(_finish)
