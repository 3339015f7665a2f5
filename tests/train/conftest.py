"""The tiny data sets of tests/data are for the scripts, too."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "data"))
