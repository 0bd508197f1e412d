"""A folder for the Hugging Face Hub, which `sentattn.load` reads, with a model card; and its upload."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from jinja2 import UndefinedError

from sentattn.config.groups import Choices
from sentattn.config.schema import COLUMNS
from sentattn.config.types import Tree
from sentattn.data.hub import CONFIG_FILE, ENCODER_FILES, TOKENIZER_FILE, content_hash
from sentattn.errors import Fault, RunError, SettingError, UserError, first_line
from sentattn.export.card import WRITTEN, model_card
from sentattn.export.folder import VERSION_KEY, replacement, require_replaceable
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import ENCODER, Classifier, LoadedRun
from sentattn.run import CONFIG, MODEL, RESULT, Run

CARD = "README.md"
NAMES = {key.rpartition(".")[2] for key in COLUMNS} | {"classes"}
"""Settings of data that hold names of columns and labels, whatever these look like."""


def write_folder(
    run: LoadedRun,
    folder: Path,
    *,
    weights: bool = False,
    encoder: str | None = None,
    compare: str | None = None,
    push: str | None = None,
) -> list[str]:
    """Writes a finished run as a folder that loads on another machine, without paths of this one; returns warnings.

    Args:
        run: The run.
        folder: A new folder, or an earlier export, which is replaced, save for a model card that was edited.
        weights: Whether to write the files of a frozen pretrained encoder, and not its name and hash only.
        encoder: The name of that encoder on the Hub; None for the name that the run has.
        compare: A folder with runs of other settings, whose tests against this one are part of the card.
        push: The name of the model on the Hub, for its card.

    Raises:
        RunError: If the run is not finished or damaged, or the folder holds something else or cannot be written.
        SettingError: If readers would not find the encoder, or the run has none.
    """
    require_replaceable(folder, (CARD, CONFIG, RESULT, MODEL), RESULT)
    classifier = run.classifier
    try:
        result, settings, config = portable(run.result), portable(run.settings), portable(classifier.config)
        settings |= {"output_dir": "outputs", "logger": Choices.of().node("logger", "none")}
        settings["data"] |= {key: None for key in ("cache_dir", "mirror") if key in settings["data"]}
        files, notes = _place_encoder(
            run, settings, config, weights=weights, encoder=encoder, is_pushed=push is not None
        )
        with replacement(folder) as new:
            for file in files:
                (new / MODEL / ENCODER).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, new / MODEL / ENCODER / file.name)
            if files:  # of a tuned encoder it is another one, without its first weights
                config[ENCODER] = content_hash(new / MODEL / ENCODER)
            model, tokenizer, labels = classifier.model, classifier.tokenizer, classifier.labels
            Classifier(model=model, tokenizer=tokenizer, labels=labels, config=config).save(new / MODEL)
            (new / CONFIG).write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
            Run(new).write_result({**result, "settings": settings, VERSION_KEY: version("sentattn")})
            if (folder / CARD).is_file() and WRITTEN.encode() not in (folder / CARD).read_bytes():
                shutil.copyfile(folder / CARD, new / CARD)
                notes.append(f"{folder / CARD} was edited, and is kept.")
            else:
                card = model_card(run, Run(new), address=push or "USER/NAME", has_encoder=bool(files), compare=compare)
                (new / CARD).write_text(card, encoding="utf-8")
    except UserError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, UndefinedError) as error:
        raise RunError(Fault("run", "damaged", f"{run.path} cannot be exported: {error!r}.")) from error
    return notes


def portable(value: Any) -> Any:
    """Returns settings or a result in which paths of this machine are the names of their files or folders."""
    if isinstance(value, Mapping):
        is_text = {key: key in NAMES and not isinstance(inner, Mapping) for key, inner in value.items()}
        return {key: inner if is_text[key] else portable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [portable(item) for item in value]
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~", "..")) else value


def _place_encoder(
    run: LoadedRun, settings: Tree, config: Tree, *, weights: bool, encoder: str | None, is_pushed: bool
) -> tuple[list[Path], list[str]]:
    """Writes into settings under which name readers find the pretrained encoder, if there is one.

    Returns the files that are exported with it, and a warning if only this machine has the encoder.
    """
    embedding = run.classifier.model.embedding
    if not isinstance(embedding, Pretrained):
        if weights or encoder:
            message = "weights= and encoder= have no effect: the run has no pretrained encoder; leave them out."
            raise SettingError(Fault("weights" if weights else ENCODER, "no_effect", message))
        return [], []
    patterns = (ENCODER_FILES if weights else ()) if embedding.frozen else (CONFIG_FILE, TOKENIZER_FILE)
    files = [file for pattern in patterns for file in embedding.folder.glob(pattern)]
    path = Path(run.classifier.config["model"]["embedding"]["name"]).expanduser()
    only_here = path.is_dir() and not files and encoder is None
    message = (
        f"the encoder is the folder {path.resolve()}, which only this machine has: type weights=true to export its "
        "files, or encoder=USER/NAME, its name on the Hugging Face Hub."
    )
    if only_here and is_pushed:
        raise SettingError(Fault("push", "conflict", f"push= is for others, and {message}"))
    name = encoder or (str(path.resolve()) if only_here else path.name if path.is_dir() else str(portable(str(path))))
    for node in (settings["model"]["embedding"], config["model"]["embedding"]):
        node |= {"name": name} | ({"revision": None} if encoder else {})
    revision = settings["model"]["embedding"].get("revision")
    settings["data"]["tokenizer"] = config["text"]["tokenizer"] = f"{name}@{revision}" if revision else name
    return files, [message] if only_here else []


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Uploads a folder to a repository of the Hugging Face Hub, which is made if there is none; returns its address.

    Raises:
        RunError: If there is no token, the Hub cannot be reached or refuses it, or a private repository is public.
    """
    from huggingface_hub import HfApi, get_token

    kept = f"The folder is kept: {folder}."
    if get_token() is None:
        message = f"push={name} needs a token of the Hugging Face Hub: type hf auth login, or set HF_TOKEN. {kept}"
        raise RunError(Fault("push", "missing", message))
    hub = HfApi(library_name="sentattn", library_version=version("sentattn"))
    try:
        address = hub.create_repo(name, private=private or None, exist_ok=True)
        if private and not hub.model_info(name).private:
            message = f"push={name} is a public repository: type another name, or leave out private=true. {kept}"
            raise RunError(Fault("private", "conflict", message))
        message = f"Model of sentattn {version('sentattn')}"
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message=message, delete_patterns=f"{MODEL}/*")
    except UserError:
        raise
    except Exception as error:  # the Hub, its transport and its storage have no common class of errors
        message = f"push={name} failed ({type(error).__name__}: {first_line(error)}). {kept} Type the command again."
        raise RunError(Fault("push", "network", message)) from error
    return str(address)
