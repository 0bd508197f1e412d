"""A trained run in Python: what `sentattn.load` and `sentattn.fit` return."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config.compose import override
from sentattn.data.readers import hub, tables
from sentattn.errors import Fault, RunError, SettingError
from sentattn.prediction import model
from sentattn.prediction.model import LoadedRun
from sentattn.run import EVALUATED_SPLITS, write_atomically, writing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TrainedRun(LoadedRun):
    """A run whose model reads texts, and is evaluated on data."""

    def evaluate(
        self,
        overrides: str | Sequence[str] = (),
        *,
        split: str = "test",
        name: str | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> dict[str, float]:
        """Evaluates as `python -m sentattn.evaluate` does: prints the metrics and writes the predictions into the run.

        Args:
            overrides: Settings of other data with the same labels, such as `["data=table", "data.test=other.csv"]`; by
                default the run's own data. A string is one of them.
            split: `test` or `val`.
            name: Name of the evaluation; None for the data and the split, such as `other-test`.
            output: File for the metrics, and those of each class as `classes`, as JSON.

        Returns:
            The metrics, such as `metrics["test/accuracy"]`.

        Raises:
            UserError: With every fault of the settings, if the data's labels are not the model's, if the run has
                predictions of that name on other rows, or if the file cannot be written.
        """
        overrides = [overrides] if isinstance(overrides, str) else overrides
        if split not in EVALUATED_SPLITS:
            raise SettingError(
                Fault("split", "range", f"split must be {' or '.join(EVALUATED_SPLITS)}, got {split!r}.")
            )
        settings = override(self.settings, overrides, only=["data"], trust=self.trust)
        data, trained = settings["data"], self.settings["data"]
        typed = [word.partition("=")[0] for word in overrides]
        # Rows of the same kind have the columns of the run's rows, save for those that are typed.
        for key in ("text", "label") if "data.text" in typed else ("text", "label", "header"):
            if data["_target_"] == trained["_target_"] and key in trained and f"data.{key}" not in typed:
                data[key] = trained[key]
        tables.check(data, split=split)
        hub.check(data)
        name = _evaluation_name(name or (f"{data['name']}-{split}" if "data.name" in typed else None), data, split)

        from sentattn.metrics import class_metrics, format_value
        from sentattn.training.evaluate import class_lines, evaluate_run

        metrics, probabilities, rows = evaluate_run(self, settings, split, name)
        print(f"{self.path} on {data['name']}")
        for metric, value in metrics.items():
            print(f"  {metric:<{max(map(len, metrics))}}  {format_value(value)}")
        classes = class_metrics(probabilities, rows.labels, self.classifier.labels)
        print("\n".join(class_lines(classes, split)))
        try:
            self.write_predictions({name: (rows, probabilities)})
            print(f"predictions: {self.predictions(name)}")
        except OSError as error:  # the run may be another user's
            print(f"warning: the predictions cannot be written into {self.path}: {error.strerror}.", file=sys.stderr)
        if output:
            with writing(Path(output), "output"):
                write_atomically(Path(output), json.dumps({**metrics, "classes": classes}, indent=2) + "\n")
        return metrics

    def confusion_matrix(self, split: str = "test") -> NDArray[np.int64]:
        """Returns the counts of true and predicted classes, (true, predicted), in the order of `labels`.

        Args:
            split: `test`, `val`, or the name of an evaluation.

        Raises:
            RunError: If there are no such predictions.
        """
        import numpy as np
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(self.predictions(split), filters=[("split", "=", split)])
        except OSError as error:
            message = f"{self.path} has no predictions of {split}; python -m sentattn.evaluate writes some."
            raise RunError(Fault("split", "not_found", message)) from error
        counts = np.zeros((len(self.classifier.labels),) * 2, dtype=np.int64)
        np.add.at(counts, (table["label"].to_numpy(), table["predicted"].to_numpy()), 1)
        return counts


def load(path: str | os.PathLike[str], *, trust: bool = False) -> TrainedRun:
    """Opens a run directory to predict and evaluate with its model; nothing in it is executed.

    Args:
        path: The run directory, `latest` for the newest finished run under `outputs/` that is no trial of a sweep, or
            `hf://USER/NAME` for one on the Hugging Face Hub, with `@` and a branch, tag or commit if not the newest.
        trust: Whether its model may be of classes of your own, whose code is then run.

    Raises:
        RunError: If there is none at the path, or the Hub cannot be reached.
    """
    return TrainedRun(model.load(path, trust=trust).path, trust=trust)


def _evaluation_name(typed: str | None, data: Mapping[str, Any], split: str) -> str:
    """Returns the name of an evaluation, by default after its data; refuses one that is no part of a file's name."""
    files = data.get(split) or data.get("train")
    first = Path(tables.as_columns(files)[0]).name.strip("*") if files else ""
    of_data = re.sub(r"\.\w+(\.(gz|bz2|xz|zst))?$", "", first) or data["name"]
    name = typed or re.sub(r"[^\w.-]", "_", f"{of_data}-{split}")
    if name in (*EVALUATED_SPLITS, "train") or not re.fullmatch(r"\w[\w.-]*", name):
        message = (
            f"name={name} must be letters, digits, points, dashes and underscores, and not "
            f"{', '.join(EVALUATED_SPLITS)} or train, which are the run's own rows; for example name=reviews."
        )
        raise SettingError(Fault("name", "type", message))
    return name
