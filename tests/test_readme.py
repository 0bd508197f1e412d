"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from tiny import tiny

from sentattn import train
from sentattn.__main__ import COMMANDS
from sentattn.config import command_line
from sentattn.config.compose import compose
from sentattn.config.request import TYPES
from sentattn.errors import SettingError
from sentattn.sweep.cells import read_cells

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    [found] = [b for b in re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL) if containing in b]
    return str(found)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The README's attention, as a user's own file and YAML outside the package."""
    (tmp_path / "query.py").write_text(block("python", "class Query"))
    attention = tmp_path / "my_conf" / "model" / "attention"
    attention.mkdir(parents=True)
    yaml = block("yaml", "_target_").replace("sentattn.models.attention.query", "query")
    (attention / "query.yaml").write_text(yaml)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("query", None)
    return ["--config-dir", str(tmp_path / "my_conf"), "model/attention=query"]


def test_an_attention_in_one_file_and_one_yaml(query: list[str], tmp_path: Path) -> None:
    settings = [s for s in tiny(f"output_dir={tmp_path}") if not s.startswith("model.attention.hidden")]
    assert train.main([*query, *settings, "model.attention.hops=3"]) == 0
    [weights] = tmp_path.glob("demo/structured/*/model/model.safetensors")
    assert weights.stat().st_size > 0


def test_its_misspelt_key_is_refused_with_the_right_spelling(query: list[str]) -> None:
    with pytest.raises(SettingError, match="hops"):
        compose([*query, "model.attention.hop=3"])


def test_its_values_are_checked(query: list[str]) -> None:
    with pytest.raises(SettingError, match=r"model\.attention\.hops must be an integer >= 1, got 0"):
        compose([*query, "model.attention.hops=0"])


def test_the_lines_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = block("python", "sentattn.fit(")
    small = ", ".join(repr(setting) for setting in tiny() if not setting.startswith("logger"))
    names: dict[str, object] = {}
    exec(code.replace('"logger=none"', f'"logger=none", {small}'), names)  # the README's own lines
    assert torch.is_tensor(torch.tensor(names["prediction"].attention))  # type: ignore[attr-defined]


def test_every_command_exists_and_its_settings_are_legal() -> None:
    lines = re.findall(
        r"^(?:python|torchrun --nproc_per_node=8) -m sentattn\.(\w+) *([^#\n]*)", README, flags=re.MULTILINE
    )
    assert {command for command, _ in lines} == set(COMMANDS)
    for command, arguments in lines:
        if command == "train" and arguments.startswith("-m "):
            assert len(read_cells(arguments.split()[1:])[0]) > 1
        elif command == "train":
            own, settings = command_line.take(arguments.split(), list(TYPES))
            compose(settings)
            assert set(command_line.raw_arguments(own, TYPES)) == {word.partition("=")[0] for word in own}


def test_every_room_named_exists() -> None:
    for path in re.findall(r"`((?:sentattn|conf|docs|outputs)/[\w./*]*)`", README):
        made_by_the_reader = "query" in path
        assert made_by_the_reader or list(ROOT.glob(path)), path


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
