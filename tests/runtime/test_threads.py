"""The number of threads: chosen from the machine, after the user's own settings, in fresh processes."""
import concurrent.futures
import json
import os
import subprocess
import sys

import fresh
import gluonops as gops
import imported
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.runtime import threads
from imported import settings

PROCESSORS = range(8)
# Prints what a process decides that loads libgomp itself, how many threads that has, and which variables are still set.
# `import gluonops` has MXNet load it, which takes more than a second: imported.py shows the same of such a process.
DECIDES = """
import ctypes, json, os, sys, types
{first}
package = sys.modules["gluonops"] = types.ModuleType("gluonops")
package.__path__ = [{package!r}]
from gluonops.runtime import threads
with threads.chosen_environment():
    libgomp = ctypes.CDLL("libgomp.so.1")
print(json.dumps({{**threads.examine(), "libgomp": libgomp.omp_get_max_threads(),
                  "environment": [name for name in {names} if name in os.environ]}}))
"""


def machine(root, siblings=None, groups="", **files):
    """Return a folder with the files of a system: siblings of processors, the process's cgroups, and their files."""
    for processor in PROCESSORS:
        text = siblings(processor) if siblings else str(processor)
        write(root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list", text)
    write(root / "proc/self/cgroup", groups)
    for path, text in files.items():
        write(root / "sys/fs/cgroup" / path, text)
    return root


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def report_of(first="", prefix=(), **environment):
    """Return what a process of its own reports."""
    code = DECIDES.format(first=first, names=threads.COUNTS + threads.WAITING,
                          package=os.path.dirname(gops.__file__))
    process = subprocess.run([*prefix, sys.executable, "-c", code], env={**settings(), **environment},
                             check=True, capture_output=True, text=True)
    return json.loads(process.stdout), process.stderr


@pytest.fixture
def eight_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(PROCESSORS), raising=False)


@pytest.mark.usefixtures("eight_processors")
class TestUsableCores:
    def test_every_processor_is_a_core(self, tmp_path):
        assert threads.usable_cores(machine(tmp_path)) == 8

    def test_hyper_threads_count_once(self, tmp_path):
        assert threads.usable_cores(machine(tmp_path, lambda processor: f"{processor % 4},{processor % 4 + 4}")) == 4

    def test_affinity(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 6}, raising=False)
        assert threads.usable_cores(machine(tmp_path, lambda processor: f"{processor % 4},{processor % 4 + 4}")) == 2

    def test_a_system_that_says_nothing(self, tmp_path):
        assert threads.usable_cores(tmp_path) == 8

    @pytest.mark.parametrize("quota, cores", [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1),
                                              ("1600000 100000", 8), ("300000", 3)])
    def test_quota_of_version_2(self, tmp_path, quota, cores):
        root = machine(tmp_path, groups="0::/user/job", **{"user/job/cpu.max": quota})
        assert threads.usable_cores(root) == cores

    def test_quota_of_a_group_above(self, tmp_path):
        root = machine(tmp_path, groups="0::/user/job",
                       **{"user/job/cpu.max": "max 100000", "user/cpu.max": "400000 100000"})
        assert threads.usable_cores(root) == 4

    def test_a_path_that_only_the_host_has(self, tmp_path):
        root = machine(tmp_path, groups="0::/docker/0123", **{"cpu.max": "200000 100000"})
        assert threads.usable_cores(root) == 2

    @pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
    @pytest.mark.parametrize("quota, cores", [("-1", 8), ("350000", 3)])
    def test_quota_of_version_1(self, tmp_path, mount, quota, cores):
        root = machine(tmp_path, groups="5:memory:/job\n4:cpu,cpuacct:/job",
                       **{f"{mount}/job/cpu.cfs_quota_us": quota, f"{mount}/job/cpu.cfs_period_us": "100000"})
        assert threads.usable_cores(root) == cores

    @pytest.mark.parametrize("quota", ["", "max", "many 100000", "100000 many", "100000 0", "-5 100000"])
    @pytest.mark.parametrize("groups", ["0::/job", "4:cpu:/job", "no group at all", "4:cpu", ":", "0::/a\0b"])
    def test_what_is_no_quota_is_no_limit(self, tmp_path, groups, quota):
        files = dict.fromkeys(("job/cpu.max", "cpu/job/cpu.cfs_quota_us", "cpu/job/cpu.cfs_period_us"), quota)
        assert threads.usable_cores(machine(tmp_path, groups=groups, **files)) == 8

    @pytest.mark.parametrize("quota", [b"\xff", b"100000 \xff"])
    def test_a_quota_that_is_no_text(self, tmp_path, quota):
        root = machine(tmp_path, groups="0::/job", **{"job/cpu.max": ""})
        (root / "sys/fs/cgroup/job/cpu.max").write_bytes(quota)
        assert threads.usable_cores(root) == 8

    def test_a_quota_of_nothing(self, tmp_path):
        """There is one thread, at least."""
        assert threads.usable_cores(machine(tmp_path, groups="0::/job", **{"job/cpu.max": "0 100000"})) == 1


class TestFreshProcess:
    def test_as_it_comes(self):
        report, printed = imported.report()
        report = report["threads"]
        cores = threads.usable_cores()
        assert report["cores"] == report["chosen"] == report["libgomp"] == cores
        assert report["native"] in (cores, None)
        assert report["environment"] == [] and report["problems"] == []
        assert f"GOMP_SPINCOUNT = '{threads.SPIN_COUNT}'" in printed

    def test_one_processor_and_no_output(self):
        """test_cuda_install.py sees that the whole import prints nothing."""
        report, printed = report_of(prefix=["taskset", "-c", str(min(os.sched_getaffinity(0)))])
        assert report["chosen"] == report["libgomp"] == 1
        assert printed == ""

    def test_the_user_decides(self):
        """The tests of small calls below see that the native operators have as many threads."""
        report, printed = report_of(OMP_NUM_THREADS="3", GOMP_SPINCOUNT="77", OMP_DISPLAY_ENV="verbose")
        assert report["chosen"] is None and report["reason"] == "OMP_NUM_THREADS=3"
        assert report["libgomp"] == 3
        assert "GOMP_SPINCOUNT = '77'" in printed

    def test_switched_off(self):
        report, printed = report_of(GLUONOPS_TUNE_THREADS="0", OMP_DISPLAY_ENV="verbose")
        assert report["chosen"] is None and report["reason"] == "GLUONOPS_TUNE_THREADS=0"
        assert f"GOMP_SPINCOUNT = '{threads.SPIN_COUNT}'" not in printed

    def test_after_mxnet(self):
        code = "import json, gluonops\nfrom gluonops.runtime import threads\nprint(json.dumps(threads.examine()))"
        report = json.loads(fresh.python("-c", code, env=settings()).stdout)   # it has imported MXNet
        assert report["chosen"] is None and "Import gluonops first" in report["problems"][0]

    def test_after_another_package_that_loaded_libgomp(self):
        report, _ = report_of('ctypes.CDLL("libgomp.so.1")')
        assert report["chosen"] == threads.usable_cores()
        assert "libgomp.so.1 was loaded before gluonops" in report["problems"][0]


@pytest.mark.skipif(not native.loaded(), reason="the native library is not built")
class TestTuneThreads:
    @pytest.fixture(autouse=True)
    def restored(self):
        before = native.threads()
        yield
        native.set_threads(before)

    @pytest.mark.parametrize("count", [1, 2, 3, 8])
    def test_results_do_not_depend_on_it(self, count):
        data = mx.nd.array(np.random.RandomState(0).randn(301, 2003))
        assert gops.tune_threads(1) == 1
        alone = gops.ops.softmax(data).asnumpy()
        assert gops.tune_threads(count) == count
        np.testing.assert_array_equal(gops.ops.softmax(data).asnumpy(), alone)

    def test_from_several_threads_at_once(self):
        data = [mx.nd.array(np.random.RandomState(seed).randn(200, 2003)) for seed in range(4)]
        expected = [gops.ops.softmax(each).asnumpy() for each in data]
        gops.tune_threads(4)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                results = pool.map(lambda each: gops.ops.softmax(each).asnumpy(), data)
                for result, right in zip(results, expected):
                    np.testing.assert_array_equal(result, right)

    @pytest.mark.parametrize("count", [0, -1, 4097, True, 1.5, "2"])
    def test_refusals(self, count):
        with pytest.raises(gops.OpError, match="expected an integer from 1 to 4096"):
            gops.tune_threads(count)


# Prints how many threads the first calls added, and the processor's seconds of half a second without calls.
CALLS = """
import contextlib, os, time
import gluonops as gops
import mxnet as mx
data = mx.nd.ones({shape})
mx.nd.abs(data).wait_to_read()
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    with mx.autograd.record() if {recorded} else contextlib.nullcontext():
        gops.ops.abs(data).wait_to_read()
added = len(os.listdir("/proc/self/task")) - before
time.sleep(0.1)
start = time.process_time()
time.sleep(0.5)
print(added, time.process_time() - start)
"""


@pytest.mark.skipif(not native.loaded(), reason="the native library is not built")
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
@pytest.mark.parametrize("count, recorded, helpers", [("1", True, 0), ("2", True, 1), ("8", True, 1), ("2", False, 0)])
def test_small_calls_of_the_engine_keep_one_helper_awake_and_then_it_sleeps(count, recorded, helpers):
    """MXNet's engine computes calls that are recorded. The calling thread computes the others, and needs no helper."""
    code = CALLS.format(shape=(4, 4), recorded=recorded)
    process = fresh.python("-c", code, env={**settings(), "OMP_NUM_THREADS": count})
    added, seconds = process.stdout.split()
    assert int(added) == helpers
    assert float(seconds) < 0.05


@pytest.mark.skipif(not native.loaded(), reason="the native library is not built")
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
def test_a_helper_that_cannot_leave_the_callers_processor_sleeps_too():
    one_processor = f"import os\nos.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
    process = fresh.python("-c", one_processor + CALLS.format(shape=(600, 1000), recorded=True),
                           env={**settings(), "OMP_NUM_THREADS": "2"})
    added, seconds = process.stdout.split()
    assert int(added) == 1
    assert float(seconds) < 0.05
