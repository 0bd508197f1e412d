"""The two ends of a channel, joined in one process."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from sentattn.errors import Interruption
from sentattn.sweep.channel import ADDRESS, Channel
from sentattn.sweep.hub import Hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with selectors.DefaultSelector() as selector, Hub(selector) as hub:
        monkeypatch.setenv(ADDRESS, hub.address)
        yield hub


def heard(hub: Hub) -> list[tuple[str, dict[str, object]]]:
    return list(hub.heard())


def test_what_is_told_arrives_with_the_trials_key(hub: Hub) -> None:
    with Channel("a/1") as one, Channel("a/2") as two:
        two.begin(4, 12.5)
        one.complete([0.5, 3.0])
        two.fail(["x is not legal."], again=False)
        assert sorted(heard(hub), key=lambda pair: pair[0]) == [
            ("a/1", {"end": "complete", "values": [0.5, 3.0]}),
            ("a/2", {"began": 12.5, "epochs": 4}),
            ("a/2", {"end": "failed", "sentences": ["x is not legal."], "again": False}),
        ]
        assert heard(hub) == []


@pytest.mark.parametrize("prune", [True, False])
def test_a_report_waits_for_its_answer(hub: Hub, prune: bool) -> None:
    answers: list[bool] = []
    with Channel("a/1") as channel:
        thread = threading.Thread(target=lambda: answers.append(channel.report(2, 0.5, {"val/loss": float("nan")})))
        thread.start()
        while not (found := heard(hub)):
            pass
        assert answers == []
        [(key, message)] = found
        assert (key, message["step"], message["value"]) == ("a/1", 2, 0.5)
        hub.answer("a/1", prune=prune)
        thread.join(5)
    assert answers == [prune]


def test_lines_that_break_off_or_say_nothing_are_no_messages(hub: Hub) -> None:
    with socket.socket(socket.AF_UNIX) as stranger, Channel("a/1") as channel:
        stranger.connect(hub.address)
        stranger.sendall(b'{"end": "complete"}\n')
        channel._socket.sendall(b'not json\n[1, 2]\n\xff\n{"end": "pruned"}\n{"end": "compl')
        assert heard(hub) == [("a/1", {"end": "pruned"})]


def test_long_figures_arrive_whole(hub: Hub) -> None:
    figures = {f"val/{number}": float(number) for number in range(5000)}
    with Channel("a/1") as channel:
        thread = threading.Thread(target=lambda: channel.report(1, 0.0, figures))
        thread.start()
        while not (found := heard(hub)):
            pass
        assert found[0][1]["figures"] == figures
        hub.answer("a/1", prune=False)
        thread.join(5)


def test_a_trial_ends_when_its_owner_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with selectors.DefaultSelector() as selector, Hub(selector) as hub:
        monkeypatch.setenv(ADDRESS, hub.address)
        channel = Channel("a/1")
        heard(hub)
    with pytest.raises(Interruption, match="the process that owns the study has gone"):
        channel.report(1, 0.5, {})
    with pytest.raises(Interruption):
        channel.complete([1.0])
    with pytest.raises(Interruption):
        Channel("a/2")


def test_a_trial_that_dies_before_it_is_answered(hub: Hub) -> None:
    channel = Channel("a/1")
    channel._tell(step=1, value=0.5, figures={})
    channel.__exit__(None, None, None)
    steps = 0
    for key, _ in hub.heard():
        hub.answer(key, prune=False)
        steps += 1
    assert steps == 1
    assert heard(hub) == []


def test_an_answer_to_a_trial_that_has_died_is_dropped(hub: Hub) -> None:
    Channel("a/1").__exit__(None, None, None)
    heard(hub)
    hub.answer("a/1", prune=True)
    hub.answer("nobody", prune=True)
    with Channel("b/1") as other:
        other.complete([1.0])
    assert [key for key, _ in heard(hub)] == ["b/1"]
