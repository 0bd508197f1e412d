"""The model card of a run, `README.md` of a repository on the Hugging Face Hub, with every text escaped."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import cell, setting_row
from sentattn.compare.runs import Setting
from sentattn.config.groups import comment, conf_dir
from sentattn.config.targets import label, slots
from sentattn.config.types import Node, Tree
from sentattn.console import plural
from sentattn.errors import UserError
from sentattn.metrics import MAJORITY
from sentattn.prediction.model import LoadedRun
from sentattn.prediction.prediction import visible
from sentattn.run import RESULT_FILE

MARKUP = re.compile(r"[\\`*_{}\[\]<>()#|&~$!:@^]")
"""Signs that Markdown, or HTML inside it, would take for markup."""


def model_card(run: LoadedRun, settings: Node, result: Node, address: str) -> str:
    """Returns the card of a run: a header of metadata, then what it is, its metrics, cost and limits.

    Its settings and its result are without paths of this machine; the address is its name on the Hub. The runs next to
    it, `outputs/DATA/*/*`, are its other seeds and those that it is tested against.
    """
    from huggingface_hub import EvalResult, ModelCardData
    from jinja2 import StrictUndefined, Template

    data, encoder, metrics = str(result["data"]), settings["model"]["embedding"].get("name"), result["metrics"]
    split = "test" if "test/accuracy" in metrics else "val"
    title, on_hub = f"{label(settings)} on {data}", _on_hub(settings["data"].get("dataset"))
    header = ModelCardData(
        library_name="sentattn",
        pipeline_tag="text-classification",
        tags=["sentattn", "attention", str(result["model"])],
        datasets=[on_hub] if on_hub else None,
        base_model=_on_hub(encoder),
        model_name=title,
        eval_results=[
            EvalResult(
                "text-classification", on_hub or data, data, kind, metrics[f"{split}/{name}"], dataset_split=split
            )
            for name, kind in (("accuracy", "accuracy"), ("f1_macro", "f1"))
        ],
    )
    attention = conf_dir() / "model" / "attention" / f"{slots(settings)['attention']}.yaml"
    source = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    body = Template(source, finalize=_escaped, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).render(
        title=title,
        attention=comment(attention) if attention.is_file() else attention.stem,
        encoder=encoder,
        classifier=run.classifier,
        settings=settings,
        result=result,
        **_evaluation(run, split),
    )
    return f"---\n{header.to_yaml()}\n---\n\n{body}\n".replace("USER/NAME", address)


def _on_hub(name: str | None) -> str | None:
    """Returns what is a name on the Hub with its owner, without its revision, or None."""
    return name.partition("@")[0] if name and re.match(r"[\w.-]+/", name) and not Path(name).exists() else None


def _escaped(value: object) -> object:
    """Returns a text on one line whose signs Markdown shows as they are; other values as they are."""
    return MARKUP.sub(r"\\\g<0>", " ".join(visible(value).split())) if isinstance(value, str) else value


def _evaluation(run: LoadedRun, split: str) -> Tree:
    """Returns metrics of a run and of all its seeds, and its tests; as stored if its predictions cannot be read."""
    here, key = run.path.resolve(), run.result["setting"]
    paths = [here, *(file.parent for file in here.parent.parent.glob(f"*/*/{RESULT_FILE}"))]
    with suppress(UserError):
        for comparison in read_comparisons(paths, split=split)[0]:
            if this := [run for run in comparison.runs if run.path.resolve() == here and not run.folds]:
                [seeds] = [setting for setting in comparison.settings if setting.key == key]
                model = Setting("", this, deterministic=True, ordered=comparison.ordered)
                of_model, of_seeds = setting_row(model), setting_row(seeds)
                rows = [[name, cell(of_model, name), cell(of_seeds, name)] for name in seeds.metrics]
                tests = [pair for pair in comparison.tests if pair.declared]
                return {
                    "heading": [f"{split}, {comparison.counts}", "this model", plural(len(seeds.runs), "seed")],
                    "rows": [*rows, [MAJORITY, f"{comparison.majority:.4f}", ""]],
                    "tests": [p.message(comparison.margin) for p in tests if key in (p.first.key, p.second.key)],
                }
    stored = {name: f"{value:.4f}" for name, value in run.metrics.items() if name.startswith(f"{split}/")}
    return {"heading": ["metric", "this model"], "rows": stored.items(), "tests": []}
