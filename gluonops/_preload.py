"""MXNet's CUDA wheel and the libraries it is linked against: where they come from, and how it gets to see them.

``pip install '.[cu117]'`` puts CUDA 11 into ``site-packages/nvidia``, where the loader does not look. What is
loaded already is found by its name, though, so loading the libraries first is enough. The files in the wheels find
one another. Only the standard library is used here: doctor.py runs this where the package does not import.
"""
import ctypes
import pathlib
import sys

# What libmxnet.so of mxnet-cu117 1.9.1 needs -> the wheel on PyPI that has it. A library comes after those it needs.
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
DRIVER = "libcuda.so.1"


def has_cuda_wheel():
    """Whether a CUDA 11 wheel of MXNet is installed."""
    return any(True for folder in _folders() for _ in folder.glob("mxnet_cu11*.dist-info"))


def preload():
    """Load the CUDA libraries in the wheels from PyPI, if MXNet's wheel is one that needs them.

    They stay out of the global namespace, so that torch, say, finds libraries of its own.

    Returns
    -------
    list of str
        The libraries that were loaded. One that is in no wheel is left to the loader; so is one that does not load,
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


def missing():
    """Library -> the loader's complaint, of the driver's library and all that MXNet's CUDA wheel needs."""
    complaints = {}
    for library in (DRIVER, *LIBRARIES):
        try:
            ctypes.CDLL(str(library in LIBRARIES and in_wheel(library) or library))
        except OSError as error:
            complaints[library] = str(error)
    return complaints


def in_wheel(library):
    """Where a wheel from PyPI has put a library, or None."""
    package = LIBRARIES[library][len("nvidia-"):-len("-cu11")].replace("-", "_")
    return next((path for folder in _folders() for path in [folder / "nvidia" / package / "lib" / library]
                 if path.is_file()), None)


def remedy(complaints):
    """What to do about what :func:`missing` returned: a sentence or two."""
    wheels = [LIBRARIES[library] for library in complaints if library in LIBRARIES and not in_wheel(library)]
    broken = [str(in_wheel(library)) for library in complaints if library in LIBRARIES and in_wheel(library)]
    sentences = []
    if DRIVER in complaints:
        sentences.append(f"{DRIVER} comes with the NVIDIA driver: install that, or MXNet without CUDA (pip uninstall "
                         "mxnet-cu117, then pip install mxnet==1.9.1)")
    if wheels:
        sentences.append(f"Run in the clone: pip install '.[cu117]' (what is missing is in {', '.join(wheels)})")
    if broken:
        sentences.append(f"{', '.join(broken)} cannot be loaded: {complaints[pathlib.Path(broken[0]).name]}")
    return ". ".join(sentences)


def _folders():
    return [pathlib.Path(entry) for entry in dict.fromkeys(sys.path) if entry]
