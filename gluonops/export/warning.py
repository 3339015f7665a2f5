"""ExportWarning."""


class ExportWarning(UserWarning):
    """An export succeeded, but the file differs from the net, or needs another package."""
