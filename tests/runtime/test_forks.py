"""A process that forks while MXNet computes: neither waits for ever nor is it aborted, and an error is said."""
from __future__ import annotations

import fresh
import pytest

FORKS = {
    "fork": "os.waitpid(os.fork() or os._exit(0), 0)",
    "multiprocessing": "p = multiprocessing.get_context('fork').Process(target=int); p.start(); p.join()",
    # With preexec_fn it forks on every Python, without it before Python 3.10.
    "subprocess": "subprocess.run(['true'], check=True)",
    "subprocess with preexec_fn": "subprocess.run(['true'], check=True, preexec_fn=int)",
}
SLOW = """
import gluonops, mxnet as mx, multiprocessing, os, subprocess, sys, time

class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        time.sleep({seconds})
        import wave      # takes the lock of Python's imports
        if {fails}:
            raise ValueError("the slow one failed")
        self.assign(out_data[0], req[0], in_data[0] * 2)

@mx.operator.register("slow")
class SlowProperties(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Slow()
"""
FORKING = """
for _ in range({times}):
    y = mx.nd.Custom(mx.nd.ones((2,)), op_type="slow")
    {fork}
    y = mx.nd.Custom(y, op_type="slow") + 1
print({name!r}, y.asnumpy())
"""


@pytest.mark.parametrize("seconds, times", [(0.2, 1), (0, 10)], ids=["computes", "begins"])
def test_a_custom_op_that_is_not_finished(seconds, times):
    """MXNet waited for it with Python's lock, which it needs; or took its thread away before it had begun.

    One process forks in every way. What it has printed says which one stopped it.
    """
    code = "".join(FORKING.format(times=times, fork=fork, name=name) for name, fork in FORKS.items())
    done = fresh.python("-c", SLOW.format(seconds=seconds, fails=False) + code)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"{name} [5. 5.]" for name in FORKS]), done.stderr


@pytest.mark.parametrize("operator", ["mx.nd.linalg.potrf(-mx.nd.eye(2))",
                                      "mx.nd.Custom(mx.nd.ones(2), op_type='slow')"])
def test_an_operator_that_failed(operator):
    """MXNet aborted the process: its error left the handler of the fork, where nothing can catch it."""
    code = SLOW.format(seconds=0, fails=True) + f"y = {operator}\n{FORKS['fork']}\nprint('goes on')"
    done = fresh.python("-c", code)
    assert done.returncode == 0 and done.stdout.endswith("goes on\n"), done.stderr
    assert "an operator had failed before this process forked, and nobody had read its result" in done.stderr
    assert "Call mx.nd.waitall() before the fork" in done.stderr
