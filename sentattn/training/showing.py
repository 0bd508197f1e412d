"""What a mirror shows of a finished training: which rows went wrong, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sentattn.loggers import Mirror, WandbMirror, media

if TYPE_CHECKING:
    from sentattn.data.text_data import TextData
    from sentattn.training.judging import Judged


def show_judged(mirror: Mirror | None, data: TextData, judged: Mapping[str, Judged], *, epoch: int) -> None:
    """Shows the confusion matrix of each split and a table of validation rows, where the mirror is W&B.

    Args:
        mirror: Where they are shown.
        data: What was judged.
        judged: What the best epoch's model says of each split.
        epoch: The best epoch.
    """
    if not isinstance(mirror, WandbMirror):
        return
    rows = mirror.table

    def make() -> dict[str, Any]:
        shown: dict[str, Any] = {
            f"{name}/confusion_matrix": media.confusion_matrix(data.split(name), data.labels, one.probabilities)
            for name, one in judged.items()
        }
        if rows:
            val = judged["val"].probabilities
            shown["val/predictions"] = media.predictions(data.split("val"), data.labels, val, rows)
        return shown

    mirror.show_at_end(epoch, make)
