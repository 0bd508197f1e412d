"""`init_from=RUN`: which weights of a run a training starts from, and what its hash holds of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_files import write_tokenizer
from refusals import refused
from runs_alike import assert_alike, kill_in_the_second_epoch
from safetensors.torch import load_file, save_file
from tiny import tiny

from sentattn import fit
from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.config.request import read_request
from sentattn.data.pieces import read_tokenizer
from sentattn.data.tokenizer import Tokenizer
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import TrainingTexts
from sentattn.prediction.model import Classifier, LoadedRun
from sentattn.training import dry_run
from sentattn.training.prepare import start_from
from sentattn.training.resume import find_finished, identity
from sentattn.training.seeds import fit_seeds

SMALL = ["model.embedding.size=6", "model.encoder.hidden=4", "model.attention.hidden=5"]
OTHER = ["model.embedding.size=7", "model.encoder.hidden=3", "model.attention.hidden=2", "model.attention.hops=9"]
WORDS = "embedding.vectors.weight"
HEAD = "head.layers.1"


def model_of(tokenizer: Tokenizer, *typed: str, classes: int = 2, seed: int = 0) -> TextClassifier:
    torch.manual_seed(seed)
    ids = {"num_embeddings": len(tokenizer), "num_special": tokenizer.num_special}
    words = {word.partition("=")[0]: word for word in (*SMALL, *typed)}
    return build_model(compose([*words.values()])["model"], **ids, classes=classes)


def save(run: Path, model: TextClassifier, tokenizer: Tokenizer, labels: Sequence[str] = ("a", "b")) -> str:
    text = {"tokenizer": tokenizer.fingerprint or "words", "max_length": 20, "clip": "both"}
    Classifier(model=model, tokenizer=tokenizer, labels=labels, config={"text": text}).save(run / "model")
    return str(run)


OLD = Tokenizer(["good", "bad", "film", "the"])


@pytest.fixture
def old(tmp_path: Path) -> str:
    return save(tmp_path / "run", model_of(OLD), OLD)


def test_all_weights_are_those_of_a_run_with_the_same_words(old: str) -> None:
    model = model_of(OLD, seed=1)
    start_from(old, model, OLD)
    for name, weight in model_of(OLD).state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name


def test_rows_belong_to_words(old: str) -> None:
    tokenizer = Tokenizer(["the", "new", "good"])
    model = model_of(tokenizer, seed=1)
    start_from(old, model, tokenizer)
    rows, run = model.state_dict()[WORDS], model_of(OLD).state_dict()[WORDS]
    # <pad>, <unk>, the, new, good here, and <pad>, <unk>, good, bad, film, the in the run.
    assert torch.equal(rows[[0, 1, 2, 4]], run[[0, 1, 5, 2]])
    assert torch.equal(rows[3], model_of(tokenizer, seed=1).state_dict()[WORDS][3])


def test_without_a_shared_word_the_vectors_stay(old: str) -> None:
    tokenizer = Tokenizer(["x", "y", "z", "w"])
    model = model_of(tokenizer, seed=1)
    lines = "\n".join(start_from(old, model, tokenizer))
    assert torch.equal(model.state_dict()[WORDS], model_of(tokenizer, seed=1).state_dict()[WORDS])
    assert "embedding.vectors" in lines


def test_a_head_for_other_classes_is_new_and_named(old: str) -> None:
    model = model_of(OLD, classes=5, seed=1)
    lines = "\n".join(start_from(old, model, OLD))
    new, run = model_of(OLD, classes=5, seed=1).state_dict(), model_of(OLD).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, new[name] if name.startswith("head.") else run[name]), name
    assert HEAD in lines
    assert "encoder" not in lines


def test_another_attention_takes_what_fits(old: str) -> None:
    model = model_of(OLD, "model/attention=gated", seed=1)
    lines = "\n".join(start_from(old, model, OLD))
    encoder = {n: w for n, w in model_of(OLD).state_dict().items() if n.startswith("encoder.")}
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in encoder.items())
    assert "attention" in lines


def test_rows_of_other_subwords_are_not_taken(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    pieces = read_tokenizer(str(tmp_path))
    for number, (of, to) in enumerate([(pieces, OLD), (OLD, pieces)]):
        run = save(tmp_path / f"run{number}", model_of(of), of)
        model = model_of(to, seed=1)
        start_from(run, model, to)
        assert torch.equal(model.state_dict()[WORDS], model_of(to, seed=1).state_dict()[WORDS])
        assert torch.equal(model.state_dict()[f"{HEAD}.weight"], model_of(of).state_dict()[f"{HEAD}.weight"])


NGRAMS = ["model/embedding=ngrams", "model/wide=attended_ngrams", "model.embedding.ngram_min_count=1"]
TABLES = ("embedding.keys", "embedding.ngram_vectors.weight", "wide.keys", "wide.counts_FC", "wide.weights_FC")


def prepared(tokenizer: Tokenizer, seed: int) -> TextClassifier:
    model = model_of(tokenizer, *NGRAMS, "model.wide.min_count=1", "model.embedding.ngram_vocab_size=9", seed=seed)
    texts = TrainingTexts(np.array([2, 3, 4] * 2), np.array([0, 3, 6]), np.array([0, 1]))
    model.prepare_training(lambda: texts)
    return model


@pytest.mark.parametrize("words", [OLD.words, OLD.words[::-1]])
def test_tables_of_ngrams_are_taken_if_the_words_are_the_same(words: list[str], tmp_path: Path) -> None:
    saved = prepared(OLD, seed=0)
    with torch.no_grad():
        saved.state_dict()["wide.weights_FC"].fill_(7.0)
    run = save(tmp_path / "run", saved, OLD)
    tokenizer = Tokenizer(words)
    model = prepared(tokenizer, seed=1)
    start_from(run, model, tokenizer)
    source = saved if words == OLD.words else prepared(tokenizer, seed=1)
    for name in TABLES:
        assert torch.equal(model.state_dict()[name], source.state_dict()[name]), name
    rows = [0, 1, *(2 + OLD.words.index(word) for word in words)]
    assert torch.equal(model.state_dict()[WORDS], saved.state_dict()[WORDS][rows])


def test_a_model_that_nothing_fits_is_refused(old: str) -> None:
    tokenizer = Tokenizer(["x"])
    model = model_of(tokenizer, *OTHER, classes=3)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert refused(lambda: start_from(old, model, tokenizer)) == [("init_from", "conflict")]
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "labels.json", "config.yaml"])
def test_a_damaged_run_is_refused(name: str, old: str) -> None:
    (Path(old) / "model" / name).write_text("[")
    assert refused(lambda: start_from(old, model_of(OLD), OLD)) == [("run", "damaged")]


def test_weights_of_another_vocabulary_than_the_tokenizer_are_not_taken(old: str) -> None:
    file = Path(old) / "model" / "model.safetensors"
    weights = load_file(file)
    save_file(weights | {WORDS: weights[WORDS][:3]}, file)
    model = model_of(OLD, seed=1)
    start_from(old, model, OLD)
    assert torch.equal(model.state_dict()[WORDS], model_of(OLD, seed=1).state_dict()[WORDS])


def start(output_dir: Path, run: object, *typed: str) -> LoadedRun:
    return fit(tiny(f"output_dir={output_dir}", f"init_from={run}", "trainer.max_epochs=1", "test=false", *typed))


def test_the_hash_is_that_of_the_weights_and_not_of_their_path(
    tiny_run: LoadedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, other = (shutil.copytree(tiny_run.path, tmp_path / name) for name in ("copy", "other"))
    weights = load_file(other / "model" / "model.safetensors")
    save_file({name: 2 * weight for name, weight in weights.items()}, other / "model" / "model.safetensors")
    runs = [start(tmp_path / "out", run) for run in (tiny_run.path, f"{copy}/", other, "null")]
    assert str(tiny_run.path) in capsys.readouterr().out
    assert runs[0].settings["init_from"] == str(tiny_run.path)
    assert runs[0].metrics["train/loss"] != runs[3].metrics["train/loss"]
    hashes = [run.result["setting"] for run in runs]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    settings = read_request(tiny("trainer.max_epochs=1")).settings
    assert hashes[3] == identity(settings)[0]


def test_a_resumed_run_needs_no_source_and_reaches_the_same_end(tiny_run: LoadedRun, tmp_path: Path) -> None:
    source = shutil.copytree(tiny_run.path, tmp_path / "source")
    words = [f"init_from={source}", "checkpoint_minutes=0", "trainer.max_epochs=3"]
    whole = fit(tiny(f"output_dir={tmp_path / 'whole'}", *words))
    left = kill_in_the_second_epoch(tiny(f"output_dir={tmp_path / 'killed'}", *words), tmp_path / "killed")
    shutil.rmtree(source)
    resumed = fit([f"resume={left}"])
    assert_alike(whole.path, resumed.path)
    assert resumed.result["setting"] == whole.result["setting"]
    assert resumed.result["init_from"] == whole.result["init_from"] is not None


def test_all_seeds_start_from_the_same_run(
    tiny_run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_run.path, tmp_path / "outputs" / "demo" / "structured" / "20260101-000000-aaaa")
    words = tiny("init_from=latest", "seeds=2", "trainer.max_epochs=1", "test=false")
    runs = list(fit_seeds(read_request(words)))
    assert len({run.settings["init_from"] for run in runs}) == 1
    assert len({run.result["setting"] for run in runs}) == 1
    assert [find_finished(run.settings) for run in runs] == [run.path for run in runs]


def test_the_check_starts_as_the_training_does(tiny_run: LoadedRun, capsys: pytest.CaptureFixture[str]) -> None:
    dry_run.check(read_request(tiny(f"init_from={tiny_run.path}")).settings)
    assert str(tiny_run.path) in capsys.readouterr().out


def test_a_run_of_before_init_from_is_read(run_copy: Path) -> None:
    config = run_copy / "config.yaml"
    config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith("init_from")))
    assert read_request([f"from={run_copy}"]).settings.init_from is None
    assert json.loads((run_copy / "result.json").read_text())["setting"]
