"""A run directory: the settings, metrics and files of a training."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sentattn.errors import MALFORMED, Fault, RunError, first_line

if TYPE_CHECKING:
    from torch import Tensor

    from sentattn.data.corpus import Split

Node: TypeAlias = Mapping[str, Any]
Tree: TypeAlias = dict[str, Any]
"""Settings or results, nested; read-only and not."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loads YAML without running code; the first is five times as fast, where it was built."""
LONG_YAML = 10_000
"""Characters from which Python's loader reads YAML: libyaml's overflows the stack where nesting is that deep."""
CONFIG_FILE, RESULT_FILE, METRICS_FILE, PREDICTIONS_FILE = (
    "config.yaml",
    "result.json",
    "metrics.jsonl",
    "predictions.parquet",
)
MODEL_SLOTS = ("embedding", "encoder", "attention", "pooling", "wide")
"""The parts of a model that can be exchanged."""
EVALUATED_SPLITS = ("val", "test")
"""Splits that a training evaluates."""
LABELS_FILE = "labels.json"
"""In the folder of a model: the names of its classes."""
MODEL_FOLDER, WEIGHTS_FILE, CHECKPOINT_FOLDER, LAST_CHECKPOINT, LOCK_FILE = (
    "model",
    "model.safetensors",
    "checkpoints",
    "last.ckpt",
    ".lock",
)
PROBING = 0.2
"""Seconds for which a lock may be held by those who look whether it is held."""
OUTPUT_FOLDER, SWEEP_FOLDER, LATEST_RUN = Path("outputs"), "sweeps", "latest"
HUB_PREFIX = "hf://"
"""What the name of a run on the Hugging Face Hub begins with."""
TRIALS_FILE, CONFIRMED_FILE, REPORT_FILE = "trials.parquet", "confirm.json", "report.html"
"""Files of a study: its trials, the runs that confirm its best setting, and the page about both."""
HOLDER = ".pid"
"""What the name of a lock's file ends with that holds the ID of its process."""
FORMAT_KEY, RUN_FORMAT = "format", 2
"""Of runs, models and studies. It rises when a default or what a setting does changes, as hashes leave out defaults."""


def take_format(place: Path, content: object) -> Tree:
    """Returns the content of a file without the number of its format, once that is this version's.

    Raises:
        RunError: If it holds no keys and values, or is of another version.
    """
    if not isinstance(content, dict):
        raise RunError(Fault(place.name, "damaged", f"{place} is damaged: it holds no keys and values."))
    require_format(place, content.get(FORMAT_KEY))
    return {key: value for key, value in content.items() if key != FORMAT_KEY}


def require_format(place: object, found: object) -> None:
    """Refuses what a version of sentattn with another format has written.

    Raises:
        RunError: If it has another format than this version's.
    """
    if found != RUN_FORMAT:
        found = "no format" if found is None else f"format {found}"
        older = "runs, models and studies of format 1, or of none, are read by revision 04da8cb"
        message = f"{place} has {found}, and this version of sentattn reads format {RUN_FORMAT}; {older}."
        raise RunError(Fault(FORMAT_KEY, "unsupported", message))


def _parse_yaml(text: str) -> object:
    return yaml.load(text, LOADER if len(text) < LONG_YAML else yaml.SafeLoader)  # noqa: S506 - both are safe


class Run:
    """A run on disk.

    Args:
        path: The run directory.
        trust: Whether its model may be of classes outside sentattn, whose code is then run.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self.path = path
        self.trust = trust

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @cached_property
    def settings(self) -> Tree:
        """The resolved settings; a `RunError` if they are missing, damaged or of another format."""
        settings = {str(key): node for key, node in self._read(CONFIG_FILE, _parse_yaml).items()}
        model = settings.get("model")
        nodes = {"data": settings.get("data"), "model": model, "choices": settings.get("choices", {})}
        if isinstance(model, dict) and "_target_" in model:  # a reference has other settings
            nodes |= {f"model.{slot}": model.get(slot, {}) for slot in MODEL_SLOTS}
        if wrong := [key for key, node in nodes.items() if not isinstance(node, dict)]:
            message = f"{self.path / CONFIG_FILE} is damaged: {' and '.join(wrong)} must hold keys and values."
            raise RunError(Fault(CONFIG_FILE, "damaged", message))
        return settings

    @property
    def result(self) -> Tree:
        """The content of `result.json`; a `RunError` if the run has none yet, or one of another format."""
        if not (self.path / RESULT_FILE).exists():
            message = f"{self.path} has no {RESULT_FILE}: its training was interrupted, or still runs."
            raise RunError(Fault(RESULT_FILE, "unfinished", message))
        return self._read(RESULT_FILE, json.loads)

    def _read(self, name: str, parse: Callable[[str], Any]) -> Tree:
        try:
            content = parse((self.path / name).read_text(encoding="utf-8"))
        except (*MALFORMED, yaml.YAMLError) as error:
            raise RunError(Fault(name, "unreadable", f"{self.path / name} cannot be read: {error}")) from error
        return take_format(self.path / name, content)

    @property
    def is_trial(self) -> bool:
        """Whether it is a trial of a sweep; False where it has no result that can be read."""
        with suppress(RunError):
            return self.result.get("study") is not None
        return False

    @property
    def last_checkpoint(self) -> Path:
        """The file from which it can be resumed, if it was interrupted."""
        return self.path / CHECKPOINT_FOLDER / LAST_CHECKPOINT

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the best epoch, such as `metrics["val/accuracy"]`."""
        metrics: dict[str, float] = self.result["metrics"]
        return metrics

    def write_result(self, result: Node) -> None:
        """Writes `result.json` atomically, with the number of its format; a `RunError` if it cannot be written."""
        content = {FORMAT_KEY: RUN_FORMAT, **result}
        with writing(self.path / RESULT_FILE):
            write_atomically(self.path / RESULT_FILE, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def predictions(self, split: str) -> Path:
        """Returns the file with the predictions of a split: of its own data, or the name of an evaluation."""
        return self.path / (PREDICTIONS_FILE if split in EVALUATED_SPLITS else f"predictions-{split}.parquet")

    def require_same_rows(self, name: str, split: Split) -> None:
        """Refuses an evaluation whose file has the predictions of other rows with a `RunError`."""
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        with suppress(OSError, ArrowException):  # a damaged file is written anew
            written = pq.read_table(file := self.predictions(name), columns=["row_id", "label"], partitioning=None)
            if written.to_pydict() != {"row_id": list(split.row_id), "label": split.labels.tolist()}:
                message = f"{file} has the predictions of other rows: type name=NAME for these, or delete it."
                raise RunError(Fault("name", "conflict", message))

    def write_predictions(self, predictions: Mapping[str, tuple[Split, Any]]) -> None:
        """Writes the predictions of splits that share a file, such as `val` and `test`.

        Of each split these are its rows and their probabilities, a float array (rows, C).
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = [
            pa.table(
                {
                    "split": pa.array([name] * len(split.labels)),
                    "row": pa.array(split.row, pa.int64()),
                    "row_id": pa.array(list(split.row_id)),
                    "group": pa.array(list(split.group)),
                    "length": pa.array(split.lengths, pa.int32()),
                    "label": pa.array(split.labels, pa.int32()),
                    "predicted": pa.array(probabilities.argmax(axis=1), pa.int32()),
                    "probabilities": pa.array(probabilities.tolist(), pa.list_(pa.float32())),
                }
            )
            for name, (split, probabilities) in predictions.items()
        ]
        [path] = {self.predictions(name) for name in predictions}
        with replacing(path) as temporary:
            pq.write_table(pa.concat_tables(tables), temporary, compression="zstd")


def load(path: str | os.PathLike[str]) -> Run:
    """Finds a run directory, which `sentattn.load` describes; a `RunError` if there is none or no Hub."""
    name = os.path.expanduser(path)
    path = _download(name) if name.startswith(HUB_PREFIX) else _latest() if name == LATEST_RUN else Path(name)
    if name == LATEST_RUN:
        print(f"{LATEST_RUN} is {path}", file=sys.stderr)
    if not (path / CONFIG_FILE).is_file():
        is_folder = path.is_dir() or name.startswith(HUB_PREFIX)
        reason = f"it has no {CONFIG_FILE}" if is_folder else "it is a file" if path.exists() else "it does not exist"
        message = f"{name} is no run directory: {reason}. `python -m sentattn.list runs` shows the runs."
        raise RunError(Fault("run", "not_found", message))
    return Run(path)


def _download(address: str) -> Path:
    """Returns the folder of a run on the Hugging Face Hub, in the Hub's cache."""
    from huggingface_hub import snapshot_download

    name, _, revision = address.removeprefix(HUB_PREFIX).partition("@")
    files = [
        CONFIG_FILE,
        RESULT_FILE,
        *(f"{MODEL_FOLDER}/*.{ending}" for ending in ("yaml", "json", "safetensors")),
    ]  # data, no code
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=files))
    except Exception as error:  # the Hub, its transport and its storage have no common class of errors
        reason = f"{address} cannot be read from the Hugging Face Hub ({type(error).__name__}: {first_line(error)})."
        advice = "Check the name and the network; a private repository needs a token: hf auth login, or HF_TOKEN."
        raise RunError(Fault("run", "not_found", f"{reason} {advice}")) from error


def _latest() -> Path:
    folders = [file.parent for file in OUTPUT_FOLDER.glob(f"**/{RESULT_FILE}") if (file.parent / MODEL_FOLDER).is_dir()]
    results = [
        path / RESULT_FILE for path in folders if not (path.parent / RESULT_FILE).is_file()
    ]  # `export` writes into runs
    for result in sorted(results, key=lambda result: result.stat().st_mtime, reverse=True):
        if OUTPUT_FOLDER / SWEEP_FOLDER not in result.parents and not Run(result.parent).is_trial:
            return result.parent
    trials = " but the trials of sweeps, which are named by their path" if results else ""
    message = f"run=latest: outputs/ holds no finished run yet{trials}; train one with `python -m sentattn.train`."
    raise RunError(Fault("run", "not_found", message))


def summarize(result: Node) -> Tree:
    """Returns the values of a `result.json` by names such as `val/accuracy`, `seconds/total` and `latency_ms/one`."""
    summary: Tree = {key: result.get(key) for key in ("best_epoch", "epochs")} | result.get("metrics", {})
    for name in ("seconds", "parameters", "latency_ms", "tokens_per_second", "peak_memory_bytes", "encoder"):
        value = result.get(name)
        summary |= {f"{name}/{key}": x for key, x in value.items()} if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in summary.items() if value is not None}


def create(settings: Node, directory: Path | None = None) -> Run:
    """Creates the directory of a new run and writes its settings.

    Args:
        settings: The resolved settings.
        directory: The directory; None for one under `output_dir`, by data, model and time.

    Raises:
        RunError: If the output folder cannot be written.
    """
    path = directory or new_directory(settings)
    with writing(Path(settings["output_dir"]), "output_dir"):
        path.mkdir(parents=True, exist_ok=directory is not None)
        write_atomically(path / CONFIG_FILE, yaml_text(settings))
    return Run(path, trust=True)  # its classes are those of this process


def yaml_text(settings: Node) -> str:
    """Returns settings as they are written into a file, with the number of their format."""
    return yaml.safe_dump({FORMAT_KEY: RUN_FORMAT, **settings}, sort_keys=False, allow_unicode=True)


def new_directory(settings: Node) -> Path:
    """Returns the path of a new run: under `output_dir`, by data, model and time."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    return Path(settings["output_dir"], settings["data"]["name"], settings["model"]["name"], name)


def require_writable(folder: str) -> None:
    """Refuses an output folder that cannot be written with a `RunError`, before anything is read or trained."""
    with writing(Path(folder), "output_dir"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def writing(path: Path, key: str | None = None) -> Iterator[None]:
    """Turns an error of writing in the block, such as a full disk, into a `RunError` with its reason.

    Args:
        path: The file or folder.
        key: The setting that names it, if there is one, which does not name the files of a run.
    """
    own = (CONFIG_FILE, RESULT_FILE, METRICS_FILE, PREDICTIONS_FILE)
    if key and path.name in own and path.with_name(CONFIG_FILE).is_file():
        raise RunError(
            Fault(key, "conflict", f"{key}={path} is a file of a run, which would be lost: type another name.")
        )
    try:
        yield
    except (OSError, SafetensorError) as error:  # the second is how that library reports the first
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        named, advice = (f"{key}={path}", f"; type another {key}=PATH") if key else (path, "")
        message = f"{named} cannot be written ({reason}){advice}."
        raise RunError(Fault(key or str(path), "unwritable", message)) from error


@contextmanager
def lock(path: Path, name: str = LOCK_FILE) -> Iterator[None]:
    """Locks a run directory while it is trained, so that no other process resumes it.

    Args:
        path: The run directory.
        name: Of the lock's file, next to which another holds the ID of this process.

    Raises:
        RunError: If another process holds it, or the folder cannot be written.
    """
    file_lock = FileLock(path / name)
    with writing(path):
        try:
            file_lock.acquire(timeout=PROBING)
        except Timeout as error:
            message = f"{path} is being trained by {holder(path, name)}; wait for its end."
            raise RunError(Fault("resume", "busy", message)) from error
    process = path / f"{name}{HOLDER}"  # it is for messages alone
    try:
        with suppress(OSError):
            process.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # a folder that is read-only by now
            process.unlink(missing_ok=True)
            (path / name).unlink(missing_ok=True)
        file_lock.release()


def is_locked(path: Path, name: str = LOCK_FILE) -> bool:
    """Returns whether a process holds the lock of a run directory; one that cannot be read has none."""
    try:
        with (path / name).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that no other look takes it for the holder's
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def holder(path: Path, name: str = LOCK_FILE) -> str:
    """Returns which process holds a lock, for messages."""
    try:
        return f"process {int((path / f'{name}{HOLDER}').read_text(encoding='utf-8'))}"
    except (OSError, ValueError):
        return "another process"


def flush_to_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk; some file systems can do so for files alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        if not path.is_dir():
            raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file that replaces `path` at the end; after an error it is removed.

    After a power cut there is the old content or the new one: the new file is on the disk before it takes the name.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    finally:
        with suppress(OSError):  # its folder may be none, which the error has reported
            temporary.unlink(missing_ok=True)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes tensors as safetensors, with the mode of any new file; the library's are for their owner alone."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), path, metadata)
    path.chmod(mode)


def write_atomically(path: Path, text: str) -> None:
    """Writes a file completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
