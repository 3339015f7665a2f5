"""Find and load the CUDA libraries that MXNet's CUDA wheel is linked against.

``pip install 'gluonops[cu117]'`` puts CUDA 11 into ``site-packages/nvidia``, where the loader does not look. The
loader reuses a library that is already loaded, so loading the libraries first is enough. The files in the wheels find
one another.
"""
from __future__ import annotations

import ctypes
import pathlib
import sys

# The wheel on PyPI for each library that libmxnet.so of mxnet-cu117 1.9.1 needs. A library comes after those it needs.
LIBRARIES = {
    "libcudart.so.11.0": "nvidia-cuda-runtime-cu11",
    "libcublas.so.11": "nvidia-cublas-cu11",
    "libcusparse.so.11": "nvidia-cusparse-cu11",
    "libcusolver.so.11": "nvidia-cusolver-cu11",
    "libcufft.so.10": "nvidia-cufft-cu11",
    "libcurand.so.10": "nvidia-curand-cu11",
    "libnvrtc.so.11.2": "nvidia-cuda-nvrtc-cu11",
    "libcudnn.so.8": "nvidia-cudnn-cu11",
    "libnccl.so.2": "nvidia-nccl-cu11",
    "libnvToolsExt.so.1": "nvidia-nvtx-cu11",
}
# The wheels begin with CUDA 11.7, and CUDA 12 and cuDNN 9 no longer have the interface.
REQUIREMENTS = ["nvidia-cuda-runtime-cu11>=11.7,<12", "nvidia-cublas-cu11>=11.10,<12", "nvidia-cudnn-cu11>=8.5,<9",
                "nvidia-cufft-cu11>=10.7,<11", "nvidia-curand-cu11>=10.2,<11", "nvidia-cusolver-cu11>=11.4,<12",
                "nvidia-cusparse-cu11>=11.7,<12", "nvidia-cuda-nvrtc-cu11>=11.7,<12", "nvidia-nccl-cu11>=2.14,<3",
                "nvidia-nvtx-cu11>=11.7,<12"]
DRIVER = "libcuda.so.1"


def has_cuda_wheel() -> bool:
    """Return whether a CUDA 11 wheel of MXNet is installed."""
    return any(any(folder.glob("mxnet_cu11*.dist-info")) for folder in _folders())


def preload() -> list[str]:
    """Load the CUDA libraries in the wheels from PyPI, if MXNet's wheel is one that needs them.

    They stay out of the global namespace, so that torch and others find libraries of their own.

    Return the libraries that were loaded. A library that is in no wheel, or that fails to load, is left to the loader,
    and :func:`missing` says why.
    """
    loaded = []
    for library in LIBRARIES if has_cuda_wheel() else ():
        path = in_wheel(library)
        try:
            if path:
                ctypes.CDLL(str(path))
                loaded.append(library)
        except OSError:
            continue
    return loaded


def missing() -> dict[str, str]:
    """Return the libraries of the driver and of MXNet's CUDA wheel that do not load, each with the loader's error."""
    load_errors = {}
    for library in (DRIVER, *LIBRARIES):
        try:
            path = in_wheel(library) if library in LIBRARIES else None
            ctypes.CDLL(str(path or library))
        except OSError as error:
            load_errors[library] = str(error)
    return load_errors


def in_wheel(library: str) -> pathlib.Path | None:
    """Return the path of a library in a wheel from PyPI, or None."""
    package = LIBRARIES[library][len("nvidia-"):-len("-cu11")].replace("-", "_")
    for folder in _folders():
        path = folder / "nvidia" / package / "lib" / library
        if path.is_file():
            return path
    return None


def remedy(load_errors: dict[str, str]) -> str:
    """Return one to three sentences on what a user should do about the libraries that :func:`missing` has returned."""
    needed = [library for library in load_errors if library in LIBRARIES]
    wheels = [LIBRARIES[library] for library in needed if not in_wheel(library)]
    broken = [str(in_wheel(library)) for library in needed if in_wheel(library)]
    sentences = []
    if DRIVER in load_errors:
        sentences.append(f"{DRIVER} comes with the NVIDIA driver: install that, or MXNet without CUDA (pip uninstall "
                         "mxnet-cu117, then gluonops install-mxnet)")
    if wheels:
        sentences.append(f"Run: pip install 'gluonops[cu117]' (what is missing is in {', '.join(wheels)})")
    if broken:
        sentences.append(f"{', '.join(broken)} cannot be loaded: {load_errors[pathlib.Path(broken[0]).name]}")
    return ". ".join(sentences)


def _folders() -> list[pathlib.Path]:
    return [pathlib.Path(entry) for entry in dict.fromkeys(sys.path) if entry]
