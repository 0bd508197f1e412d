"""What the explorer answers, and to whom."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from sentattn.explore.server import Explorer, app
from sentattn.insight.diagnostics import integrated_gradients

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)"> \u202e\x1b[31m'
ADDRESS = "http://127.0.0.1:8765"


@pytest.fixture
def client(explorer: Explorer) -> TestClient:
    return TestClient(app(explorer), base_url=ADDRESS)


def articles(client: TestClient, **wanted: object) -> list[str]:
    answer = client.post("/api/predict", json=wanted)
    assert answer.status_code == 200
    found: list[str] = answer.json()["articles"]
    return found


def test_the_page_names_models_and_loads_no_other_hosts(client: TestClient, explorer: Explorer) -> None:
    page = client.get("/").text
    for name in (model.name for model in explorer.models):
        assert name in page
    assert not re.findall(r"(?:https?:)?//[\w.]+", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))
    for script in re.findall(r'src="(/[^"]+)"', page):
        assert client.get(script).headers["content-type"].startswith("text/javascript")
    assert client.get("/none.js").status_code == 404


def test_each_model_predicts_a_text(client: TestClient, explorer: Explorer) -> None:
    text = "The film was not good."
    for shown, model in zip(articles(client, text=text), explorer.models, strict=True):
        [expected] = model.run.predict([text])
        assert f"{100 * expected.probabilities[expected.label]:.1f} %" in shown
        assert f">{expected.label} <small>" in shown


def test_a_removed_word_gives_the_prediction_of_the_shorter_text(client: TestClient) -> None:
    answer = client.post("/api/predict", json={"text": "a very good film", "model": 1, "token": 1}).json()
    assert (answer["text"], answer["word"], answer["replacement"]) == ("a good film", "very", "")
    ids = r'name="(row|head)-\d+"'
    again = [re.sub(ids, "", one) for one in articles(client, text="a good film")]
    assert [re.sub(ids, "", one) for one in answer["articles"]] == again


def test_a_replaced_word_gives_the_prediction_of_the_new_text(client: TestClient) -> None:
    wanted = {"text": "a very good film", "model": 1, "token": 2, "replacement": " bad "}
    answer = client.post("/api/predict", json=wanted).json()
    assert (answer["text"], answer["word"], answer["replacement"]) == ("a very bad film", "good", "bad")


def rows_of(article: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json">(.*?)</script>', article, flags=re.DOTALL)
    assert found
    rows: list[dict[str, Any]] = json.loads(found[1])
    return rows


def test_integrated_gradients_are_one_more_row_on_request(client: TestClient, explorer: Explorer) -> None:
    text = "The film was not good."
    shown = articles(client, text=text, gradients=True)
    for plain, article, model in zip(articles(client, text=text), shown, explorer.models, strict=True):
        *attention, gradients = rows_of(article)
        assert attention == rows_of(plain)
        classifier = model.run.classifier
        ids, [expected] = classifier.tokenizer.encode([text])[0].ids, model.run.predict([text])
        attributed = integrated_gradients(classifier.model, ids, classifier.labels.index(str(expected.label)))
        assert gradients["weights"] == pytest.approx(attributed.of_tokens_L, rel=0.01, abs=1e-6)
        assert gradients["limit"] == pytest.approx(np.abs(attributed.of_tokens_L).max(), rel=0.01)


def test_integrated_gradients_need_captum(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum", None)
    answer = client.post("/api/predict", json={"text": "a good film", "gradients": True})
    assert answer.status_code == 422
    assert "sentattn[insight]" in answer.json()["error"]


def test_pairs_are_sent_on_request(client: TestClient) -> None:
    structured, transformer = articles(client, text="a good film", pairs=True)
    assert "<figure>" in transformer
    assert "<figure>" not in structured
    assert not any("<figure>" in one for one in articles(client, text="a good film"))


def test_hostile_text_is_text(client: TestClient) -> None:
    for shown in articles(client, text=HOSTILE):
        assert "<img" not in shown
        assert "<script>" not in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize(
    "body",
    [
        '{"text": ""}',
        '{"text": "   "}',
        '{"text": "\\ud800 lone"}',
        '{"text": NaN}',
        '{"text": "good", "model": -Infinity}',
        '{"text": "good", "token": "\\ud800"}',
        "{}",
        "[1e999]",
        "{",
    ],
)
def test_an_invalid_request_is_an_error(client: TestClient, body: str) -> None:
    answer = client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_rows_are_listed_and_read(client: TestClient, explorer: Explorer) -> None:
    answer = client.get("/api/rows", params={"order": "rows", "start": 20}).json()
    assert explorer.rows is not None
    assert answer["total"] == len(explorer.rows.labels_N)
    assert [one["row"] for one in answer["rows"]] == [*range(20, 40)]
    assert client.get("/api/rows/3").json()["text"] == explorer.rows.texts.texts(3)
    errors = client.get("/api/rows", params={"model": 1}).json()["rows"]
    assert all(one["predicted"][1]["label"] != one["label"] for one in errors)


@pytest.mark.parametrize("path", ["/api/rows/100000000000000000000", "/api/rows/-1", "/api/rows?model=2"])
def test_a_row_or_model_out_of_range_is_an_error(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_an_explorer_without_rows_predicts(explorer: Explorer) -> None:
    client = TestClient(app(Explorer(explorer.models, None)), base_url=ADDRESS)
    assert 'id="rows"' not in client.get("/").text
    assert len(articles(client, text="a good film")) == 2
    assert client.get("/api/rows").status_code == 404


def test_other_host_names_are_refused(client: TestClient) -> None:
    for host in ("localhost:8765", "127.0.0.1:9", "[::1]:8765"):
        assert client.get("/", headers={"host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "[::1"):
        assert client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:8765", "http://127.0.0.1:1", "null"])
def test_other_origins_are_refused(client: TestClient, origin: str) -> None:
    answer = client.post("/api/predict", json={"text": "good"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert client.post("/api/predict", json={"text": "good"}, headers={"origin": ADDRESS}).status_code == 200


def test_the_page_has_a_content_security_policy(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
