"""The commands and examples of the README and of the site run as they are written, or name what they need."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
import uvicorn
from encoder_files import write_encoder
from fake_jobs import InlinePool
from tiny import tiny

import sentattn
from sentattn import train
from sentattn.__main__ import COMMANDS
from sentattn.compare import __main__ as compare
from sentattn.config.compose import compose
from sentattn.data.datasets.demo import DemoSource
from sentattn.data.readers.states import open_states
from sentattn.grid import read_cells
from sentattn.jobs import pool
from sentattn.run import Run
from sentattn.sweep import search
from sentattn.sweep.config import read_plan

ROOT = Path(__file__).parent.parent
MEASUREMENTS = ("results.md", "performance.md", "poolings.md")
"""Pages whose commands take minutes to days, as they say."""
IN_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
FILES = [*(ROOT / name for name in IN_ROOT), *(ROOT / "docs").glob("*.md")]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FILES)}
GUIDES = {name: text for name, text in PAGES.items() if name not in MEASUREMENTS}
BLOCK = re.compile(r'^```bash(?: title="(?P<needs>[^"\n]*)")?\n(?P<lines>.*?)^```', flags=re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"(?:sentattn\.|examples/slurm/)(\w+)(?:\.sbatch)?")
SCRIPTS = {"ddp": "train", "sweep_array": "sweep", "sweep_ray": "sweep"}
"""Commands of the scripts of `examples/slurm/` that are not named after theirs."""
SMALL = ("logger=none", "data.limit=80", "data.batch_size=20", "trainer.max_epochs=1", "trainer.accelerator=cpu")
SHORT_SWEEP = (*SMALL, "trials=2", "slots=1")
FEW = {"trainer.max_epochs": 1, "seeds": 2, "data.folds": 2, "trials": 2, "insight": 4}
"""Numbers in place of those that are typed in a document, of epochs and trainings above all."""


class Command(NamedTuple):
    """A line of a block, and what the block's title says that it needs: empty if a test runs it."""

    words: list[str]
    needs: str

    @property
    def ours(self) -> tuple[str, list[str]] | None:
        """Name and arguments of the command of sentattn that it starts, also in a launcher or a script."""
        for position, word in enumerate(self.words):
            if name := MODULE.fullmatch(word):
                return SCRIPTS.get(name[1], name[1]), self.words[position + 1 :]
        return None


def commands(text: str) -> Iterator[Command]:
    for block in BLOCK.finditer(text):
        for line in block["lines"].replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield Command(words, block["needs"] or "")


def block(page: str, language: str, containing: str) -> str:
    [code] = [b for b in re.findall(rf"```{language}\n(.*?)```", PAGES[page], flags=re.DOTALL) if containing in b]
    return str(code)


@pytest.fixture(scope="module")
def outputs(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `structured` and one of the mean over the same encoder."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copytree(tiny_run.path, folder / "demo" / "structured" / tiny_run.path.name)
    settings = [setting for setting in tiny("model=lstm_mean") if not setting.startswith("model.attention.")]
    assert train.main([*settings, f"output_dir={folder}"]) == 0
    return folder


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trials and runs of grids train in this process, one after another."""
    monkeypatch.setattr(pool, "LocalPool", InlinePool)
    monkeypatch.setattr(search, "LocalPool", InlinePool)
    yield
    torch.set_num_threads(1)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("page", [name for name, text in GUIDES.items() if any(not c.needs for c in commands(text))])
def test_commands_run(page: str, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    shutil.copytree(outputs, tmp_path / "outputs")
    write_reviews(tmp_path)
    once = {
        tuple(command.words)
        for name, text in GUIDES.items()
        if name != page == "README.md"
        for command in commands(text)
    }
    for words, needs in commands(PAGES[page]):
        if needs or words[0] in ("make", "source") or tuple(words) in once:
            continue
        assert words[:2] == ["python", "-m"], words
        name, arguments = words[2].removeprefix("sentattn."), words[3:]
        is_sweep = name == "sweep" and not {"status", "best"} & set(arguments)
        arguments = with_defaults(arguments, SMALL if name == "train" else SHORT_SWEEP if is_sweep else ())
        module = importlib.import_module(f"sentattn.{name}")
        main = getattr(module, "main", None) or importlib.import_module(f"sentattn.{name}.__main__").main
        assert main(arguments) == 0, words


def with_defaults(arguments: list[str], defaults: tuple[str, ...]) -> list[str]:
    """Returns the arguments with small numbers, and with those defaults that they lack."""
    keys = [argument.partition("=")[0] for argument in arguments]
    small = [f"{key}={FEW[key]}" if key in FEW else typed for key, typed in zip(keys, arguments, strict=True)]
    return [*small, *(setting for setting in defaults if setting.partition("=")[0] not in keys)]


@pytest.mark.parametrize("page", [name for name, text in GUIDES.items() if any(c.needs for c in commands(text))])
def test_settings_of_other_commands_are_legal(page: str, reviews: None, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(PAGES[page]):
        if not command.needs or command.ours is None or "files above" in command.needs:
            continue
        name, arguments = command.ours
        assert command.needs.startswith("Needs "), command
        assert name in COMMANDS, command
        if name == "train" and arguments[0] == "-m":
            assert len(read_cells(arguments[1:])[0]) > 1
        elif name == "train" and "model/attention=learned_query" not in arguments:
            assert train.main([*arguments, "--cfg", "job"]) == 0, capsys.readouterr().err
        elif name == "sweep" and "status" not in arguments:
            read_plan(arguments)


def test_commands_of_guides_are_in_bash_blocks() -> None:
    for name, text in GUIDES.items():
        assert "\n```\npython -m" not in text, name


def test_every_command_is_shown() -> None:
    shown = {command.ours[0] for text in GUIDES.values() for command in commands(text) if command.ours}
    assert shown == set(COMMANDS)


@pytest.fixture
def learned_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The attention of the guide, as a user's own file and YAML outside the package."""
    (tmp_path / "learned_query.py").write_text(block("attention.md", "python", "class LearnedQuery"))
    attention = tmp_path / "my_conf" / "model" / "attention"
    attention.mkdir(parents=True)
    yaml = block("attention.md", "yaml", "_target_").replace("sentattn.models.attention.learned_query", "learned_query")
    (attention / "learned_query.yaml").write_text(yaml)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("learned_query", None)
    return ["--config-dir", str(tmp_path / "my_conf"), "model/attention=learned_query"]


def test_an_attention_in_one_file_and_one_yaml(learned_query: list[str], tmp_path: Path) -> None:
    settings = [s for s in tiny(f"output_dir={tmp_path}") if not s.startswith("model.attention.hidden")]
    assert train.main([*learned_query, *settings, "model.attention.hops=3"]) == 0
    [weights] = tmp_path.glob("demo/structured/*/model/model.safetensors")
    assert weights.stat().st_size > 0


def test_the_example_in_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = block("python.md", "python", "run.explain(")
    small = ", ".join(repr(setting) for setting in tiny() if not setting.startswith("logger"))
    names: dict[str, object] = {}
    exec(code.replace('"logger=none"', f'"logger=none", {small}'), names)  # the document's lines
    assert torch.is_tensor(torch.tensor(names["prediction"].attention))  # type: ignore[attr-defined]


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of reviews that the examples read, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_reviews(tmp_path)


def write_reviews(folder: Path) -> None:
    rows = "".join(f'"the {word} film {i}",{stars}\n' for i in range(40) for word, stars in [("good", 5), ("bad", 1)])
    for name in ("reviews.csv", "new_reviews.csv", "other.csv"):
        (folder / name).write_text(f"review,stars\n{rows}")
    for name in ("digits", "layer6", "layer12", "layer12-other"):
        sentattn.save_states(folder / f"{name}.safetensors", np.ones((4, 2, 3)), rows={"label": ["a", "b"] * 2})


def test_data_frames_in_python(reviews: None, capsys: pytest.CaptureFixture[str]) -> None:
    small = ", ".join(repr(setting) for setting in tiny("trainer.max_epochs=1") if not setting.startswith("logger"))
    names: dict[str, Any] = {"sentattn": sentattn}
    exec(block("python.md", "python", "read_csv").replace('"logger=none"', f'"logger=none", {small}'), names)
    assert list(names["frame"]) == ["review", "stars", "label", "probability_1", "probability_5"]
    assert names["metrics"].keys() >= {"test/accuracy"}


@pytest.mark.slow  # twelve trainings
def test_the_examples_for_scikit_learn_run(reviews: None, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for containing in ("joblib.dump", "GridSearchCV("):
        exec(block("sklearn.md", "python", containing).replace(", n_jobs=2", ""), names)
    assert names["search"].best_score_ >= 0.5
    assert names["pipeline"].predict(names["texts"]).shape == names["calibrated"].predict(names["texts"]).shape == (80,)
    assert Path("classifier.joblib").stat().st_size > 0


def test_predictions_of_scikit_learn_and_of_a_trainer_are_compared(reviews: None, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(block("predictions.md", r"python[^\n]*", "SGDClassifier"), names)
    assert compare.main(["table=predictions.csv", "gate=huber,logistic", "margin=50"]) == 0
    exec(block("predictions.md", r"python[^\n]*", "trainer.predict"), names)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, id2label={0: "1", 1: "5"}
    )
    rows = [{"input_ids": [1 + i % 5, 2, 3], "labels": i % 2} for i in range(40)]
    tables = []
    for setting, seed in product(("small", "smaller"), range(3)):
        torch.manual_seed(seed)
        model = transformers.BertForSequenceClassification(config)
        arguments = transformers.TrainingArguments(tmp_path / "trainer", report_to=[], use_cpu=True)
        tables.append(names["lines"](transformers.Trainer(model, arguments), rows, setting, seed))
    names["pd"].concat(tables).to_csv("trainer.csv", index=False)
    [comparison] = sentattn.leaderboard(table="trainer.csv").comparisons
    assert [pair.declared for pair in comparison.tests] == [True]
    assert comparison.settings[0].has_probabilities


def test_the_examples_of_states_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(block("states.md", r"python[^\n]*", "load_digits"), {})
    texts, labels = [row.text for row in islice(DemoSource().read("train"), 4)], ["a", "b"] * 2
    names: dict[str, Any] = {"texts": texts, "labels": labels, "name": str(write_encoder(tmp_path / "encoder"))}
    exec(block("states.md", r"python[^\n]*", "AutoTokenizer"), names)
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=8, patch_size=4
    )
    transformers.ViTModel(config).save_pretrained(tmp_path / "vision")
    transformers.ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(tmp_path / "vision")
    names |= {"images": [np.zeros((8, 8, 3), np.uint8)] * 4, "name": str(tmp_path / "vision")}
    exec(block("states.md", r"python[^\n]*", "AutoImageProcessor"), names)
    names |= {"activations": torch.zeros(4, 3, 2), "attention_mask": torch.ones(4, 3)}
    exec(block("states.md", r"python[^\n]*", "attention_mask.bool"), names)
    Path("train").mkdir()
    names |= {"total": 5, "width": 2, "rows_of_states": [np.zeros((2, 2)), np.ones((3, 2))]}
    exec(block("states.md", r"python[^\n]*", "open_memmap"), names)
    shapes = {"digits": 1797 * 64, "images": 4 * 5, "layer12": 12}
    for name, places in shapes.items():
        assert len(open_states(f"{name}.safetensors", "data.train").states_MD) == places
    assert [len(open_states(path, "data.train")) for path in ("decoder.safetensors", "train")] == [4, 2]
    assert (
        compose(["data=states", "model=states", "data.train=decoder.safetensors"])["model"]["embedding"]["size"] == 16
    )


@pytest.mark.slow
@pytest.mark.parametrize("function", ["sentattn.fit_grid(", "sentattn.search("])
def test_the_other_examples_in_python_run(function: str, tmp_path: Path) -> None:
    """In a process of its own, since those that `tests/trust` forks must have no server of trainings yet."""
    small = ", ".join(map(repr, SMALL))
    code = block("python.md", "python", function).replace("trials=20", "trials=2").replace('"logger=none"', small)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert len([*tmp_path.glob("outputs/demo/*/*/result.json")]) == (6 if function == "sentattn.fit_grid(" else 1)


def test_the_guide_to_a_trainer_of_ones_own_runs(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(outputs, tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block("python.md", "python", "pl.Trainer("), names)  # the document's lines
    before = names["module"].state_dict()["model.encoder.forwards.0.weight_hh_l0"].clone()
    assert names["metrics"].keys() >= {"test/accuracy", "test/loss"}
    exec(block("python.md", "python", "module.compute_loss("), names)
    after = names["run"].classifier.model.state_dict()["encoder.forwards.0.weight_hh_l0"]
    assert not torch.equal(before, after)


@pytest.mark.parametrize("page", ["python.md", "sklearn.md"])
def test_names_on_pages_of_the_interface_exist(page: str) -> None:
    for name, members in re.findall(
        r"^::: ([\w.]+)\n(?:.*\n)*?(?: +members: \[(.*)\]\n|\n)", PAGES[page] + "\n", flags=re.MULTILINE
    ):
        module, _, attribute = name.rpartition(".")
        shown = getattr(importlib.import_module(module), attribute)
        for member in filter(None, members.split(", ")):
            assert hasattr(shown, member) or member in inspect.get_annotations(shown), f"{name}.{member}"


@pytest.mark.parametrize("page", GUIDES)
def test_paths_and_pictures_exist(page: str) -> None:
    for path in re.findall(r"`((?:sentattn|conf|docs|outputs|examples|sweeps|benchmarks)/[\w./*]*)`", PAGES[page]):
        written_by_the_reader = "learned_query" in path or "NAME" in path or path.startswith("outputs/")
        assert written_by_the_reader or list(ROOT.glob(path)), path
    folder = ROOT if page in IN_ROOT else ROOT / "docs"
    for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[page]):
        assert (folder / path).exists(), path


def test_every_benchmark_is_named_and_run() -> None:
    runs = (ROOT / ".ci" / "bench").read_text(encoding="utf-8")
    for script in (ROOT / "benchmarks").rglob("*.py"):
        path = str(script.relative_to(ROOT))
        assert any(f"`{path}`" in text or f"{path} " in text for text in PAGES.values()), path
        assert path in runs or f"\nbench {script.stem}" in runs or script.stem == "measure", path


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    typed = {c.words[1] for text in GUIDES.values() for c in commands(text) if c.words[0] == "make"}
    for target in typed | set(re.findall(r"`make (\w+)`", "".join(PAGES.values()))):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_a_release_has_one_version_and_one_date() -> None:
    heading = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert heading
    assert heading[1] == sentattn.__version__
    assert f"version: {heading[1]}\ndate-released: {heading[2]}\n" in citation
