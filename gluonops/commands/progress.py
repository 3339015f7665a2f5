"""A progress bar where tqdm is installed and somebody is watching."""
try:
    from tqdm import tqdm
except ImportError:   # the commands work without it
    tqdm = None

__all__ = ["layers"]


def layers(items):
    """The items, with a bar on a terminal."""
    return items if tqdm is None else tqdm(items, desc="weights", unit="layer", disable=None)
