"""A progress bar where tqdm is installed and somebody is watching."""
try:
    from tqdm import tqdm
except ImportError:   # the commands work without it
    tqdm = None

__all__ = ["layers", "over"]


def over(items, what, unit):
    """The items, with a bar on stderr if that is a terminal."""
    return items if tqdm is None else tqdm(items, desc=what, unit=unit, disable=None)


def layers(items):
    """The layers whose weights are read, with a bar."""
    return over(items, "weights", "layer")
