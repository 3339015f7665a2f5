"""An environment for processes that do not find MXNet."""
import os
import pathlib

ROOT = pathlib.Path(__file__).parents[1]
# No module named mxnet is found, as in an environment without it.
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mxnet":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def environment(folder):
    """The environment, with a file in the folder that Python runs when it starts."""
    (folder / "sitecustomize.py").write_text(BLOCKER)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
