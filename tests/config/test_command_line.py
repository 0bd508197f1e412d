"""Help.

Examples:
  none
"""

from __future__ import annotations

import ast
import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from refusals import assert_refused, fault_of, refused

from sentattn import train
from sentattn.config import command_line
from sentattn.config.compose import compose
from sentattn.config.request import read_request
from sentattn.config.schema import COMMAND_KEYS
from sentattn.errors import DataError, Fault, Interruption
from sentattn.grid import read_cells

ROOT = Path(__file__).parents[2]
KEYS = {"run": "str", "text": "str", "format": 'Literal["text", "json"]', "batch_size": "Count", "show": "bool"}


def raising(error: BaseException) -> Callable[[list[str]], None]:
    def command(arguments: list[str]) -> None:
        raise error

    return command


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_the_docstring_of_the_module(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.command(raising(ZeroDivisionError()))(["a=1", option]) == 0
    assert capsys.readouterr().out == "Help.\n\nExamples:\n  none\n"


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (DataError(Fault("", "failed", "One."), Fault("", "failed", "Two.")), 2, ["error: One.", "error: Two."]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (Interruption(2, "again."), 130, ["interrupted; again."]),
        (Interruption(15, "again."), 143, ["ended by SIGTERM; again."]),
        (OSError(errno.ENAMETOOLONG, "", "x"), 2, ["error: the name of a file or folder is too long: x"]),
    ],
)
def test_errors_have_an_exit_code_and_lines_on_standard_error(
    error: BaseException, code: int, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.command(raising(error))([]) == code
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", lines)


def test_other_exceptions_are_not_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        command_line.command(raising(ZeroDivisionError()))([])


def test_a_closed_pipe_is_no_error() -> None:
    program = (
        "import sys; from sentattn.config import command_line as c; "
        "sys.exit(c.command(lambda a: [print('x' * 99) for _ in range(9999)])([]))"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("line", ["--cfg job model=mean", "model=mean --cfg=job", "--cfg job --cfg job model=mean"])
def test_cfg_prints_the_settings_and_ends(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(line.split()) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"format": 2, **compose(["model=mean"])}


def test_cfg_shows_saved_settings_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "best.yaml"
    saved.write_text("overrides: [model=mean]")
    assert train.main([f"from={saved}", "seed=3", "--cfg", "job"]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == {"format": 2, **compose(["model=mean", "seed=3"])}
    saved.write_text(printed)
    assert read_request([f"from={saved}"]).settings == compose(["model=mean", "seed=3"])


def test_cfg_does_not_hide_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--cfg"]) == 2
    assert "--cfg" in capsys.readouterr().err
    assert train.main(["--cfg", "job", "seed=x", "modle=y"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_raw_arguments_are_taken_as_typed() -> None:
    text = 'It\'s great, but slow (10/10)! ${x} = "\u00fc"'
    given = command_line.raw_arguments([f"text={text}", "batch_size=8", "show=true", "format=json", "run=7"], KEYS)
    assert given == {"text": text, "batch_size": 8, "show": True, "format": "json", "run": "7"}


def test_the_folder_of_the_user_is_expanded_save_in_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    words = ["output_dir=~/runs", "report=~/a.html", "text=~/text"]
    given = command_line.raw_arguments(words, {"output_dir": "str", "report": "str | None", "text": "str"})
    assert given == {"output_dir": "/home/somebody/runs", "report": "/home/somebody/a.html", "text": "~/text"}
    assert command_line.raw_arguments(["~/runs", "b"], {}, "folders") == {"folders": ["/home/somebody/runs", "b"]}


def test_arguments_without_a_key() -> None:
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
        (["run=${oc.env:NOT_SET}"], "run", "type", "NOT_SET"),
        (["run=${now:%Y}"], "run", "type", 'run="$NAME"'),
        (["--text"], "--text", "unknown", "'text'"),
        (["hello"], "hello", "unknown", ""),
    ],
)
def test_faults_of_raw_arguments(words: list[str], key: str, kind: str, part: str) -> None:
    assert_refused(lambda: command_line.raw_arguments(words, KEYS), key, kind, part)


READ_A_RUN = {"run": "str", "text": "str"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run=a text=b", ["run=a", "text=b"]),
        ("a text=b", ["run=a", "text=b"]),
        ("a --config-dir conf", ["run=a", "--config-dir", "conf"]),
        ("--config-dir conf a", ["--config-dir", "conf", "run=a"]),
        ("", []),
    ],
)
def test_the_run_may_be_typed_without_its_key(line: str, expected: list[str]) -> None:
    assert command_line.run_first(line.split(), READ_A_RUN) == expected


@pytest.mark.parametrize("line", ["run=a text=This movie is amazing", "a text=This movie is amazing"])
def test_a_text_without_quotes_is_reported_with_quotes(line: str) -> None:
    fault = fault_of(lambda: command_line.run_first(line.split(), READ_A_RUN))
    assert (fault.key, fault.kind) == ("text", "unreadable")
    assert 'text="This movie is amazing"' in fault.message


@pytest.mark.parametrize("line", ["run=a b", "a b", "run=a b text=c"])
def test_two_runs_are_refused(line: str) -> None:
    assert refused(lambda: command_line.run_first(line.split(), READ_A_RUN)) == [("b", "unknown")]


def test_all_faults_of_raw_arguments_are_reported_together() -> None:
    found = refused(lambda: command_line.raw_arguments(["txt=a", "format=xml"], KEYS, required=["run", "format"]))
    assert found == [("txt", "unknown"), ("format", "range"), ("run", "missing")]


def docstring(command: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / "sentattn" / f"{command}.py").read_text(encoding="utf-8"))) or ""


def test_defaults_in_the_help_of_train_are_up_to_date() -> None:
    defaults = re.findall(r"^  ([\w.]+=\S+)  ", docstring("train"), flags=re.MULTILINE)
    assert len(defaults) >= 5
    assert compose(defaults) == compose([])


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


def test_help_and_a_misspelt_setting_need_no_slow_imports() -> None:
    program = """
import sys
from sentattn.__main__ import main
assert main(["train", "--help"]) == 0
assert "pydantic" not in sys.modules
assert main(["train", "modle=structured", "trainer.max_epoch=3"]) == 2
heavy = {"torch", "pytorch_lightning", "torchmetrics", "numpy", "wandb", "matplotlib", "sentattn.models"}
heavy &= set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.count("error: ") == 2


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({}, "GOMP_SPINCOUNT", command_line.SPIN_COUNT),
        ({"GOMP_SPINCOUNT": "7"}, "GOMP_SPINCOUNT", "7"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "GOMP_SPINCOUNT", None),
        ({}, "THP_MEM_ALLOC_ENABLE", "1"),
        ({"THP_MEM_ALLOC_ENABLE": "0"}, "THP_MEM_ALLOC_ENABLE", "0"),
    ],
)
def test_spinning_and_huge_pages_are_set_unless_the_user_has_set_them(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], name: str, expected: str | None
) -> None:
    for variable in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE"):
        monkeypatch.setenv(variable, "")  # so that what the command sets is undone as well
        monkeypatch.delenv(variable)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert command_line.command(lambda _: None)([]) == 0
    assert os.environ.get(name) == expected


def test_values_have_one_grammar() -> None:
    keys: dict[str, object] = {"check": bool, "trials": int | None, "rate": float, "tags": list[str], "name": str}
    words = ["check=True", "trials=None", "rate=1e-3", "tags=[a,'b c']", "name=None"]
    expected = {"check": True, "trials": None, "rate": 0.001, "tags": ["a", "b c"], "name": "None"}
    assert command_line.raw_arguments(words, keys) == expected
    settings = read_request(["check=False", "compile=True", "data.limit=None", "init_from=None", "tags=[a,'b c']"])
    assert (settings.check, settings.settings.compile, settings.settings.data["limit"]) == (False, True, None)
    assert (settings.settings.init_from, settings.settings.tags) == (None, ["a", "b c"])
