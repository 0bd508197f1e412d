"""A folder for the Hugging Face Hub, which `sentattn.load` reads, with a model card; and its upload."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from sentattn.config.groups import Choices
from sentattn.config.schema import COLUMN_KEYS
from sentattn.data.hub import ENCODER_FILES
from sentattn.errors import Fault, RunError, SettingError, UserError, first_line
from sentattn.export import VERSION_KEY, new_folder
from sentattn.export.card import model_card
from sentattn.models.embedding import Embedding
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import ENCODER_ENTRY, Classifier, LoadedRun
from sentattn.run import CONFIG_FILE, MODEL_FOLDER, Run, yaml_text

CARD = "README.md"


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
