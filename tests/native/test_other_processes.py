"""gluonops/native/other_processes.cc, which says whether other processes use the processors."""
import pathlib
import subprocess
import sys

import gluonops
import pytest
from gluonops.native import build

HERE = pathlib.Path(__file__).parent


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/stat")
def test_what_others_use(tmp_path):
    try:
        compiler = build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    program, package = tmp_path / "check", pathlib.Path(gluonops.__file__).parent
    subprocess.run([*compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", str(package),
                    str(HERE / "other_processes_check.cc"), "-o", str(program)], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    assert printed == ["1243", "2", "5", "111111", "1"]
