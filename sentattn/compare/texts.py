"""Reads the texts of a comparison again, by the data settings of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentattn.compare.comparison import Comparison
from sentattn.config.groups import Choices
from sentattn.config.targets import check_targets
from sentattn.console import Progress
from sentattn.errors import Fault, RunError
from sentattn.run import RESULT, SPLITS

if TYPE_CHECKING:
    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData


def evaluated_texts(comparison: Comparison) -> tuple[TextData, Split]:
    """Reads the data set of a comparison again; returns it and the texts of the comparison's rows.

    Raises:
        UserError: If they cannot be read, or are others than those of the runs.
    """
    data = read_texts(comparison)
    texts = data.split(comparison.split)
    if tuple(texts.row_id) != comparison.rows.row_ids:
        message = f"data={comparison.data} has other rows in split {comparison.split} than the runs."
        raise RunError(Fault("data.path", "conflict", message))
    return data, texts


def read_texts(comparison: Comparison) -> TextData:
    """Reads the texts again, which have to be equal to those that the runs were trained on.

    Raises:
        RunError: If they have changed, or the split is an evaluation on other data.
        UserError: If they cannot be read.
    """
    from sentattn import build

    if comparison.split not in SPLITS:
        message = f"The texts of split={comparison.split} are not those of the runs, and cannot be read again."
        raise RunError(Fault("split", "unsupported", message))
    first = comparison.settings[0].runs[0]
    if not (fingerprint := first.result.get("data_fingerprint")):
        message = f"{first.path} does not say what texts it was trained on (data_fingerprint in {RESULT})."
        raise RunError(Fault("runs", "damaged", message))
    texts_alone = {**first.settings["data"], "vectors": None}  # vectors may take minutes to train
    settings = {"data": texts_alone, "seed": first.seed}
    data = build.build_data(check_targets(settings, Choices.of(), trust=first.run.trust))
    with Progress() as progress:
        data.prepare(progress)
        progress.close()
    if data.fingerprint != fingerprint:
        message = f"data={comparison.data} has other texts now than when {first.path} was trained."
        raise RunError(Fault("data.path", "conflict", message))
    return data
