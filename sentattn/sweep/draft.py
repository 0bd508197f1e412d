"""The command line of a sweep, laid key by key over the file that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentattn.config import types
from sentattn.config.arguments import CONFIG_DIR, Faults, closest, split_folders
from sentattn.config.groups import Choices
from sentattn.config.schema import TOP
from sentattn.sweep import keys
from sentattn.sweep.grammar import is_range
from sentattn.sweep.sweep_file import Draft, read_file

DEFAULT = "default"


def read(arguments: Sequence[str], faults: Faults) -> tuple[Draft, Choices]:
    """Reads the command line on top of the sweep file that it names; a bare one names `default`."""
    words, folders = split_folders(arguments)
    choices = Choices.of(*folders)
    named = [word.partition("=")[2] for word in words if word.partition("=")[0] == keys.SWEEP]
    searches = any(is_range(*_parted(word)) for word in words)
    draft = Draft(folders=[f"{CONFIG_DIR}={folder.resolve()}" for folder in folders])
    if named or not searches:
        read_file(draft, named[0] if named else DEFAULT, faults)
    _read_words(draft, [word for word in words if word.partition("=")[0] != keys.SWEEP], choices, faults)
    if len(set(named)) > 1:
        faults.add(f"sweep is given twice, as {named[0]} and as {named[1]}: leave one out.")
    return draft, choices


def _parted(word: str) -> tuple[str, str]:
    key, _, text = word.partition("=")
    return key, text


def _read_words(draft: Draft, words: Sequence[str], choices: Choices, faults: Faults) -> None:
    seen: dict[str, str] = {}
    components: dict[str, dict[str, Any]] = {name: {} for name in keys.COMPONENTS}
    objective: dict[str, str] = {}
    draft.positions = {key: place - len(draft.positions) for key, place in draft.positions.items()}
    for position, word in enumerate(words):
        key, equals, text = word.partition("=")
        draft.positions[key] = position
        if key in seen:
            if seen[key] != text:
                faults.add(f"{key} is given twice, as {seen[key]} and as {text}: leave one out.", position)
            continue
        seen[key] = text
        component, _, setting = key.partition(".")
        own = key in keys.TYPED or component in keys.COMPONENTS
        if sentence := _no_word(word, key, equals, text, own, choices):
            faults.add(sentence, position)
        elif component in keys.COMPONENTS:
            components[component][setting or "name"] = types.spelled(text)
        elif key in keys.OBJECTIVE:
            objective[key.partition(".")[2]] = text
        elif is_range(key, text):
            draft.search(key, text, {})
        elif key in keys.OPTIONS:
            draft.options[key] = text
        else:
            draft.give(key, text)
    for name, typed in components.items():
        kept = {} if "name" in typed and typed["name"] != draft.components[name].get("name") else draft.components[name]
        draft.components[name] = kept | typed
    if objective:
        draft.objectives = _objectives(objective, draft.objectives, faults)


def _no_word(word: str, key: str, equals: str, text: str, own: bool, choices: Choices) -> str | None:
    """Returns why a word is neither one of the sweep's own keys nor a setting, as far as can be told here."""
    bare = key.lstrip("-+")
    if own and not text:
        return f"{word} has no value: type {key}=VALUE."
    if bare != key and (bare in keys.TYPED or bare.partition(".")[0] in keys.COMPONENTS):
        return f"{word}: settings are written without dashes and plus signs; type {bare}={text or 'VALUE'}."
    if key.startswith("budget."):
        return f"{word}: type {key.partition('.')[2]}={text}."
    others = [*keys.TYPED, *keys.DECIDED, *TOP, *choices.groups()]
    if equals and "." not in key and "/" not in key and key not in others and closest(key, others) in keys.TYPED:
        return f"{word}: there is no setting {key!r}. Did you mean {closest(key, others)!r}?"
    return None


def _objectives(typed: Mapping[str, str], listed: list[dict[str, Any]], faults: Faults) -> list[dict[str, Any]]:
    """What was typed, several metrics with commas between them; a mode alone belongs to the metric that there is."""
    metrics = typed.get("metric", "").split(",") if "metric" in typed else [one["metric"] for one in listed]
    modes = typed["mode"].split(",") if "mode" in typed else [None] * len(metrics)
    metrics = metrics or ["val/accuracy"]
    if len(modes) != len(metrics):
        faults.add(f"objective.mode={typed['mode']} does not fit {','.join(metrics)}: give one for each, or none.")
        return []
    return [{"metric": metric} | ({"mode": mode} if mode else {}) for metric, mode in zip(metrics, modes, strict=True)]
