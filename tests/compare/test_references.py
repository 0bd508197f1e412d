"""References: fitted on the rows of the runs, stored as runs, and NB-SVM's ratios by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from sentattn.compare.references import REFERENCES, add_references
from sentattn.compare.runs import comparisons
from sentattn.errors import RunError
from sentattn.run import Run


def test_nbsvm_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "sentattn.compare.references._logistic_regression",
        lambda features, labels, classes, c: seen.append(features.toarray()) or (lambda other: other),
    )
    counts = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1.0]])
    REFERENCES["nbsvm"].fit(csr_matrix(counts), np.array([1, 1, 0]), 2, 1.0)
    p, q = np.array([3, 2, 2]) / 7, np.array([1, 2, 2]) / 5  # counts of both classes, smoothed by 1
    np.testing.assert_allclose(seen[0], counts * np.log(p / q), rtol=1e-12)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_probabilities_of_several_classes(name: str) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(4, size=200)
    counts = csr_matrix((random.random((200, 8)) < 0.2 + 0.6 * (np.arange(8) % 4 == labels[:, None])).astype(float))
    probabilities = REFERENCES[name].fit(counts, labels, 4, 1.0)(counts)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.7


def test_references_are_runs_on_the_same_rows(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = comparisons([tiny_run.path], split="test")
    found = add_references(list(REFERENCES), comparison, tmp_path)
    assert {one.name: one.deterministic for one in found.settings} == {
        "structured": False,
        "tfidf": True,
        "nbsvm": True,
    }
    again = add_references(list(REFERENCES), comparison, tmp_path)
    assert len(list(tmp_path.glob("demo/*/*"))) == 2
    assert {one.name for one in again.settings} == {one.name for one in found.settings}


def test_other_texts_are_refused(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = comparisons([tiny_run.path], split="test")
    comparison.settings[0].runs[0].result["data_fingerprint"] = "0" * 16  # type: ignore[index]
    with pytest.raises(RunError) as caught:
        add_references(["tfidf"], comparison, tmp_path)
    assert caught.value.faults[0].kind == "conflict"
