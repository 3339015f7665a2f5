"""Packaging of gluonops: ``pip install -e '.[cpu]'``, or ``make`` (see the Makefile)."""
import pathlib
import re
import runpy
import sys

if not (3, 9) <= sys.version_info[:2] <= (3, 12):
    sys.exit("gluonops needs Python 3.9 to 3.12: MXNet 1.9.1 works with NumPy 1 only, which has no wheels for a newer "
             "Python. This is Python {}.{}.".format(*sys.version_info[:2]))

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:   # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
NATIVE = runpy.run_path(str(HERE / "gluonops" / "native" / "build.py"))   # as a file: the package needs MXNet to import
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "gluonops" / "version.py").read_text(encoding="utf-8"), re.M)

# What libmxnet.so of the CUDA 11.7 wheel is linked against; gluonops/_preload.py has the files' names. The wheels begin
# with CUDA 11.7, and CUDA 12 and cuDNN 9 no longer have the interface.
CUDA11 = ["nvidia-cuda-runtime-cu11>=11.7,<12", "nvidia-cublas-cu11>=11.10,<12", "nvidia-cudnn-cu11>=8.5,<9",
          "nvidia-cufft-cu11>=10.7,<11", "nvidia-curand-cu11>=10.2,<11", "nvidia-cusolver-cu11>=11.4,<12",
          "nvidia-cusparse-cu11>=11.7,<12", "nvidia-cuda-nvrtc-cu11>=11.7,<12", "nvidia-nccl-cu11>=2.14,<3",
          "nvidia-nvtx-cu11>=11.7,<12"]

# onnx needs ml_dtypes, which needs NumPy 2 from 0.6 on.
ONNX = ["onnx>=1.15,<2", "ml_dtypes<0.6"]

EXTRAS = {
    "cpu": ["mxnet==1.9.1"],
    "cu117": ["mxnet-cu117==1.9.1", *CUDA11],
    "examples": ["scikit-learn>=1.0", "matplotlib>=3.5", "tqdm>=4.60", "pillow>=9"],
    # Data sets, metrics and drawing for detection.
    "detection": ["gluoncv>=0.10.5", "pycocotools>=2.0.6", "scikit-learn>=1.0", "matplotlib>=3.5", "tqdm>=4.60",
                  "pillow>=9"],
    "onnx": ONNX,
    "tensorboard": ["tensorboardX>=2.6"],
    "picture": ["matplotlib>=3.5", "grandalf>=0.8"],
    "test": [
        "grandalf>=0.8",
        "pytest>=7.4",
        "pytest-xdist>=3.3",
        "pytest-timeout>=2.2",
        "hypothesis>=6.80",
        "gluoncv>=0.10.5",
        *ONNX,
        "onnxruntime>=1.17",
        "scikit-image>=0.19",   # for its photographs
        "pycocotools>=2.0.6",
        # The tests build a wheel and compile the CUDA kernels; neither needs a GPU.
        "build>=1.0",
        "setuptools>=68",
        "wheel>=0.40",
        "nvidia-cuda-nvrtc-cu11==11.8.89; sys_platform == 'linux' and platform_machine == 'x86_64'",
    ],
    "dev": ["ruff>=0.6", "build>=1.0", "coverage[toml]>=7.10", "gcovr>=8.4"],
    "docs": ["sphinx>=7", "myst-parser>=3", "furo>=2024", "sphinx-copybutton>=0.5.2", "sphinx-design>=0.6",
             "latex2mathml>=3.77"],
}


class BuildPy(build_py):
    """Compiles the C++ library as well. Without a compiler the package is installed without it, and says so."""

    def run(self):
        super().run()
        folder = HERE if self.editable_mode else pathlib.Path(self.build_lib)
        native = folder / "gluonops" / "native"
        try:
            NATIVE["build"](native / "libgluonops.so", generated=native / "generated")
        except NATIVE["BuildError"] as error:
            print(f"{error}\nWARNING: gluonops is installed without its C++ library: the custom and builtin backends "
                  "work, slower on the CPU, and the native one does not. Later: python -m gluonops.native.build",
                  file=sys.stderr)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python on this kind of machine: the library calls MXNet, not Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """Has a compiled part, though none that setuptools compiles."""

    def has_ext_modules(self):
        return True


setup(
    name="gluonops",
    version=VERSION.group(1),
    description="A layer zoo for Gluon on Apache MXNet 1.9.1",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(9, 13)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # models/ lies beside the package in the repository, and inside it once installed.
    packages=[*find_packages(include=["gluonops", "gluonops.*"]), "gluonops.models",
              *(f"gluonops.models.{name}" for name in find_packages("models"))],
    package_dir={"gluonops.models": "models"},
    package_data={"": ["*.cu", "*.cuh", "*.cc", "*.h"], "gluonops.models": ["pretrained/*.params"]},
    cmdclass={"build_py": BuildPy, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
    include_package_data=False,
    # Not an entry point: that imports gluonops first, and fails where `gluonops doctor` is wanted most.
    scripts=["tools/gluonops"],
    # NumPy 1.26 is the last that MXNet 1.9.1 works with, and Python 3.12 the last that NumPy 1.26 has wheels for.
    python_requires=">=3.9,<3.13",
    install_requires=[
        "numpy>=1.21,<2",
        # MXNet imports distutils, which Python 3.12 dropped and setuptools brings back.
        "setuptools>=68; python_version >= '3.12'",
    ],
    extras_require=EXTRAS,
)
