"""The options of a script: groups, defaults, ranges, and configs that reproduce a run."""
import argparse
import json
import os
import re

import gluonops as gops
import pytest
from gluonops import train


@pytest.fixture
def options():
    made = train.Options("What the script does.\n\n    python script.py")
    made.add("data", "--root", help="where the data is")
    made.add("data", "--count", type=train.positive, nargs=2, default=(40, 2), help="scenes")
    made.add_training(epochs=9, batch_size=16, lr=0.01)
    made.add_run(out="out/script")
    return made


def test_help_has_groups_and_defaults(options, capsys):
    with pytest.raises(SystemExit):
        options.parse(["--help"])
    said = capsys.readouterr().out
    assert all(f"\n{group}:\n" in said for group in ("data", "training", "machine", "run"))
    words = " ".join(said.split())
    assert "(default: 9)" in words and "(default: out/script)" in words and "(default: (40, 2))" in words
    assert "0: no average (default: 0)" in words and "(default: False)" not in words
    assert "(default: None)" not in words and "    python script.py" in said
    assert words.count("--root ROOT where the data is --count") == 1


@pytest.mark.parametrize("words", [
    "--lr -1", "--lr nan", "--wd nan", "--warmup inf", "--lr-steps nan", "--lr-steps 0.5 1.5", "--seed -1",
    "--seed 5000000000", "--freeze -2", "--save-every -1", "--epochs 0", "--batch-size 0", "--threads -1",
    "--average 1.5", "--clip -1", "--count 10 0"])
def test_values_are_refused(options, capsys, words):
    """argparse does it and names the option; no traceback comes after an hour of training."""
    option, *_, value = words.split()
    with pytest.raises(SystemExit, match="2"):
        options.parse(words.split())
    assert re.search(rf"argument {option}(/--\w+)*: got '{value}'; expected ", capsys.readouterr().err)


ARGS = ["--root", "somewhere", "--count", "3", "4", "--lr-steps", "0.5", "0.75", "--freeze", "-1", "--average", "0.99",
        "--resume", "--out", "elsewhere", "--gpus", "0,1", "--tensorboard", "--lr", "1e-05"]


def test_a_long_yaml_is_refused(options, tmp_path):
    """Its parser takes many seconds for a damaged file of megabytes."""
    path = tmp_path / "config.yaml"
    path.write_text("epochs: 3\n" + "# a comment\n" * (1 << 17))
    with pytest.raises(gops.OpError, match="config.yaml has 1572874 bytes; expected at most 1048576"):
        options.parse(["--config", str(path)])


ALIASES = "\n".join(f"- &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))
INSIDE = "has lists or mappings inside the option root; expected a value or a list of values"


@pytest.mark.parametrize("name, text, why", [
    ("c.yaml", f"root:\n- &a0 [x]\n{ALIASES}", r"cannot be read: it has the alias \*a0; expected values only"),
    ("c.yaml", "root: &a [*a]", r"cannot be read: it has the alias \*a"),
    ("c.yaml", "root: " + "[" * 5000, "cannot be read: maximum recursion depth"), ("c.yaml", "root: [[a]]", INSIDE),
    ("c.json", '{"root": ' + "[" * 100_000, "cannot be read: maximum recursion depth"),
    ("c.json", '{"root": ' + "[" * 500 + "]" * 500 + "}", INSIDE), ("c.json", '{"root": {"a": 1}}', INSIDE)])
def test_values_of_a_config_that_are_refused(options, tmp_path, name, text, why):
    """They are refused at once: twelve lines of aliases would be gigabytes."""
    if name == "c.yaml":
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    (tmp_path / name).write_text(text)
    with pytest.raises(gops.OpError, match=f"{name} {why}"):
        options.parse(["--config", str(tmp_path / name)])


def test_a_huge_json_is_refused(options, tmp_path):
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(gops.OpError, match="config.json has 1099511627776 bytes; expected at most 67108864. Shorten"):
        options.parse(["--config", str(path)])


@pytest.mark.parametrize("suffix", ["results.json", "config.json", "config.yaml"])
def test_a_config_reproduces_a_run(options, tmp_path, suffix):
    """It has every option but --out and --resume, which say where; the command line takes precedence."""
    args = options.parse(ARGS)
    path = tmp_path / suffix
    if suffix == "results.json":
        train.write_results({"options": vars(args), "score": 1}, path)
    elif suffix == "config.json":
        path.write_text(json.dumps({name: value for name, value in vars(args).items() if name != "out"}))
    else:
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
        content = {name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
                   for name, value in vars(args).items() if name != "out"}
        path.write_text(yaml.safe_dump(content))
    again = options.parse(["--config", str(path)])
    same = {**vars(args), "config": str(path), "resume": None, "out": options.parse([]).out}
    assert vars(again) == {name: [*value] if isinstance(value, tuple) else value for name, value in same.items()}
    assert train.reproducible(again) == train.reproducible(args)
    changed = options.parse([f"--config={path}", "--lr", "0.5", "--out", "here"])
    assert changed.lr == 0.5 and str(changed.out) == "here" and changed.freeze == -1


@pytest.mark.parametrize("content, text", [
    (None, "there is no config .*c.json"), ("{", "c.json cannot be read"), ("[1]", "is not a mapping of options"),
    ('{"rate": 1}', "c.json has the option rate; expected one of accumulate, average")])
def test_configs_that_are_refused(options, tmp_path, content, text):
    if content is not None:
        (tmp_path / "c.json").write_text(content)
    with pytest.raises(gops.OpError, match=text):
        options.parse(["--config", str(tmp_path / "c.json")])


def test_a_config_is_checked_like_the_command_line(options, tmp_path, capsys):
    (tmp_path / "c.json").write_text('{"epochs": 0}')
    with pytest.raises(SystemExit, match="2"):
        options.parse(["--config", str(tmp_path / "c.json")])
    assert "argument --epochs: got '0'; expected a whole number from 1" in capsys.readouterr().err


def test_arguments_of_a_run(options):
    args = options.parse(["--average", "0.5"])
    given = train.run_arguments(args)
    assert given["epochs"] == 9 and given["average"] == 0.5 and given["options"]["root"] is None
    assert not {"out", "resume", "threads", "device"} & set(given["options"])


@pytest.mark.parametrize("words, rates", [
    ("--lr-schedule steps --warmup 0", {3: 0.01, 6: 0.001, 9: 0.0001}), ("--lr-schedule constant", {1: 0.005, 9: 0.01}),
    ("--lr-schedule constant --warmup-power 4", {1: 0.000625}), ("--warmup 0", {5: 0.005, 10: 0})])
def test_schedules(options, words, rates):
    schedule = train.schedule_of(options.parse(["--epochs", "5", *words.split()]), 2)
    assert {n: schedule(n) for n in rates} == pytest.approx(rates)


@pytest.mark.parametrize("size, multi_scale, text", [
    (50, None, "--size is 50; expected a multiple of 32: .*Choose 32 or 64"),
    (20, None, "Choose 32"),
    *((64, sizes, "--multi-scale is .*; expected multiples of 32, the smaller first")
      for sizes in ([64, 50], [96, 64], [50, 64]))])
def test_sizes_are_of_whole_cells(size, multi_scale, text):
    train.check_input_sizes(64, [64, 96], 32)
    with pytest.raises(gops.OpError, match=text):
        train.check_input_sizes(size, multi_scale, 32)


def test_types():
    for kind, good, bad in ((train.positive, "1", "0"), (train.natural, "0", "-1"), (train.fraction, "0.5", "2"),
                            (train.non_negative, "1e3", "x")):
        assert kind(good) == float(good)
        with pytest.raises(argparse.ArgumentTypeError, match=f"got '{bad}'; expected"):
            kind(bad)
