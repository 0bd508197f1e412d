"""The model card: its header as the Hub reads it, its content, and names that would be markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from tiny import tiny

from sentattn import fit
from sentattn.export.hub import write_folder
from sentattn.prediction.model import LoadedRun
from sentattn.run import Run, yaml_text

HOSTILE = (
    "<img src=x onerror=alert(1)> | [a](javascript:b) `c` **d** ${e} --- \n---\nlicense: mit\n# &lt; \u202e\x1b[31m"
)

TAGS = ("<code>", "<pre>", "<table>", "<tr>", "<td", "<li>", "<h1>", "<h2>", "<p>")


def card_of(run: LoadedRun, folder: Path) -> ModelCard:
    write_folder(run, folder)
    return ModelCard.load(folder / "README.md")


def html_of(card: ModelCard) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(card.text)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[LoadedRun]:
    """Three seeds of a setting, and of the same without attention, in one folder of outputs."""
    outputs = f"output_dir={tmp_path_factory.mktemp('outputs')}"
    short = [word for word in tiny("trainer.max_epochs=1", "data.limit=60", outputs) if "attention" not in word]
    names = ("feedforward", "lstm_mean")
    return [fit([*short, f"model={name}", f"seed={seed}"]) for name in names for seed in range(3)]


def test_the_header(tiny_run: LoadedRun, tmp_path: Path) -> None:
    data = card_of(tiny_run, tmp_path).data
    assert (data.library_name, data.pipeline_tag) == ("sentattn", "text-classification")
    assert {"sentattn", "attention", "structured"} <= {*data.tags}
    results = {(one.metric_type, one.dataset_split): one.metric_value for one in data.eval_results}
    metrics = tiny_run.metrics
    assert results == {("accuracy", "test"): metrics["test/accuracy"], ("f1", "test"): metrics["test/f1_macro"]}


def test_a_run_that_was_not_tested_has_its_validation_metrics(run_copy: Path, tmp_path: Path) -> None:
    result = json.loads((run_copy / "result.json").read_text())
    result["metrics"] = {name: value for name, value in result["metrics"].items() if not name.startswith("test/")}
    (run_copy / "result.json").write_text(json.dumps(result))
    card = card_of(LoadedRun(run_copy), tmp_path / "folder")
    assert {one.dataset_split for one in card.data.eval_results} == {"val"}


def test_what_a_card_says(tiny_run: LoadedRun, tmp_path: Path) -> None:
    text, result = card_of(tiny_run, tmp_path).text, tiny_run.result
    for part in (
        result["data_fingerprint"],
        result["git"],
        "Lin et al. 2017",
        "negative, positive",
        f"| parameters | {result['parameters']['total']:,} |",
        f"torch {result['versions']['torch']}",
        'sentattn.load("hf://USER/NAME")',
        "python -m sentattn.train from=hf://USER/NAME",
    ):
        assert part in text, part
    assert re.search(rf"\| accuracy \| {tiny_run.metrics['test/accuracy']:.4f} ±0\.\d{{4}} \|", text)


def test_all_seeds_of_the_setting_and_tests_against_the_runs_next_to_it(seeds: list[LoadedRun], tmp_path: Path) -> None:
    text = card_of(seeds[0], tmp_path).text
    assert re.search(r"\| test, \d+ rows \| this model \| 3 seeds \|\n", text)
    mean = sum(run.metrics["test/accuracy"] for run in seeds[:3]) / 3
    own = seeds[0].metrics["test/accuracy"]
    assert re.search(rf"\| accuracy \| {own:.4f} [^|]* \| {mean:.4f} [^|]* \|\n", text)
    [test] = re.findall(r"\n- (.*lstm\\_mean.*)", text)
    assert "feedforward" in test
    assert "3 seeds" in test


def test_without_predictions_the_metrics_are_those_of_the_result(run_copy: Path, tmp_path: Path) -> None:
    (run_copy / "predictions.parquet").unlink()
    text = card_of(LoadedRun(run_copy), tmp_path / "folder").text
    assert f"| test/accuracy | {Run(run_copy).metrics['test/accuracy']:.4f} |" in text


def test_hostile_names_are_text(run_copy: Path, tiny_run: LoadedRun, tmp_path: Path) -> None:
    """Of a label, of data, of a variant and of whatever else a result holds."""
    result = json.loads((run_copy / "result.json").read_text())
    result |= {"data": HOSTILE, "model": HOSTILE, "git": HOSTILE, "data_fingerprint": HOSTILE}
    result["versions"] |= {"torch": HOSTILE}
    (run_copy / "result.json").write_text(json.dumps(result))
    for name in ("config.yaml", "model/config.yaml"):
        settings = yaml.safe_load((run_copy / name).read_text())
        settings["model"]["name"] = HOSTILE
        (run_copy / name).write_text(yaml_text(settings))
    (run_copy / "model" / "labels.json").write_text(json.dumps([HOSTILE, "fine"]))
    card = card_of(LoadedRun(run_copy), tmp_path / "folder")
    assert card.data.get("license") is None
    assert HOSTILE in card.data.tags
    assert {one.dataset_name for one in card.data.eval_results} == {HOSTILE}
    html = html_of(card)
    assert not re.search(r"<(img|a|script|strong)\b", html)
    plain = html_of(card_of(tiny_run, tmp_path / "plain"))
    assert [html.count(tag) for tag in TAGS] == [plain.count(tag) for tag in TAGS]
    shown = "&lt;img src=x onerror=alert(1)&gt; | [a](javascript:b) `c` **d** ${e} --- --- license: mit # &amp;lt; "
    assert html.count(shown) >= 6
    assert "\u202e" not in card.text
    assert "\x1b" not in card.text
