"""A folder for the Hugging Face Hub, which `sentattn.load` reads, with a model card whose texts are escaped."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.leaderboard import cell, setting_row
from sentattn.compare.runs import Setting
from sentattn.config.groups import Choices, comment, conf_dir
from sentattn.config.schema import COLUMN_KEYS
from sentattn.config.targets import label, slots
from sentattn.config.types import Node, Tree
from sentattn.console import plural
from sentattn.data.hub import ENCODER_FILES
from sentattn.errors import Fault, RunError, SettingError, UserError, first_line, visible
from sentattn.export import VERSION_KEY, new_folder
from sentattn.metrics import MAJORITY
from sentattn.models.embedding import Embedding
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import ENCODER_ENTRY, Classifier, LoadedRun
from sentattn.run import CONFIG_FILE, MODEL_FOLDER, RESULT_FILE, Run, yaml_text

CARD = "README.md"
MARKUP = re.compile(r"[\\`*_{}\[\]<>()#|&~$!:@^]")
"""Signs that Markdown, or HTML inside it, would take for markup."""


def write_folder(run: LoadedRun, folder: Path, *, weights: bool = False, address: str = "USER/NAME") -> None:
    """Writes a finished run as a folder that loads on another machine, without paths of this one.

    Args:
        run: The run.
        folder: A new folder.
        weights: Whether to write the files of a pretrained encoder, and not its name and hash only.
        address: The name of the model on the Hub, for its card.

    Raises:
        RunError: If the run is not finished or damaged, or the folder exists or cannot be written.
        SettingError: If readers would not find the encoder.
    """
    old = run.classifier
    files = _encoder_files(old.model.embedding, weights=weights)
    try:
        settings = portable(run.settings) | {"logger": Choices.of().node("logger", "none")}
        settings["data"] |= dict.fromkeys({"cache_dir", "mirror"} & settings["data"].keys())
        with new_folder(folder) as new:
            for file in files:
                (new / MODEL_FOLDER / ENCODER_ENTRY).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, new / MODEL_FOLDER / ENCODER_ENTRY / file.name)
            config = portable(old.config)
            Classifier(model=old.model, tokenizer=old.tokenizer, labels=old.labels, config=config).save(
                new / MODEL_FOLDER
            )
            (new / CONFIG_FILE).write_text(yaml_text(settings), encoding="utf-8")
            result = {**portable(run.result), "settings": settings, VERSION_KEY: version("sentattn")}
            Run(new).write_result(result)
            (new / CARD).write_text(model_card(run, settings, result, address), encoding="utf-8")
    except UserError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, UndefinedError) as error:
        raise RunError(Fault("run", "damaged", f"{run.path} cannot be exported: {error!r}.")) from error


def portable(value: Any, key: str = "") -> Any:
    """Returns settings or a result in which paths of this machine are the names of their files or folders."""
    if isinstance(value, Mapping):
        return {name: portable(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [portable(item, key) for item in value]
    is_name = f"data.{key}" in COLUMN_KEYS or key == "classes"  # of a column or a label
    is_path = isinstance(value, str) and value.startswith(("/", "~", ".."))
    return Path(value).name if is_path and not is_name else value


def _encoder_files(embedding: Embedding, *, weights: bool) -> list[Path]:
    """Returns the files of a pretrained encoder that are exported with a model; readers find the others by its name."""
    if not isinstance(embedding, Pretrained):
        return []
    if not weights and Path(embedding.name).expanduser().is_dir():
        message = f"the encoder is the folder {embedding.name}, which only this machine has: type weights=true."
        raise SettingError(Fault("weights", "missing", message))
    return [file for pattern in ENCODER_FILES for file in embedding.folder.glob(pattern)] if weights else []


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Uploads a folder to a repository of the Hub, new or not; returns its address, a `RunError` if that fails."""
    from huggingface_hub import HfApi

    hub = HfApi()
    try:
        address = hub.create_repo(name, private=private or None, exist_ok=True)
        if private and not hub.model_info(name).private:
            raise PermissionError("private=true, but the repository is public")
        hub.upload_folder(repo_id=name, folder_path=folder, delete_patterns=f"{MODEL_FOLDER}/*")
    except Exception as error:  # the Hub, its transport and its storage have no common class of errors
        reason = f"{type(error).__name__}: {first_line(error)}"
        message = f"push={name} failed ({reason}). Delete the folder {folder} to type the same command again."
        raise RunError(Fault("push", "network", message)) from error
    return str(address)


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
