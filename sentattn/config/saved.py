"""Settings that were written down: those of a run, or a file such as the best of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sentattn import run
from sentattn.config.compose import compose
from sentattn.config.settable import TARGET
from sentattn.errors import Fault, SettingError

OVERRIDES = "overrides"
"""A file with this key holds a list of a training's arguments; without it, it holds all settings."""


def read_saved(path: str, folders: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the settings that a path stands for.

    Args:
        path: A run directory, `latest` for the newest finished run, or a YAML file: with all settings as in a run's
            `config.yaml`, or with a list of training arguments under `overrides` and, beside it, what people should
            know, which is not read.
        folders: `--config-dir FOLDER` as it was typed: where else the arguments of such a list find choices.

    Raises:
        SettingError: If the file holds no settings, or such that there are not.
        RunError: If there is no run directory at the path.
    """
    file = Path(path)
    if not file.is_file():
        return _completed_run(run.find(path))
    loaded = _loaded(file)
    if OVERRIDES in loaded:
        return _composed(loaded[OVERRIDES], file, folders)
    return _completed_run(run.Run(file.parent)) if file.name == run.CONFIG else completed(loaded)


def _completed_run(saved: run.Run) -> dict[str, Any]:
    """Returns the settings of a run. A trial of a sweep is not tested, but a training that starts from it is."""
    settings = dict(saved.settings)
    if saved.is_trial:
        settings.pop("test", None)
    return completed(settings)


def completed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Adds what has become a setting since: its default is what an older version did."""
    settings = dict(saved)
    for key, default in compose([]).items():
        own = settings.setdefault(key, default)
        if isinstance(default, Mapping) and isinstance(own, Mapping) and TARGET not in default:
            settings[key] = {**default, **own}
    return settings


def _loaded(file: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingError(f"from={file} cannot be read as YAML: {' '.join(str(error).split())}.") from error
    groups = ("data", "model")
    if isinstance(loaded, dict) and (OVERRIDES in loaded or all(isinstance(loaded.get(g), dict) for g in groups)):
        return loaded
    raise SettingError(
        f"from={file} holds no settings of a training: it needs all of them, as a run's {run.CONFIG}, "
        f"or a list such as {OVERRIDES}: [model=structured, data=imdb]."
    )


def _composed(arguments: Any, file: Path, folders: Sequence[str]) -> dict[str, Any]:
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise SettingError(f"from={file}: {OVERRIDES} is a list of arguments such as [model=structured, data=imdb].")
    if options := [word for word in arguments if word.startswith("-")]:
        # A folder of choices can name any class, so only the user names one.
        message = f"from={file}: {OVERRIDES} holds {options[0]}; options belong on the command line."
        raise SettingError(Fault(OVERRIDES, "unsafe", message))
    try:
        return compose([*arguments, *folders])
    except SettingError as error:
        raise SettingError(*(f"from={file}: {fault}" for fault in error.messages)) from error
