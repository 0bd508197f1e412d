"""The model card of a run, `README.md` of a repository on the Hugging Face Hub, with every text escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import format_metric
from sentattn.compare.runs import Setting
from sentattn.config.groups import comment, conf_dir
from sentattn.config.targets import TARGET, label, slots
from sentattn.config.types import Tree
from sentattn.console import plural
from sentattn.errors import UserError
from sentattn.metrics import MAJORITY
from sentattn.prediction.model import LoadedRun
from sentattn.prediction.prediction import visible
from sentattn.run import RESULT, SPLITS, Run

WRITTEN = "<!-- Written by sentattn, which replaces this file. Delete this line to keep your own text. -->"
"""The line of a card without which it was edited."""
MARKUP = re.compile(r"[\\`*_{}\[\]<>()#|&~$!:@^]")
"""Signs that Markdown, or HTML inside it, would take for markup."""
ENGLISH = {"demo": None, "imdb": "stanfordnlp/imdb", "yelp": "Yelp/yelp_review_full"}
"""English data sets that are not read from the Hub, and their names on it."""


def model_card(run: LoadedRun, exported: Run, *, address: str, has_encoder: bool, compare: str | None) -> str:
    """Returns the card of a run: a header of metadata, then what it is, its metrics, cost and limits.

    Args:
        run: The run; those of its setting with other seeds are read from the folder that it is in.
        exported: Its settings and its result without paths of this machine.
        address: Its name on the Hub.
        has_encoder: Whether the files of its pretrained encoder are exported with it.
        compare: A folder with runs of other settings; the declared pairs with this one are tested.
    """
    from huggingface_hub import EvalResult, ModelCardData
    from jinja2 import Environment, PackageLoader, StrictUndefined

    settings, result = exported.settings, exported.result
    data, encoder, metrics = str(result["data"]), settings["model"]["embedding"].get("name"), result["metrics"]
    on_hub = ENGLISH.get(data) or _on_hub(settings["data"].get("dataset"))
    split = "test" if "test/accuracy" in metrics else "val"
    of_data: Tree = {"dataset_type": on_hub or data, "dataset_name": data, "dataset_split": split}
    header = ModelCardData(
        library_name="sentattn",
        pipeline_tag="text-classification",
        language="en" if data in ENGLISH else None,
        tags=["sentattn", "attention", str(result["model"])],
        datasets=[on_hub] if on_hub else None,
        base_model=_on_hub(encoder),
        metrics=["accuracy", "f1"],
        model_name=f"{label(settings)} on {data}",
        eval_results=[
            EvalResult("text-classification", **of_data, metric_type=kind, metric_name=name, metric_value=metrics[name])
            for name, kind in ((f"{split}/accuracy", "accuracy"), (f"{split}/f1_macro", "f1"))
        ],
    )
    parts = [part for part in (settings["model"], *settings["model"].values()) if isinstance(part, dict)]
    attention = conf_dir() / "model" / "attention" / f"{slots(settings)['attention']}.yaml"
    # It is Markdown: `finalize` escapes its signs and those of HTML.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("sentattn.export", ""),
        finalize=_escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    body = environment.get_template("card.md").render(
        title=f"{label(settings)} on {data}",
        attention=comment(attention) if attention.is_file() else attention.stem,
        encoder=encoder,
        has_encoder=has_encoder,
        address=address,
        own_classes=[part[TARGET] for part in parts if not part[TARGET].startswith("sentattn.")],
        run=run,
        settings=settings,
        result=result,
        evaluations=list(_evaluations(run, compare)),
        majority=MAJORITY,
    )
    return f"---\n{header.to_yaml()}\n---\n{WRITTEN}\n\n{body}\n"


def _on_hub(name: object) -> str | None:
    """Returns what is a name on the Hub with its owner, without its revision, or None."""
    return name.partition("@")[0] if isinstance(name, str) and re.match(r"[\w.-]+/", name) else None


def _escaped(value: object) -> object:
    """Returns a text on one line whose signs Markdown shows as they are; other values as they are."""
    return MARKUP.sub(r"\\\g<0>", " ".join(visible(value).split())) if isinstance(value, str) else value


def _evaluations(run: LoadedRun, compare: str | None) -> Iterator[Tree]:
    """Yields the metrics, with intervals, and the tests of a run, for each split whose predictions can be read."""
    here, key = run.path.resolve(), run.result["setting"]
    paths = [path.parent for path in sorted(here.parent.glob(f"*/{RESULT}")) if _setting(path.parent) == key]
    for split in SPLITS[::-1]:
        with suppress(UserError):
            comparisons, _ = read_comparisons([*paths, *([Path(compare)] if compare else [])], split=split)
            for comparison in comparisons:
                if this := [one for one in comparison.runs if one.path.resolve() == here]:
                    seeds = next(setting for setting in comparison.settings if setting.key == key)
                    columns = {"this model": Setting("", this, deterministic=True, ordered=comparison.ordered)}
                    columns |= {plural(len(seeds.runs), "seed"): seeds} if len(seeds.runs) > 1 else {}
                    tests = [
                        pair for pair in comparison.tests if pair.declared and key in (pair.first.key, pair.second.key)
                    ]
                    yield {
                        "title": f"{split}, {comparison.counts}",
                        "heading": ["metric", *columns],
                        "rows": [
                            [name, *(format_metric(setting, name) for setting in columns.values())]
                            for name in seeds.metrics
                        ],
                        "majority": comparison.majority,
                        "tests": [pair.message(comparison.margin) for pair in tests],
                    }


def _setting(path: Path) -> str | None:
    """Returns the hash of a run's setting, None where it has no result."""
    with suppress(UserError):
        return Run(path).result.get("setting")
    return None
