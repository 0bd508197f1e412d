"""Trainings over a pretrained encoder, from the command line to a prediction; the encoder is a small random one."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_files import write_encoder, write_tokenizer
from refusals import refused
from runs_alike import assert_alike, kill_in_the_second_epoch
from safetensors.torch import load_file, save_file

import sentattn
from sentattn import fit, train
from sentattn.config.request import read_request
from sentattn.errors import SettingError, UserError
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import LoadedRun
from sentattn.training import dry_run, states
from sentattn.training.evaluate import evaluate_run
from sentattn.training.resume import find_finished
from sentattn.training.states import StateCache

DECAY = ["weight_decay_on=attention_and_head", "optimizer.weight_decay=0.1"]
SHORT = ["logger=none", "data=demo", "data.limit=60", "trainer.max_epochs=1", "trainer.accelerator=cpu", "test=false"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def typed(encoder: Path, tmp_path: Path) -> list[str]:
    """Settings of a training over the encoder, with a cache and outputs of its own."""
    named = [f"model.embedding.name={encoder}", f"data.cache_dir={tmp_path / 'cache'}"]
    return [*SHORT, "model=pretrained", *named, f"output_dir={tmp_path / 'outputs'}", "data.max_length=40"]


def changed(typed: list[str], *settings: str) -> list[str]:
    """Settings with these in place of their own."""
    return list({setting.partition("=")[0]: setting for setting in (*typed, *settings)}.values())


def metrics(run: LoadedRun) -> dict[str, float]:
    return {name: value for name, value in run.metrics.items() if name.startswith(("val/", "train/"))}


def states_of(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("states-*"))


def test_states_are_cached_and_a_second_run_reads_them(
    typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = metrics(fit([*typed, "model.embedding.cache=false"]))
    assert not states_of(tmp_path)
    cached = metrics(fit(typed))
    [cache] = states_of(tmp_path)
    assert sum(file.stat().st_size for file in cache.glob("*.safetensors")) > 0
    assert cached == pytest.approx(without, abs=0.02)  # states are rounded to float16
    monkeypatch.setattr(StateCache, "add", lambda *_: pytest.fail("texts are encoded"))
    assert metrics(fit(typed)) == cached


@pytest.mark.parametrize("frozen", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_killed_run_resumes_to_the_same_result(typed: list[str], tmp_path: Path, frozen: bool) -> None:
    layers = [] if frozen else ["model.embedding.layer_decay=0.5"]
    dropout = ["model.embedding.dropout=0.1", "model.head.dropout=0.1", "model/attention=structured"]
    settings = ["trainer.max_epochs=3", "data.limit=100", f"model.embedding.frozen={str(frozen).lower()}", "test=true"]
    of_both = [*changed(typed, *settings), *layers, *dropout]
    whole = fit(changed(of_both, f"output_dir={tmp_path / 'whole'}"))
    assert bool(states_of(tmp_path)) is frozen
    cut = changed(of_both, f"output_dir={tmp_path / 'cut'}", f"data.cache_dir={tmp_path / 'another'}")
    left = kill_in_the_second_epoch(cut, tmp_path / "cut")
    assert_alike(whole.path, fit(f"resume={left}").path)


def test_a_disk_that_is_full_in_the_middle_of_the_states(
    typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "BATCH_TOKENS", 64)
    monkeypatch.setattr(states, "CHUNK_BYTES", 1000)
    whole = fit(changed(typed, f"data.cache_dir={tmp_path / 'whole'}"))
    complete = sum(file.stat().st_size for file in (tmp_path / "whole").glob("states-*/*.safetensors"))
    outputs = f"output_dir={tmp_path / 'full'}"
    fit(changed(typed, "model.embedding.cache=false"))  # it caches the texts
    synced = iter(range(20))

    def full(_: int) -> None:
        if next(synced, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert refused(lambda: fit(changed(typed, outputs))) == [("data.cache_dir", "unwritable")]
    assert not list((tmp_path / "full").iterdir()), "no run has begun"
    chunks = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").glob("states-*/*.safetensors")}
    again = fit(changed(typed, outputs))
    assert metrics(again) == metrics(whole)
    assert chunks
    assert all(file.stat().st_mtime_ns == written for file, written in chunks.items()), "they are not computed again"
    written = sum(file.stat().st_size for file in (tmp_path / "cache").glob("states-*/*.safetensors"))
    assert written == complete


def test_a_loaded_run_predicts_as_the_training_did(typed: list[str]) -> None:
    run = fit([*typed, "model/attention=structured"])
    loaded = sentattn.load(run.path)
    prediction = loaded.explain("The film was not good, but I liked it.")
    assert (prediction.tokens[0], prediction.tokens[-1]) == ("[CLS]", "[SEP]")
    assert np.allclose(np.sum(prediction.attention, axis=1), 1, atol=1e-5)
    assert not any("encoder" in name for name in load_file(run.path / "model" / "model.safetensors"))


@pytest.mark.parametrize(
    "settings",
    [
        ["model/encoder=bilstm", "model.encoder.hidden=4", "model/attention=structured"],
        ["model/wide=attended_ngrams", "model.wide.min_count=1"],
        ["model.embedding.layer=mix"],
        ["model.embedding.frozen=false", "model.embedding.tuned_layers=1", *DECAY],
    ],
    ids=["bilstm", "wide", "mix", "last_layer"],
)
def test_every_part_works_on_top(typed: list[str], settings: list[str]) -> None:
    run = fit([*typed, *settings])
    assert sentattn.load(run.path).predict(["A good film."])[0].label in ("negative", "positive")


def test_a_model_that_is_trained_from_scratch_keeps_its_subwords(encoder: Path, tmp_path: Path) -> None:
    tokenizer = Path(shutil.copy(encoder / "tokenizer.json", tmp_path))
    small = ["model.embedding.size=8", "model.encoder.hidden=4"]
    run = fit([*SHORT, *small, f"data.tokenizer={tokenizer}", f"output_dir={tmp_path}"])
    write_tokenizer(tmp_path, vocab_size=150)
    loaded = sentattn.load(run.path)
    prediction = loaded.explain("unbelievable film")
    assert "".join(prediction.tokens[1:-1]) == "unbelievablefilm"
    assert len(prediction.tokens) > 4
    metrics, _, _ = evaluate_run(loaded, run.settings, "val", "again")
    assert metrics["val/log_loss"] == pytest.approx(run.metrics["val/log_loss"])


@pytest.fixture
def changed_since(typed: list[str], encoder: Path, tmp_path: Path) -> tuple[LoadedRun, list[str]]:
    """A finished run whose encoder's weights have changed, and its settings."""
    folder = Path(shutil.copytree(encoder, tmp_path / "encoder"))
    settings = changed(typed, f"model.embedding.name={folder}")
    run = fit(settings)
    weights = load_file(folder / "model.safetensors")
    save_file({name: 1.5 * weight for name, weight in weights.items()}, folder / "model.safetensors")
    return run, settings


ENCODER_CHANGED = [("model.embedding.name", "conflict")]


def test_a_run_of_another_encoder_is_refused_and_does_not_count_as_finished(
    changed_since: tuple[LoadedRun, list[str]], tmp_path: Path
) -> None:
    run, settings = changed_since
    assert refused(lambda: sentattn.load(run.path).predict(["good"])) == ENCODER_CHANGED
    assert find_finished(read_request(settings).settings) is None
    other = fit(settings)
    assert other.result["setting"] != run.result["setting"]
    assert find_finished(read_request(settings).settings) == other.path != run.path
    assert len(states_of(tmp_path)) == 2


def test_a_run_is_not_the_origin_of_a_training_on_a_changed_encoder(
    changed_since: tuple[LoadedRun, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, settings = changed_since
    for origin in (run.path, run.path / "config.yaml"):
        assert refused(lambda origin=origin: fit(f"from={origin}")) == ENCODER_CHANGED  # type: ignore[misc]
    capsys.readouterr()
    assert train.main([f"from={run.path}", "check=true"]) == 2
    assert "States" not in capsys.readouterr().out
    [name] = [setting for setting in settings if setting.startswith("model.embedding.name=")]
    again = fit([f"from={run.path}", name])
    assert again.result["encoder"] != run.result["encoder"]


def test_a_run_of_another_encoder_is_not_resumed(changed_since: tuple[LoadedRun, list[str]]) -> None:
    run, settings = changed_since
    (run.path / "result.json").unlink()
    assert refused(lambda: fit(f"resume={run.path}")) == ENCODER_CHANGED
    assert refused(lambda: fit([*settings, "resume=auto"])) == ENCODER_CHANGED
    assert refused(lambda: fit(f"from={run.path}")) == ENCODER_CHANGED


def test_the_same_encoder_at_another_place_is_the_same_setting(typed: list[str], encoder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoder, tmp_path / "copy"))
    moved = fit(changed(typed, f"model.embedding.name={folder}"))
    assert moved.result["setting"] == fit(typed).result["setting"]
    assert len(states_of(tmp_path)) == 1


@pytest.mark.parametrize("settings", [["model.embedding.name=/no/encoder"], ["data.max_length=65"]])
def test_refusals_come_before_the_data_is_read(typed: list[str], tmp_path: Path, settings: list[str]) -> None:
    with pytest.raises(UserError):
        fit(changed(typed, *settings))
    assert not (tmp_path / "cache").exists()
    assert not list((tmp_path / "outputs").glob("*/*/*"))


@pytest.mark.parametrize(
    ("setting", "key", "kind"),
    [
        ("data.lowercase=false", "data.lowercase", "no_effect"),
        ("data.vectors=train", "data.vectors", "no_effect"),
        ("model.embedding.size=8", "model.embedding.size", "unknown"),
        ("data.tokenizer=words", "data.tokenizer", "conflict"),
    ],
)
def test_settings_without_effect_are_refused(typed: list[str], setting: str, key: str, kind: str) -> None:
    with pytest.raises(SettingError) as error:
        fit([*typed, setting])
    assert (key, kind) in {(fault.key, fault.kind) for fault in error.value.faults}


@pytest.mark.parametrize(
    ("settings", "room", "is_cached", "encodes"),
    [
        (["test=true"], 10**9, True, False),
        (["model.embedding.cache=false"], 10**9, False, True),
        ([], 0, False, True),
        (["model.embedding.frozen=false"], 10**9, False, False),
    ],
    ids=["cached", "without_cache", "without_room", "tuned"],
)
def test_check_encodes_no_texts_whose_states_are_cached(
    typed: list[str],
    settings: list[str],
    room: int,
    is_cached: bool,
    encodes: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    encoded: list[int] = []
    encode = Pretrained.encode

    def counted(self: Pretrained, tokens_BL: torch.Tensor, mask_BL: torch.Tensor) -> torch.Tensor:
        encoded.append(len(tokens_BL))
        return encode(self, tokens_BL, mask_BL)

    monkeypatch.setattr(Pretrained, "encode", counted)
    monkeypatch.setattr(StateCache, "free", lambda self: room)
    assert train.main([*changed(typed, *settings), "check=true"]) == 0
    [disk] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Disk:")]
    encodes_a_step = encoded not in ([], [2, 1, 1])  # the two on which padding is checked, together and alone
    assert ("for states" in disk, encodes_a_step) == (is_cached, encodes)


def test_a_disk_without_room_for_states(typed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateCache, "free", lambda self: 0)
    monkeypatch.setattr(StateCache, "add", lambda *_: pytest.fail("texts are encoded"))
    words = [*typed, "model.embedding.cache=true"]
    for train_or_check in (lambda: fit(words), lambda: dry_run.check(read_request(words).settings)):
        assert refused(train_or_check) == [("data.cache_dir", "resources")]
