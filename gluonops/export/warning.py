"""ExportWarning, and the warning of what an export for inference leaves out."""
from __future__ import annotations

import warnings


class ExportWarning(UserWarning):
    """An export succeeded, but the file differs from the net, or needs another package."""


def warn_of_losses(notes: list[str], hint: str = "", stacklevel: int = 3) -> None:
    """Warn of what the pass ``inference`` has removed, if it has; see :class:`gluonops.export.ExportedModel`."""
    if notes:
        warnings.warn(f"the net is exported for inference, without {', '.join(notes)}{hint}", ExportWarning,
                      stacklevel=stacklevel)
