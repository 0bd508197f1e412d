"""What a training reads and builds before it begins: precision, torch, data, model and what identifies them."""

from __future__ import annotations

from pathlib import Path

import torch
from pytorch_lightning import Callback, Trainer, seed_everything

from sentattn import build
from sentattn.config.hashing import setting_hash
from sentattn.config.schema import INIT_FROM, Settings
from sentattn.config.types import Node
from sentattn.console import Progress, wrap
from sentattn.data.cache import sha256
from sentattn.data.datamodule import TextData
from sentattn.data.tokenizer import SPECIALS, Tokenizer
from sentattn.distributed import devices, ranks
from sentattn.errors import Fault, SettingError, visible
from sentattn.loggers import require_installed
from sentattn.metrics import ORDERED_ONLY
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import TrainingTexts
from sentattn.models.pretrained import Pretrained, most_tokens
from sentattn.models.states import States
from sentattn.prediction.model import read_files
from sentattn.run import MODEL_FOLDER, WEIGHTS_FILE, Run
from sentattn.training.environment import quiet_libraries, set_up_torch
from sentattn.training.evaluate import evaluating_trainer
from sentattn.training.lit_module import LitClassifier, build_lit, build_optimizer
from sentattn.training.recorder import read_identity
from sentattn.training.trainer import build_callbacks

VECTORS, POSITIONS = "embedding.vectors.weight", "embedding.positions.weight"


def choose_precision(trainer: Node) -> Node:
    """Returns `trainer` settings with rank 0's precision in place of `trainer.precision=auto`, and prints it.

    Raises:
        SettingError: If a CPU is to compute in float16, in place of which Lightning would take bfloat16 unasked.
    """
    is_free = trainer["accelerator"] == "auto" and not torch.backends.mps.is_available()
    is_on_cpu = trainer["accelerator"] == "cpu" or (is_free and not devices.is_on_gpu(trainer))
    if trainer.get("precision") == "16-mixed" and is_on_cpu:
        message = "trainer.precision=16-mixed needs a GPU, and this is a CPU: type trainer.precision=bf16-mixed."
        raise SettingError(Fault("trainer.precision", "resources", message))
    if trainer.get("precision") != devices.AUTO:
        return trainer
    if devices.is_on_gpu(trainer):
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch has no types for it
    trainer = ranks.broadcast(devices.resolve_precision(trainer) if ranks.is_rank_zero() else trainer)
    print(f"Precision: {trainer['precision']} (trainer.precision=auto).")
    return trainer


def set_up(settings: Settings, progress: Progress) -> tuple[Trainer, dict[str, Callback]]:
    """Sets torch up; refuses, before data is read, what this machine or a class refuses of the settings.

    Returns:
        What evaluates the best epoch, and the callbacks of the settings by path.

    Raises:
        SettingError: With the setting.
    """
    quiet_libraries()
    set_up_torch(settings)
    require_installed(settings)
    evaluator = evaluating_trainer(settings.trainer, progress)
    with torch.device("meta"):  # without memory
        outline = build.build_model(settings.model, num_embeddings=8, classes=2)
    length, embedding = settings.data["max_length"], outline.embedding
    if isinstance(embedding, Pretrained) and (most := most_tokens(embedding.folder, length)):
        encoder, given = f"model.embedding.name={embedding.name}", "null" if length is None else length
        message = f"data.max_length must be at most {most}, the positions of {encoder}, got {given}."
        raise SettingError(Fault("data.max_length", "range", message))
    build_optimizer(settings, outline)
    return evaluator, build_callbacks(settings)


def build_data(settings: Settings, progress: Progress) -> TextData:
    """Reads, tokenizes and splits the data, or finds it in the cache, and prints its report.

    Raises:
        UserError: If it cannot be used, or not with these settings.
    """
    seed_everything(settings.seed, workers=True, verbose=False)
    data = build.build_data(settings)
    with ranks.rank_zero_first():
        data.prepare(progress)
    progress.close()
    print(visible("\n".join(data.report)))
    metric = settings.objective.metric
    if metric.partition("/")[2] in ORDERED_ONLY and not data.ordered:
        message = (
            f"objective.metric={metric} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
        raise SettingError(Fault("objective.metric", "conflict", message))
    limit, batches = settings.trainer.get("limit_train_batches"), len(data.train_dataloader())
    if isinstance(limit, float) and not int(limit * batches):
        message = f"trainer.limit_train_batches={limit} of {batches} batches is none: type a larger share, or 1 batch."
        raise SettingError(Fault("trainer.limit_train_batches", "range", message))
    return data


def build_module(settings: Settings, data: TextData, *, resumed: bool = False) -> LitClassifier:
    """Builds the model for the vocabulary and the classes of the data, with its loss, optimizer and schedule.

    The weights of a run that is resumed are in its checkpoint, and so not read from `init_from`. Prints notes on the
    settings.

    Raises:
        UserError: If a part refuses its settings, or the weights of `init_from` do not fit.
    """
    train = data.split("train")
    model = build.build_model(settings.model, **model_sizes(data))
    if isinstance(model.embedding, States):
        model.embedding.open(data.states)
    model.prepare_training(lambda: TrainingTexts(*train.flat(), train.labels))
    if data.word_vectors is not None:
        with build.explained("data.vectors"):
            model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
    if settings.init_from is not None and not resumed:
        print(*start_from(settings.init_from, model, data.tokenizer), sep="\n")
    if settings.compile:
        model.compile(dynamic=True)  # batches differ in length: compiled once for all of them
    module = build_lit(settings, model, class_counts=data.class_counts, ordered=data.ordered)
    loss = module.loss
    has_vectors = settings.init_from or settings.data.get("vectors") or module.model.embedding.fingerprint
    if settings.model["embedding"].get("frozen") and not has_vectors:
        print("model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with.")
    if loss.class_weights:
        print(f"Class weights: {', '.join(f'{name} {weight:.4g}' for name, weight in loss.class_weights.items())}.")
    if loss.penalty and model.attention.hops == 1:
        print(f"loss.penalty={loss.penalty} with one hop only pushes the weights towards a single token.")
    return module


def model_sizes(data: TextData) -> dict[str, int]:
    """Returns what a model is built for: the numbers of ids, of special ids and of classes."""
    tokenizer = data.tokenizer
    return {"num_embeddings": len(tokenizer), "num_special": tokenizer.num_special, "classes": len(data.labels)}


def identify(
    settings: Settings, data: TextData, module: LitClassifier, resumed: Run | None = None
) -> dict[str, str | None]:
    """Returns what must be the same when a run is resumed: hashes of setting, data, encoder and initial weights."""
    start = settings.init_from
    if start is not None and resumed:
        start = read_identity(resumed.last_checkpoint)["init_from"]
    elif start is not None:
        start = sha256(Path(start, MODEL_FOLDER, WEIGHTS_FILE))[:16]
    encoder, vectors = module.model.embedding.fingerprint, data.word_vectors.fingerprint if data.word_vectors else None
    encoder = data.states.fingerprint if data.states else encoder
    files = {"vectors": vectors, "encoder": encoder, "tokenizer": data.tokenizer.fingerprint, "init_from": start}
    setting = setting_hash(settings, **files)
    return {"setting": setting, "data_fingerprint": data.fingerprint, "encoder": encoder, "init_from": start}


def start_from(run: str, model: TextClassifier, tokenizer: Tokenizer) -> list[str]:
    """Gives a model the weights of a run that fit by name and shape, and returns lines for the user that name the rest.

    Of another vocabulary, the vectors of shared words are taken, and nothing else that belongs to words.

    Raises:
        RunError: If the run's model is damaged.
        SettingError: If no weight fits.
    """
    _, _, other, saved = read_files(Path(run) / MODEL_FOLDER)
    own = model.state_dict()
    taken = {name: saved[name] for name in own if name in saved and own[name].shape == saved[name].shape}
    has_same_words = (tokenizer.fingerprint, tokenizer.words) == (other.fingerprint, other.words)
    for part in ("embedding.", "wide."):  # whose weights, except those of positions, belong to words and n-grams
        names = {name for name in own if name.startswith(part) and name != POSITIONS}
        if not (has_same_words and names <= taken.keys()):
            taken = {name: weight for name, weight in taken.items() if name not in names}
    places = {word: place for place, word in enumerate([*SPECIALS, *other.words])}
    pairs = [(row, places[word]) for row, word in enumerate([*SPECIALS, *tokenizer.words]) if word in places]
    is_same_kind = tokenizer.fingerprint == other.fingerprint and VECTORS in own and VECTORS in saved
    if is_same_kind and len(pairs) > len(SPECIALS) and saved[VECTORS].shape == (len(other), *own[VECTORS].shape[1:]):
        rows, sources = torch.tensor(pairs).T
        taken[VECTORS] = own[VECTORS].index_copy(0, rows, saved[VECTORS][sources].to(own[VECTORS].dtype))
    if not taken:
        message = f"{INIT_FROM}={run}: none of its weights fits this model by name and shape; leave it out."
        raise SettingError(Fault(INIT_FROM, "conflict", message))
    model.load_state_dict(taken, strict=False)
    text = f"Starts from {run}: {len(taken)} of {len(own)} weights"
    if VECTORS in taken and not has_same_words:
        text += f", with the vectors of {len(pairs) - len(SPECIALS):,} of {len(tokenizer.words):,} words"
    for what, names in (("new", own.keys() - taken.keys()), ("not used", saved.keys() - own.keys())):
        modules = sorted({".".join(name.split(".")[:-1][:3]) for name in names})
        text += f"; {what}: {', '.join(modules)}" if modules else ""
    return wrap(f"{text}.", "", "  ")
