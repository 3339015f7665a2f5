"""The package ``benchmarks`` can be imported: it is not installed, and lies in the root of the repository."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
