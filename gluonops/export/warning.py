"""The warning of exports."""


class ExportWarning(UserWarning):
    """An export that worked, and something about it that its user should know."""
