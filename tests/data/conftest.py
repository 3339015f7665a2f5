"""The helpers in this folder can be imported by the tests below it, whichever runs alone."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
