"""Samplers go on in a continued study; those of a finite space draw each point once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plans import PRUNE, plan
from studies import run

from sentattn.sweep.config import Budget
from sentattn.sweep.records import read
from sentattn.sweep.study import SweepStudy


def test_a_continued_study_draws_on_instead_of_anew(tmp_path: Path) -> None:
    for part in range(3):
        run(plan(budget=Budget(4 * part + 4, None)), tmp_path)
    drawn = [tuple(record.values.items()) for record in read(tmp_path)]
    assert len(set(drawn)) == 12


@pytest.mark.parametrize("name", ["qmc", "grid", "brute_force", "nsgaii", "tpe"])
def test_samplers_go_on_where_they_were(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "choice(1,2,3)", "model/pooling": "choice(flatten,mean)"}
    if name not in ("grid", "brute_force"):
        space = {"optimizer.lr": "interval(0.001,1)", "loss.label_smoothing": "interval(0,1)"}
    whole, parts = plan(space, sampler={"name": name}, budget=Budget(6, None)), tmp_path / "parts"
    for count in (1, 2, 4, 6):
        run(replace(whole, budget=Budget(count, None)), parts)
    found = [tuple(record.values.items()) for record in read(parts)]
    assert len(set(found)) == 6
    if name == "qmc":
        run(whole, tmp_path / "whole")
        rest = [tuple(record.values.items()) for record in read(tmp_path / "whole")]
        assert found[1:] == rest[1:]  # the first is drawn before the sequence


@pytest.mark.parametrize("name", ["grid", "brute_force"])
def test_every_point_once_and_then_no_more(tmp_path: Path, name: str) -> None:
    space = {"model.attention.hops": "range(1,4)", "model/pooling": "choice(flatten,mean)"}
    one = plan(space, sampler={"name": name}, budget=Budget(100, None), retries=1)
    with SweepStudy.open(one, tmp_path) as study:
        first = study.ask()
        assert first
        study.tell(first.number, state="failed", again=True)
        while asked := study.ask():
            study.tell(asked.number, [0.5])
        assert "all 6 points" in study.ended()
        assert study.done()
    found = [tuple(r.values.values()) for r in read(tmp_path) if r.state == "complete"]
    assert sorted(map(str, found)) == sorted(str((hops, way)) for hops in (1, 2, 3) for way in ("flatten", "mean"))


def test_brute_force_knows_conditions(tmp_path: Path) -> None:
    space = {"model/pooling": "choice(flatten,prune)", "model.pooling.p": ("range(8,11)", PRUNE)}
    run(plan(space, sampler={"name": "brute_force"}, budget=Budget(100, None)), tmp_path)
    assert len(read(tmp_path)) == 1 + 3
