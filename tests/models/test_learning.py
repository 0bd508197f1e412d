"""Each encoder, small, and every attention and variant, by the shared recipe, learns what its kind can."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentattn.config.groups import Choices, conf_dir, load
from sentattn.config.request import read_request
from sentattn.prediction.model import LoadedRun
from sentattn.training.fit import fit as train

ATTENTIONS = sorted(path.stem for path in (conf_dir() / "model" / "attention").glob("*.yaml"))
RANDOM = "pretrained"  # over a random encoder there is little to learn
PRESETS = sorted(path.stem for path in (conf_dir() / "model").glob("[!_]*.yaml") if path.stem != RANDOM)
OVER_A_BILSTM = [f"model/attention={name}" for name in ATTENTIONS]
REACH = {
    "relation": (0.78, 0.98),  # sees which words meet, not their order
    "wide": (0.65, 0.85),  # three words do not show which of two clauses decides
    "Identity": (0.65, 0.85),  # blind to the order of words
    "CNN": (0.86, 1.0),  # five words do not show which of two clauses decides
    "Transformer": (0.78, 1.0),  # hundreds of steps are few to learn what positions mean
}
"""Least and greatest accuracy by preset or else by encoder, where it is not that of every LSTM: 0.95 or more."""
QUICK_CHOICES = ["model/attention=structured", *(f"model={m}" for m in ("cnn", "mean", "transformer", "wide"))]
"""One for each kind of encoder, and the wide part; test_contract.py has the gradients of all."""
QUICK_WORDS = ["model.embedding.size=32", "model.embedding.dropout=0.2", "model.embedding.word_dropout=0.05"]
QUICK = ["model.head.dropout=0.1", "optimizer.lr=0.02", "ema_decay=0.98", "trainer.max_epochs=4"]
"""A quarter of the cost; an attention that does not work still gets no more than `mean`, 0.75."""
SMALL = ("hidden=32", "dropout=0.0")
QUICK_ENCODERS = {"BiLSTM": SMALL, "Transformer": SMALL, "CNN": ("channels=32",), "Identity": ()}

TYPED = {
    "positive": (
        "This movie is amazing",
        "I loved it",
        "I love this movie",
        "not bad",
        "Great film!",
        "It's great!",
        "Slow at first, but the food was wonderful.",
        "The service was terrible, but the food was great",
    ),
    "negative": (
        "the food was not wonderful",
        "terrible",
        "I did not like this film",
        "I didn't like it",
        "The movie was not very good",
        "worst film I have ever seen",
        "a waste of time",
        "The food was good, but the service was terrible",
    ),
}
"""Sentences that people type first, by what the default training must answer."""


def is_an_attention_over_the_bilstm(preset: str) -> bool:
    """Whether a preset is an attention over the BiLSTM and nothing else."""
    node = load(conf_dir() / "model" / f"{preset}.yaml")
    shared = {"embedding": "words", "encoder": "bilstm", "pooling": "flatten"}
    return set(node) == {"defaults", "name"} and shared.items() <= Choices.of().parts(preset).items()


VARIANTS = [f"model={n}" for n in PRESETS if n != "states" and not is_an_attention_over_the_bilstm(n)]
"""Of texts: `states` reads no words."""


def assert_learns(choice: str, seed: int, folder: Path, *, quick: bool) -> LoadedRun:
    common = [choice, f"seed={seed}", "logger=none", "trainer.accelerator=cpu", f"output_dir={folder}"]
    settings = read_request(common).settings
    encoder = settings["model"]["encoder"]["_target_"].rpartition(".")[2]
    if quick:
        words = QUICK_WORDS if "size" in settings["model"]["embedding"] else []
        settings = read_request(
            [*common, *QUICK, *words, *(f"model.encoder.{setting}" for setting in QUICK_ENCODERS[encoder])]
        ).settings
    low, high = REACH.get(settings["model"]["name"]) or REACH.get(encoder, (0.9 if quick else 0.95, 1.0))
    run = LoadedRun(train(settings).path)
    for split in ("val", "test"):
        assert low <= run.metrics[f"{split}/accuracy"] <= high, (choice, seed, split)
    if choice == "model/attention=structured":
        for label, texts in TYPED.items():
            for prediction in run.predict(texts):
                assert prediction.probabilities[label] >= (0.7 if quick else 0.75), prediction.text
    return run


@pytest.mark.parametrize("choice", QUICK_CHOICES)
def test_learns(choice: str, tmp_path: Path) -> None:
    assert_learns(choice, 0, tmp_path, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("choice", OVER_A_BILSTM + VARIANTS)
def test_learns_by_the_shared_recipe(choice: str, seed: int, tmp_path: Path) -> None:
    assert_learns(choice, seed, tmp_path, quick=False)
