"""The benchmark of 8-bit networks: it runs, and judges by the fastest calls."""
from benchmarks.networks import int8


def test_peers_are_called_in_turn():
    calls = []
    runs = {name: (lambda name=name: calls.append(name)) for name in ("a", "b")}
    times = int8.measure(runs, 2)
    assert calls == ["a", "a", "b", "b"] * 2
    assert [len(seconds) for seconds in times.values()] == [2, 2]


def test_it_runs(capsys):
    assert int8.main(["--net", "small", "--turns", "1"]) == 0
    text = capsys.readouterr().out
    assert "error on held-out data, MXNet: 0.0" in text
    assert all(f"x {target.than}: " in text for target in int8.TARGETS)
