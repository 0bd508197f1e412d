from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sentattn
from sentattn.__main__ import COMMANDS, main


def test_help_has_a_line_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == main(["-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for command, what in COMMANDS.items():
        assert sum(line.split()[:1] == [command] and line.endswith(what) for line in lines) == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: python -m sentattn.{command}" in capsys.readouterr().out


def test_a_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tran", "model=mean"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert all(part in line for part in ("'tran'", "Did you mean 'train'?", ", ".join(COMMANDS)))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{sentattn.__version__}\n"


def test_arguments_and_exit_code_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "nothing"]) == 2
    assert "'nothing' cannot be listed" in capsys.readouterr().err


def test_the_package_and_its_help_import_no_torch() -> None:
    program = """
import sys, sentattn, sentattn.config.command_line, sentattn.config
from sentattn.__main__ import main
main([])
heavy = {"torch", "pytorch_lightning", "numpy", "wandb"} & set(sys.modules)
assert not heavy, heavy
assert {"fit", "fit_grid", "leaderboard", "load", "search"} <= set(sentattn.__all__)
assert {*sentattn.__all__} <= set(dir(sentattn))
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1], capture_output=True)


@pytest.mark.parametrize("name", sentattn.MODULES)
def test_functions_of_the_package(name: str) -> None:
    assert getattr(sentattn, name).__name__ == name


def test_an_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="fitt"):
        sentattn.fitt  # noqa: B018
