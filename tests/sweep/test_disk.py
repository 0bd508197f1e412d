from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sentattn.sweep.disk import best, tidy

VALUES = st.dictionaries(st.integers(0, 99), st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def test_the_best_first_and_of_equals_the_first() -> None:
    values = {3: [0.5], 1: [0.9], 7: [0.9], 4: [0.1]}
    assert best(values, [1.0], 3) == [1, 7, 3]
    assert best(values, [-1.0], 2) == [4, 3]
    assert best(values, [1.0], 0) == []


@given(VALUES)
def test_with_two_objectives_it_is_the_front(values: dict[int, tuple[int, int]]) -> None:
    """The first should be large, the second small; beaten is who is no better in both and worse in one."""

    def beaten(own: tuple[int, int]) -> bool:
        return any(a >= own[0] and b <= own[1] and (a, b) != own for a, b in values.values())

    front = [number for number, own in values.items() if not beaten(own)]
    assert sorted(best(values, [1.0, -1.0], len(values))) == sorted(front)


def test_what_is_large_goes_and_the_record_stays(tmp_path: Path) -> None:
    for run in ("0", "1", "2/seed-5"):
        for name in ("checkpoints", "model"):
            (tmp_path / run / name).mkdir(parents=True)
        (tmp_path / run / "result.json").touch()
    tidy(tmp_path, [1, 2, 9])
    assert {file.name for file in (tmp_path / "0").iterdir()} == {"checkpoints", "model", "result.json"}
    for run in ("1", "2/seed-5"):
        assert [file.name for file in (tmp_path / run).iterdir()] == ["result.json"]
