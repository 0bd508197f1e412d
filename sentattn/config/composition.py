"""Composed settings and what they came from, so that a fault can begin with what was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentattn.config.arguments import LAST, Faults, Typed
from sentattn.config.groups import QUIRKS, Choices, at
from sentattn.config.types import given


@dataclass(frozen=True)
class Composition:
    """One set of settings under check.

    Args:
        settings: The settings, references resolved.
        written: The settings, references as they were written.
        choices: Groups and choices.
        chosen: Which choice each group has.
        typed: What was typed.
        faults: Where faults go.
    """

    settings: Mapping[str, Any]
    written: Mapping[str, Any]
    choices: Choices
    chosen: Mapping[str, str]
    typed: Sequence[Typed]
    faults: Faults

    def fault(self, path: str, sentence: str) -> None:
        """Takes in a fault of a setting, beginning with what was typed or with the file that brought it."""
        position = self.position(path)
        own = next((typed for typed in self.typed if typed.position == position), None)
        value = at(self.settings, path)
        shown = str(own) if own else path if isinstance(value, Mapping) else f"{path}={given(value)}"
        if not sentence.startswith(path):
            sentence = f"{shown}: {sentence}"
        origin = "" if own else self._origin(path)
        self.faults.add(f"{origin}: {sentence}" if origin else sentence, position)

    def is_typed(self, path: str) -> bool:
        """Whether a setting was typed."""
        return any(typed.key == path for typed in self.typed)

    def position(self, path: str) -> int:
        """Where a setting, or one in it, was typed."""
        return min((t.position for t in self.typed if t.key == path or t.key.startswith(f"{path}.")), default=LAST)

    def chosen_at(self, path: str) -> int:
        """Where the choice was typed that brought a setting."""
        groups = {t.key.replace("/", "."): t.position for t in self.typed if t.key in self.choices.groups()}
        return max((p for group, p in groups.items() if path.startswith(f"{group}.")), default=LAST)

    def _origin(self, path: str) -> str:
        """The quirks, the experiment or the file that brought a setting, or an empty string."""
        for group, shown in ((QUIRKS, "faithful=true"), ("experiment", f"experiment={self.chosen.get('experiment')}")):
            name = self.chosen.get(group)
            if name and at(self.choices.node(group, name), path) is not None:
                return shown
        parent, _, key = path.rpartition(".")
        group = parent.replace(".", "/")
        if group in self.chosen and key in self.choices.node(group, self.chosen[group]):
            return str(self.choices.file(group, self.chosen[group]))
        return ""
