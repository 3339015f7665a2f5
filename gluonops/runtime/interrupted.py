"""Lets Ctrl-C end a script that is still importing with one line, and not with a traceback through MXNet.

The imports take some seconds, and a script cannot catch what happens in them: :func:`gluonops.train.run_script` is not
imported yet.
"""
from __future__ import annotations

import sys
import traceback
import types


def install() -> None:
    """Replace ``sys.excepthook``. It prints everything else as before. The exit status stays that of Ctrl-C."""
    previous = sys.excepthook

    def hook(kind: type, error: BaseException, trace: types.TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt) and _is_importing(trace):
            print("\nThe script was interrupted while it imported its modules.", file=sys.stderr)
        else:
            previous(kind, error, trace)

    sys.excepthook = hook


def _is_importing(trace: types.TracebackType | None) -> bool:
    """Return whether an exception comes out of a module that another one imports, or out of the import itself."""
    return any(frame.f_code.co_filename.startswith("<frozen importlib")
               or frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
               for frame, _ in traceback.walk_tb(trace))
