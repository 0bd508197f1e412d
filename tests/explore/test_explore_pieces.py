"""The explorer of a model over a pretrained encoder: words on the page, and words that are removed."""

from __future__ import annotations

import json
import re

import pytest
from encoder_files import write_encoder
from starlette.testclient import TestClient

from sentattn import fit
from sentattn.explore.server import Explorer, app, load_models, read_rows

SHORT = [
    "model=pretrained",
    "logger=none",
    "data=demo",
    "data.limit=60",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "data.max_length=40",
]
TEXT = "An unbelievable film!"
WORDS = ["An", "unbelievable", "film", "!"]


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Explorer:
    folder = tmp_path_factory.mktemp("pretrained")
    named = [f"model.embedding.name={write_encoder(folder / 'encoder')}", f"data.cache_dir={folder / 'cache'}"]
    fit([*SHORT, *named, "model/attention=structured", f"output_dir={folder / 'outputs'}"])
    models, faults = load_models([folder / "outputs"])
    rows, more = read_rows(models, "test")
    assert not [*faults, *more]
    return Explorer(models, rows)


@pytest.fixture
def client(explorer: Explorer) -> TestClient:
    return TestClient(app(explorer), base_url="http://127.0.0.1:8765")


def test_whole_words_are_shown(client: TestClient, explorer: Explorer) -> None:
    assert len(explorer.models[0].encoded_spans(TEXT)) > len(WORDS) + 2
    [article] = client.post("/api/predict", json={"text": TEXT, "pairs": True}).json()["articles"]
    [text] = re.findall(r'class="text".*?</p>', article, flags=re.DOTALL)
    assert re.findall(r"<span[^>]*>([^<]+)</span>", text) == WORDS


@pytest.mark.parametrize(("token", "expected"), [(1, "An film!"), (3, "An unbelievable film")])
def test_a_whole_word_is_removed(client: TestClient, token: int, expected: str) -> None:
    answer = client.post("/api/predict", json={"text": TEXT, "model": 0, "token": token}).json()
    assert (answer["text"], answer["word"]) == (expected, WORDS[token])


def test_integrated_gradients_are_of_whole_words(client: TestClient) -> None:
    [article] = client.post("/api/predict", json={"text": TEXT, "gradients": True}).json()["articles"]
    rows = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', article, flags=re.DOTALL)[0])
    assert rows[-1]["name"] == "integrated gradients"
    assert len(rows[-1]["weights"]) == len(WORDS)


def test_there_is_no_word_for_a_special_token(client: TestClient) -> None:
    assert client.post("/api/predict", json={"text": TEXT, "model": 0, "token": len(WORDS)}).status_code >= 400
