"""Help.

Examples:
  none
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sentattn import train
from sentattn.config import command_line
from sentattn.config.compose import compose
from sentattn.config.schema import COMMAND_KEYS
from sentattn.errors import DataError, Interruption, SettingError
from sentattn.grid.cells import read_cells

ROOT = Path(__file__).parents[2]
KEYS = {"run": "str", "text": "str", "format": 'Literal["text", "json"]', "batch_size": "Count", "show": "bool"}


def _nothing(arguments: list[str]) -> None:
    """A command that does nothing."""


def _faulty(arguments: list[str]) -> None:
    raise DataError("One thing.", "Another thing.")


def _interrupted(arguments: list[str]) -> None:
    raise KeyboardInterrupt


def test_a_command_that_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(_nothing, []) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_the_docstring_of_the_commands_module(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(_faulty, ["a=1", option]) == 0
    assert capsys.readouterr().out == "Help.\n\nExamples:\n  none\n"


def test_each_fault_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(_faulty, []) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["error: One thing.", "error: Another thing."])


def test_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(_interrupted, []) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_of_ours_is_no_fault_of_the_users() -> None:
    def command(arguments: list[str]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command_line.run(command, [])


def test_a_reader_that_goes_away_is_no_fault() -> None:
    program = (
        "import sys; from sentattn.config import command_line as c; "
        "sys.exit(c.run(lambda a: [print('x' * 99) for _ in range(9999)], []))"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("line", ["--cfg job model=mean", "model=mean --cfg=job", "--cfg job --cfg job model=mean"])
def test_cfg_prints_the_settings_and_ends(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(line.split()) == 0
    assert yaml.safe_load(capsys.readouterr().out) == compose(["model=mean"])


def test_cfg_shows_saved_settings_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "best.yaml"
    saved.write_text("overrides: [model=mean]")
    assert train.main([f"from={saved}", "seed=3", "--cfg", "job"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == compose(["model=mean", "seed=3"])


def test_cfg_does_not_hide_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--cfg"]) == 2
    assert "--cfg" in capsys.readouterr().err
    assert train.main(["--cfg", "job", "seed=x", "modle=y"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(("number", "code", "said"), [(2, 130, "interrupted"), (15, 143, "ended by SIGTERM")])
def test_a_signal_ends_a_command_with_its_advice(
    number: int, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(arguments: list[str]) -> None:
        raise Interruption(number, "type it again.")

    assert command_line.run(command, []) == code
    assert capsys.readouterr().err == f"{said}; type it again.\n"


def test_raw_arguments_take_texts_as_typed() -> None:
    text = 'It\'s great, but slow (10/10)! ${x} = "\u00fc"'
    given = command_line.raw_arguments([f"text={text}", "batch_size=8", "show=true", "format=json", "run=7"], KEYS)
    assert given == {"text": text, "batch_size": 8, "show": True, "format": "json", "run": "7"}


@pytest.mark.parametrize("text", ["7", "null", "true", "--help", "=", "a=b"])
def test_a_text_is_never_anything_else(text: str) -> None:
    assert command_line.raw_arguments([f"text={text}"], KEYS) == {"text": text}


def test_words_without_a_key() -> None:
    given = command_line.raw_arguments(["outputs/a=b/c", "run=x", "second"], KEYS, "runs")
    assert given == {"run": "x", "runs": ["outputs/a=b/c", "second"]}
    assert command_line.raw_arguments([], KEYS, "runs") == {"runs": []}


@pytest.mark.parametrize(
    ("words", "key", "kind", "part"),
    [
        (["txt=a"], "txt", "unknown", "Did you mean 'text'?"),
        (["format=xml"], "format", "range", "text or json"),
        (["batch_size=0"], "batch_size", "range", "an integer >= 1"),
        (["batch_size=many"], "batch_size", "type", "an integer >= 1"),
        (["text="], "text", "missing", ""),
        (["text=a", "text=b"], "text", "conflict", "as a and as b"),
        (["run=${oc.env:RUN}"], "run", "type", "or $HOME"),
        (["--text"], "--text", "unknown", "'text'"),
        (["hello"], "hello", "unknown", ""),
    ],
)
def test_faults_of_raw_arguments(words: list[str], key: str, kind: str, part: str) -> None:
    with pytest.raises(SettingError) as caught:
        command_line.raw_arguments(words, KEYS)
    (fault,) = caught.value.faults
    assert (fault.key, fault.kind) == (key, kind)
    assert part in fault.message


READ_A_RUN = {"run": "str", "text": "str"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run=a text=b", ["run=a", "text=b"]),
        ("a text=b", ["run=a", "text=b"]),
        ("run=a --config-dir conf data=x", ["run=a", "--config-dir", "conf", "data=x"]),
        ("a --config-dir conf", ["run=a", "--config-dir", "conf"]),
        ("--config-dir conf a", ["--config-dir", "conf", "run=a"]),
        ("", []),
    ],
)
def test_the_run_may_be_typed_without_its_key(line: str, expected: list[str]) -> None:
    assert command_line.run_first(line.split(), READ_A_RUN) == expected


@pytest.mark.parametrize("line", ["run=a text=This movie is amazing", "a text=This movie is amazing"])
def test_a_text_without_quotes_is_refused_with_the_quotes(line: str) -> None:
    with pytest.raises(SettingError) as caught:
        command_line.run_first(line.split(), READ_A_RUN)
    [fault] = caught.value.faults
    assert (fault.key, fault.kind) == ("text", "unreadable")
    assert 'text="This movie is amazing"' in fault.message


def test_two_runs_are_refused() -> None:
    for line in ("run=a b", "a b", "run=a b text=c"):
        with pytest.raises(SettingError) as caught:
            command_line.run_first(line.split(), READ_A_RUN)
        assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("b", "unknown")]


def test_all_faults_of_raw_arguments_at_once() -> None:
    with pytest.raises(SettingError) as caught:
        command_line.raw_arguments(["txt=a", "format=xml"], KEYS, required=["run", "format"])
    assert len(caught.value.messages) == 3
    assert caught.value.messages[-1] == "run is missing: type run=RUN."


def test_take_parts_the_arguments() -> None:
    assert command_line.take(["run=a", "data=imdb", "runs=b"], ["run"]) == (["run=a"], ["data=imdb", "runs=b"])


def docstring(command: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / "sentattn" / f"{command}.py").read_text(encoding="utf-8"))) or ""


def test_the_defaults_in_the_help_of_train_are_true() -> None:
    told = re.findall(r"^  ([\w.]+=\S+)  ", docstring("train"), flags=re.MULTILINE)
    assert len(told) >= 5
    assert compose(told) == compose([])


def test_the_examples_in_the_help_of_train_compose() -> None:
    examples = re.findall(r"^  python -m sentattn\.train ?(.*)$", docstring("train"), flags=re.MULTILINE)
    assert len(examples) >= 3
    for example in examples:
        words = shlex.split(example)
        if words[:1] == ["-m"]:
            assert len(read_cells(words[1:])[0]) > 1
            continue
        own, settings = command_line.take(words, COMMAND_KEYS)
        compose(settings)
        assert set(command_line.raw_arguments(own, COMMAND_KEYS)) == {word.partition("=")[0] for word in own}


def test_a_misspelt_setting_is_reported_without_torch() -> None:
    program = """
import sys
from sentattn.__main__ import main
assert main(["train", "modle=structured", "trainer.max_epoch=3"]) == 2
heavy = {"torch", "pytorch_lightning", "torchmetrics", "numpy", "wandb", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.count("error: ") == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, command_line.SPIN_COUNT), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, None)],
)
def test_waiting_threads_spin_briefly_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE"):
        monkeypatch.setenv(name, "")  # so that what the command sets is undone as well
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert command_line.run(lambda _: None, []) == 0
    assert os.environ.get("GOMP_SPINCOUNT") == expected


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("0", "0")])
def test_tensors_lie_in_huge_pages_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", given or "")
    if given is None:
        monkeypatch.delenv("THP_MEM_ALLOC_ENABLE")
    monkeypatch.setenv("GOMP_SPINCOUNT", command_line.SPIN_COUNT)
    assert command_line.run(lambda _: None, []) == 0
    assert os.environ.get("THP_MEM_ALLOC_ENABLE") == expected
