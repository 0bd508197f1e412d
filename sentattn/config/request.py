"""What a training command asks for: settings, typed or saved, and what is to be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sentattn import run
from sentattn.config import command_line, types
from sentattn.config.arguments import CONFIG_DIR, closest, split_folders
from sentattn.config.compose import compose, override
from sentattn.config.groups import Choices
from sentattn.config.saved import completed, read_saved
from sentattn.config.schema import TOP
from sentattn.errors import SettingError, UserError

AUTO = "auto"
OWN: dict[str, str] = {"seeds": "Count", "from": "str", "check": "bool", "resume": "str", "trust": "bool"}
"""The command's own keys with their annotations: no settings, so no run keeps them."""
ABOUT: dict[str, tuple[object, str]] = {
    "seeds": (1, "Runs to train, one after another: with the seeds from `seed` on, a run directory each."),
    "from": (
        None,
        "Whose settings to start from: a run directory, `latest`, a run's `config.yaml`, or a file with training "
        "arguments as a list under `overrides`. What is typed beside it is laid over them.",
    ),
    "check": (False, "Stop before the training: the data, the shapes, and what memory and time to expect."),
    "resume": (
        None,
        "An interrupted run directory that is continued with its own settings; `auto` continues the newest "
        "interrupted run of the settings typed, or begins one.",
    ),
    "trust": (
        False,
        "Let `from` and `resume` load classes of your own that the saved settings name; they can run any code. Those "
        "of a `--config-dir` that is typed need no trust.",
    ),
}
"""Their defaults and meaning."""
EXAMPLES = {
    "seeds": "seeds=3",
    "from": "from=DIR",
    "check": "check=true",
    "resume": "resume=DIR",
    "trust": "trust=true",
}


@dataclass(frozen=True)
class Request:
    """What is to be trained, and how.

    Attributes:
        settings: The resolved settings of the first run.
        seeds: Number of runs; each has the seed after that of the one before.
        check: Whether to stop before the training, with what is to be expected of it.
        resume: The run directory to continue, or `auto`; None begins anew.
    """

    settings: dict[str, Any]
    seeds: int = 1
    check: bool = False
    resume: str | None = None

    def runs(self) -> list[dict[str, Any]]:
        """The settings of each run."""
        first = self.settings["seed"]
        return [{**self.settings, "seed": seed} for seed in range(first, first + self.seeds)]


def read_request(arguments: Sequence[str]) -> Request:
    """Reads the arguments of a training.

    Args:
        arguments: Settings as for `compose`, and `seeds=N`, `from=DIR`, `check=true`, `resume=DIR`, `trust=true`.

    Raises:
        SettingError: With all faults, those of the command's own keys first.
        RunError: If a run directory that was named is none.
    """
    faults: list[str] = []
    own, rest = command_line.take(arguments, list(OWN))
    rest = [word for word in rest if not _is_own_misspelt(word, faults)]
    given = _read_own(own, faults)
    faults += _conflicts(given, rest)
    settings: dict[str, Any] = {}
    try:
        settings = _settings(given, rest)
    except UserError as error:
        if not faults:
            raise
        faults += error.messages
    last = settings.get("seed", 0) + given.get("seeds", 1) - 1
    if last > types.LARGEST_SEED:
        faults.append(f"seeds={given['seeds']}: the last seed would be {last}, and none is above {types.LARGEST_SEED}.")
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    return Request(settings, given.get("seeds", 1), given.get("check", False), given.get("resume"))


def read_single(arguments: Sequence[str]) -> Request:
    """Reads the arguments of one run, as `sentattn.fit` takes them.

    Raises:
        SettingError: As `read_request` does, and for `seeds` and `check`.
    """
    faults = [
        f"{word}: sentattn.fit trains one run and returns it; {instead}."
        for key, instead in (("seeds", "call it with seed=0, seed=1, ..."), ("check", "`sentattn train` has it"))
        for word in arguments
        if word.partition("=")[0] == key
    ]
    if faults:
        raise SettingError(*faults)
    return read_request(arguments)


def _read_own(words: Sequence[str], faults: list[str]) -> dict[str, Any]:
    """Returns the command's own keys; of faulty ones, those that can be read, to go on checking."""
    faults += [f"{word} has no value: type {EXAMPLES[word]}." for word in words if word in OWN]
    words = [word for word in words if word not in OWN]
    try:
        return command_line.raw_arguments(words, OWN)
    except SettingError as error:
        faults += error.messages
    readable: dict[str, Any] = {}
    for word in words:
        with suppress(SettingError):
            readable |= command_line.raw_arguments([word], OWN)
    return readable


def _is_own_misspelt(word: str, faults: list[str]) -> bool:
    """Whether a word is one of the command's own keys in another spelling; says the right one."""
    bare, equals, text = word.lstrip("-+").partition("=")
    if not word.startswith(("-", "+")) and (not equals or "." in bare or "/" in bare):
        return False
    near = closest(bare, [*OWN, *TOP, *Choices.of().groups(), "help", "cfg", CONFIG_DIR.lstrip("-")])
    if near not in OWN:
        return False
    if near == bare:
        right = f"{bare}={text}" if equals else EXAMPLES[bare]
        faults.append(f"{word}: settings are written without dashes and plus signs; type {right}.")
    else:
        faults.append(f"{word}: there is no setting {bare!r}. Did you mean {near!r}?")
    return True


def _conflicts(given: dict[str, Any], rest: Sequence[str]) -> list[str]:
    """What cannot stand beside `resume`."""
    resume = given.get("resume")
    faults = []
    if resume is not None and given.get("check"):
        faults.append(f"check=true looks at a training before it begins: leave out resume={resume}.")
    if given.get("trust") and resume in (None, AUTO) and "from" not in given:
        faults.append("trust=true has no effect without from= or resume=DIR: leave it out.")
    if resume in (None, AUTO):
        return faults
    if "from" in given:
        faults.append(f"from={given['from']} cannot stand beside resume={resume}, which has its own settings.")
    if "seeds" in given:
        faults.append(f"seeds={given['seeds']} cannot stand beside resume={resume}, which is one run.")
    typed = _without_folders(rest)[0]
    if typed:
        faults.append(
            f"resume={resume} goes on with the run's own settings, so leave out {' '.join(typed)}; "
            f"to train anew with other settings: from={resume} {' '.join(typed)}."
        )
    return faults


def _settings(given: dict[str, Any], rest: Sequence[str]) -> dict[str, Any]:
    words, folders = _without_folders(rest)
    resume, trust = given.get("resume", AUTO), given.get("trust", False)
    if resume != AUTO:
        return override(completed(run.load(resume).settings), folders, trust=trust)
    if "from" in given:
        return override(read_saved(given["from"], folders), [*folders, *words], trust=trust)
    return compose(rest)


def _without_folders(rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Parts the settings from `--config-dir FOLDER`, which names no setting."""
    words, folders = split_folders(rest)
    return words, [f"{CONFIG_DIR}={folder}" for folder in folders]
