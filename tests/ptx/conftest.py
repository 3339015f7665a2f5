"""Makes ``benchmarks`` importable: its plans have the PTX and the arguments of every case."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
