"""CUDA's libraries and the NVIDIA driver, with stubs in their places: the preload, the doctor, errors at import.

`make cuda-import-check` does the same with the real libraries.
"""
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from gluonops.runtime import cuda_libraries, driver

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUB = ROOT / "tests" / "stubs" / "libcuda.c"
doctor = importlib.import_module("gluonops.runtime.doctor")


@pytest.fixture(scope="module")
def compiler():
    command = shutil.which("gcc") or shutil.which("cc")
    return command or pytest.skip("no C compiler to make stub libraries with")


@pytest.fixture(scope="module")
def stub_driver(compiler, tmp_path_factory):
    """A folder with a libcuda.so.1 and a libnvidia-ml.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / name, STUB], check=True)
    return folder


def run(*arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return subprocess.run([sys.executable, *map(str, arguments)], env={**environment, **variables},
                          capture_output=True, encoding="utf-8")


def examined(folder, **variables):
    """Return what doctor's questions to the driver give with the stub; without MXNet, so that it is quick."""
    code = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['examine']()))"
    return json.loads(run("-c", code, driver.__file__, LD_LIBRARY_PATH=str(folder), **variables).stdout)


class TestDriver:
    def test_gpus(self, stub_driver):
        assert examined(stub_driver, STUB_GPUS="9.0 7.5", STUB_CUDA="12040") == {
            "version": "550.54.15", "cuda": "12.4", "problem": None, "gpus": [
                {"name": f"Stub GPU {i}", "capability": capability, "total_bytes": 80 * 2**30}
                for i, capability in enumerate(("9.0", "7.5"))]}

    def test_no_gpu(self, stub_driver):
        report = examined(stub_driver, STUB_CUDA="11080")
        assert report["cuda"] == "11.8" and not report["gpus"] and report["problem"] == "the driver sees no GPU"
        report = examined(stub_driver, STUB_CUINIT="100")
        assert report["problem"] == "cuInit of the driver says 100: no CUDA-capable device is detected"

    def test_no_driver(self, tmp_path, monkeypatch):
        monkeypatch.setattr(driver, "LIBRARY", "libabsent.so.1")
        report = driver.examine()
        assert report["problem"].startswith("there is no NVIDIA driver (libabsent.so.1: cannot open")
        assert (report["cuda"], report["gpus"]) == (None, [])

    def test_another_library_under_its_name(self, compiler, tmp_path):
        source = tmp_path / "empty.c"
        source.write_text("int nothing;\n")
        subprocess.run([compiler, "-shared", "-o", tmp_path / "libcuda.so.1", source], check=True)
        report = examined(tmp_path)
        assert "cuDriverGetVersion" in report["problem"] and not report["gpus"]

    @pytest.mark.parametrize("capability, text", [
        ("3.7", "nothing"), ("5.0", "MXNet's own operators; gluonops's kernels need compute capability 5.2"),
        ("5.2", "MXNet's own operators and gluonops's kernels"), ("8.9", "MXNet's own operators and gluonops's ker"),
        ("9.0", "gluonops's kernels only"), ("10.0", "gluonops's kernels only"), ("12.1", "gluonops's kernels only")])
    def test_what_works(self, capability, text):
        assert driver.works(capability).startswith(text)

    def test_a_driver_may_be_too_old_for_nvrtc(self):
        assert driver.too_old("11.7") and driver.too_old("10.2")
        assert not driver.too_old("11.8") and not driver.too_old("12.0") and not driver.too_old(None)


class TestContexts:
    """A thread in which nothing has used a GPU yet gets a context before it loads a kernel."""
    code = ("import runpy, sys, threading; make_current = runpy.run_path(sys.argv[1])['make_current']\n"
            "def work():\n    print(threading.get_native_id())\n"
            "    for device in (0, 1, 0):\n        assert make_current(device) is None\n"
            "for _ in range(2):\n    thread = threading.Thread(target=work)\n    thread.start()\n    thread.join()\n")

    def test_every_thread_gets_that_of_its_gpu(self, stub_driver, tmp_path):
        """It is made once, and becomes the thread's at every launch: a thread may go from one GPU to another."""
        done = run("-c", self.code, driver.__file__, LD_LIBRARY_PATH=str(stub_driver), STUB_GPUS="7.5 7.5",
                   STUB_LOG=str(tmp_path / "log"))
        one, other = done.stdout.split()
        made, current = "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"
        assert (tmp_path / "log").read_text().splitlines() == [
            f"{made} {one} 0", f"{current} {one} 0", f"{made} {one} 1", f"{current} {one} 1", f"{current} {one} 0",
            *(f"{current} {other} {device}" for device in (0, 1, 0))]

    @pytest.mark.parametrize("variables", [{"STUB_GPUS": "7.5 7.5"}, {"STUB_GPUS": ""}, {"STUB_CUINIT": "100"}],
                             ids=["no_context", "no_gpu", "no_cuinit"])
    def test_a_driver_that_refuses_breaks_nothing(self, stub_driver, variables):
        done = run("-c", self.code, driver.__file__, LD_LIBRARY_PATH=str(stub_driver), **variables)
        assert done.returncode == 0 and len(done.stdout.split()) == 2, done.stderr

    def test_no_driver_breaks_nothing(self, monkeypatch):
        monkeypatch.setattr(driver, "LIBRARY", "libabsent.so.1")
        assert driver.make_current(0) is None


class TestDoctor:
    gpu = {"name": "NVIDIA T4", "capability": "7.5", "total_bytes": 2**34}

    def examine(self, monkeypatch, has_cuda, **of_driver):
        mx = importlib.import_module("mxnet")
        monkeypatch.setattr(doctor.driver, "examine", lambda: {
            "version": "550.54", "cuda": "12.4", "gpus": [self.gpu], "problem": None, **of_driver})
        monkeypatch.setattr(mx.runtime.Features, "is_enabled", lambda self, name: has_cuda)
        monkeypatch.setattr(mx.context, "num_gpus", lambda: 1)
        monkeypatch.setattr("gluonops.backends.backend.has_gpu", lambda: True)   # it remembers its answer
        monkeypatch.setattr(mx.context, "gpu_memory_info", lambda i: (2**33, 2**34))
        return doctor.examine()

    def test_it_reports_a_gpu(self, monkeypatch):
        report = self.examine(monkeypatch, True)
        assert report["ok"] and report["gpus"] == [{"id": 0, **self.gpu, "works": driver.works("7.5"),
                                                    "free_bytes": 2**33}]
        text = doctor.render(report)
        assert "driver      550.54, CUDA up to 12.4\n" in text
        assert ("GPUs        0: NVIDIA T4, compute capability 7.5, 8.0 free of 16.0 GiB: MXNet's own operators and "
                "gluonops's kernels\n") in text

    def test_an_mxnet_without_cuda(self, monkeypatch):
        hints = self.examine(monkeypatch, False)["hints"]
        assert any("There is a GPU (NVIDIA T4)" in hint and "install-mxnet cu117" in hint for hint in hints)

    def test_an_old_driver(self, monkeypatch):
        hints = self.examine(monkeypatch, True, cuda="11.4")["hints"]
        assert any("CUDA up to 11.4" in hint and "Install driver 520 or newer" in hint for hint in hints)

    def test_an_mxnet_that_cannot_use_cuda(self, monkeypatch):
        mx = importlib.import_module("mxnet")

        def broken():
            raise mx.MXNetError("CUDA: Check failed\nno CUDA-capable device is detected")

        self.examine(monkeypatch, True)
        monkeypatch.setattr(mx.context, "num_gpus", broken)
        report = doctor.examine()
        assert report["ok"] and any("no CUDA-capable device is detected" in hint for hint in report["hints"])
        assert report["gpus"][0]["free_bytes"] is None and "7.5, 16.0 GiB: " in doctor.render(report)

    def test_no_gpu(self, monkeypatch):
        text = doctor.render(self.examine(monkeypatch, False, version=None, cuda=None, gpus=[],
                                          problem="there is no NVIDIA driver (absent)"))
        assert "driver      there is no NVIDIA driver (absent)\n" in text
        assert "GPUs        none: everything runs on the CPU\n" in text

    def test_the_command(self, stub_driver):
        done = run(ROOT / "tools" / "gluonops", "doctor", LD_LIBRARY_PATH=str(stub_driver), STUB_GPUS="9.0")
        assert done.returncode == 0 and done.stdout.endswith("gluonops works here.\n"), done.stderr
        assert not done.stderr
        assert "driver      550.54.15, CUDA up to 12.4" in done.stdout
        assert "0: Stub GPU 0, compute capability 9.0, 80.0 GiB: gluonops's kernels only" in done.stdout


@pytest.fixture
def site(compiler, tmp_path, monkeypatch):
    """A site-packages with a CUDA wheel's metadata and two stub libraries, one of which does not load."""
    (tmp_path / "mxnet_cu117-1.9.1.dist-info").mkdir()
    for package, library in (("cublas", "libcublas.so.11"), ("cuda_runtime", "libcudart.so.11.0")):
        folder = tmp_path / "nvidia" / package / "lib"
        folder.mkdir(parents=True)
        (tmp_path / "stub.c").write_text(f"int stub_of_{package};\n")
        subprocess.run([compiler, "-shared", f"-Wl,-soname,{library}", "-o", folder / library, tmp_path / "stub.c"],
                       check=True)
    (tmp_path / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "cudnn" / "lib" / "libcudnn.so.8").write_text("no library")
    monkeypatch.setattr(cuda_libraries, "_folders", lambda: [tmp_path])
    return tmp_path


class TestPreload:
    def test_the_cpu_wheel_needs_nothing(self, monkeypatch):
        def refused(*args):
            raise AssertionError("nothing is to be loaded")

        monkeypatch.setattr(cuda_libraries.ctypes, "CDLL", refused)
        assert not cuda_libraries.has_cuda_wheel() and cuda_libraries.preload() == []

    def test_what_is_in_wheels_is_loaded(self, site):
        """A process of its own loads it: a library stays loaded."""
        code = ("import ctypes, runpy, sys; sys.path.append(sys.argv[2])\n"
                "print(runpy.run_path(sys.argv[1])['preload']())\n"
                "ctypes.CDLL('libcublas.so.11').stub_of_cublas\n"
                "print(hasattr(ctypes.CDLL(None), 'stub_of_cublas'))")
        done = run("-S", "-c", code, cuda_libraries.__file__, site)
        assert done.stdout.splitlines() == ["['libcudart.so.11.0', 'libcublas.so.11']", "False"], done.stderr

    def test_what_is_missing_is_named(self, site, monkeypatch):
        monkeypatch.setattr(cuda_libraries, "LIBRARIES", {"libcublas.so.11": "nvidia-cublas-cu11", "libcudnn.so.8":
                                                    "nvidia-cudnn-cu11", "libgone.so.2": "nvidia-nccl-cu11"})
        monkeypatch.setattr(cuda_libraries, "DRIVER", "libabsent.so.1")
        complaints = cuda_libraries.missing()
        assert set(complaints) == {"libabsent.so.1", "libcudnn.so.8", "libgone.so.2"}
        text = cuda_libraries.remedy(complaints)
        assert "libabsent.so.1 comes with the NVIDIA driver" in text
        assert "pip install 'gluonops[cu117]' (what is missing is in nvidia-nccl-cu11)" in text
        assert re.search(r"libcudnn\.so\.8 cannot be loaded: .*(file too short|invalid ELF header)", text)

    def test_the_import_says_so(self, tmp_path):
        """A CUDA wheel of MXNet is on a machine without cuDNN."""
        if "libcudnn.so.8" not in cuda_libraries.missing():
            pytest.skip("this machine has cuDNN 8")
        (tmp_path / "mxnet_cu117-1.9.1.dist-info").mkdir()
        (tmp_path / "mxnet.py").write_text("import ctypes\nctypes.CDLL('libcudnn.so.8')\n")
        done = run(ROOT / "tools" / "gluonops", "ops", PYTHONPATH=f"{tmp_path}:{ROOT}")
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("gluonops: MXNet's CUDA wheel does not load, libcudnn.so.8: cannot open shared")
        assert "nvidia-cudnn-cu11" in done.stderr and "pip install 'gluonops[cu117]'" in done.stderr

    def test_every_wheel_is_required(self):
        """There are bounds on both sides: another major version is another interface."""
        pattern = r"(nvidia-[\w-]+-cu11)(>=[\d.]+,<\d+)"
        listed = dict(re.fullmatch(pattern, text).groups() for text in cuda_libraries.REQUIREMENTS)
        assert set(listed) == set(cuda_libraries.LIBRARIES.values())
        assert listed["nvidia-cudnn-cu11"].endswith(",<9")
