import re

import pytest
from example_predictions import SENTENCE, clipped, example, paired, peaked
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sentattn.prediction.prediction import Prediction
from sentattn.rendering.terminal import RAMP, line, render, style

CODE = re.compile(r"\x1b\[[0-9;]*m")
ORANGE = "48;2;255;135;0m"


@pytest.fixture(autouse=True)
def true_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


def test_the_strongest_word_stands_on_the_strongest_color_in_its_own_case() -> None:
    shown = render(example(SENTENCE, peaked(10, at=8)), color=True, width=80)
    assert f"{ORANGE}GREAT" in shown
    assert shown.count("\x1b[38;2;0;0;0;") == 1
    assert CODE.sub("", shown).splitlines()[-1] == SENTENCE


def test_without_color_brackets_mark_the_strongest_words_and_no_code_is_written() -> None:
    shown = render(example(SENTENCE, peaked(10, at=8)), color=False, width=80)
    assert "\x1b" not in shown
    first, negative, *_ = shown.splitlines()
    assert first == "positive  75.0 %"
    assert negative.split() == ["negative", 8 * "#", "25.0", "%"]
    assert shown.splitlines()[-1] == SENTENCE.replace("GREAT", "[GREAT]")
    assert "attention  GREAT 0.600" in shown


def test_a_dumb_terminal_gets_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    prediction = example(SENTENCE, peaked(10, at=8))
    assert render(prediction, color=True, width=80) == render(prediction, color=False, width=80)


def test_colors_rise_with_the_weight() -> None:
    steps = [style(shade / 100).bgcolor for shade in range(101)]
    names = [color.name if color else "" for color in steps]
    ranks = [["", *RAMP].index(name) for name in names]
    assert ranks == sorted(ranks)
    assert set(names) == {"", *RAMP}


@given(
    text=st.text(st.characters(categories=["L", "N", "P"]) | st.sampled_from("  \n\t"), min_size=1, max_size=200),
    width=st.integers(1, 120),
    color=st.booleans(),
)
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(text: str, width: int, color: bool) -> None:
    shown = CODE.sub("", render(example(f"x {text}"), color=color, width=width))
    assert max(map(cell_len, shown.splitlines())) <= max(20, width)
    if color and "<" not in text:
        assert "".join(f"x {text}".split()) in "".join(shown.split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (SENTENCE, ["Slow at first, but the", "ending is GREAT."]),
        ("[bold]a[/bold] :smile:", ["[bold]a[/bold] :smile:"]),  # no markup of rich
    ],
)
def test_a_text_is_wrapped_between_words_and_no_markup(text: str, lines: list[str]) -> None:
    assert CODE.sub("", render(example(text), color=True, width=24)).splitlines()[-len(lines) :] == lines


def test_several_hops_have_a_block_each_after_their_mean() -> None:
    prediction = example(SENTENCE, peaked(10, at=0), peaked(10, at=8))
    _, *blocks = render(prediction, color=False, width=80).split("\n\n")
    titles, texts = zip(*(block.splitlines() for block in blocks), strict=True)
    weights = ["Slow 0.322", "GREAT 0.322"], ["Slow 0.600"], ["GREAT 0.600"]
    assert [re.split("  | \u00b7 ", title)[1:] for title in titles] == [*weights]
    assert [title.split("  ")[0] for title in titles] == ["mean of 2 hops", "hop 1", "hop 2"]
    assert [re.findall(r"\[(\w+)\]", text) for text in texts] == [["Slow", "GREAT"], ["Slow"], ["GREAT"]]
    assert {text.replace("[", "").replace("]", "") for text in texts} == {SENTENCE}


def test_pairs_have_a_line() -> None:
    maps = [[0.1, 0.8, 0.1], [0.0, 1.0, 0.0], [0.5, 0.3, 0.2]]
    shown = render(paired("not that good", maps), color=False, width=80)
    pairs = ["not \u2192 that 0.800", "good \u2192 not 0.500", "good \u2192 that 0.300"]
    assert re.split("  | \u00b7 ", shown.splitlines()[-1]) == ["pairs", *pairs]
    assert "pairs" not in render(example("not that good"), color=False, width=80)


def test_many_hops_have_a_line_each() -> None:
    prediction = example(SENTENCE, *(peaked(10, at=i) for i in range(10)))
    blocks = render(prediction, color=False, width=80).split("\n\n")
    assert len(blocks) == 3
    lines = blocks[2].splitlines()
    assert len(lines) == 10
    assert lines[8] == "hop 9   GREAT 0.600"


def test_hops_on_a_long_text_have_a_line_each() -> None:
    text = " ".join(f"word{i}" for i in range(200))
    prediction = example(text, peaked(200, at=100), peaked(200, at=199))
    _, mean, hops = render(prediction, color=False, width=80).split("\n\n")
    assert len(mean.splitlines()) > 15
    assert hops.splitlines() == ["hop 1   word100 0.600", "hop 2   word199 0.600"]


def test_unread_words_become_three_dots() -> None:
    shown = render(clipped("one two three four five", [0, 1, 4]), color=False, width=80)
    assert shown.splitlines()[-1] == "[one] two ... five"


def test_control_characters_of_text_and_label_never_reach_the_terminal() -> None:
    prediction = example("a \x1b[31mred\x07 \x9b1m b \u202ec", label="good\x1b]0;title\x07")
    for color in (True, False):
        shown = CODE.sub("", render(prediction, color=color, width=80)) + line(prediction)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)


def test_of_many_classes_the_most_likely_ones_are_shown() -> None:
    shares = {f"class{i}": i / 210 for i in range(21)}
    prediction = Prediction("a", "class20", shares, ["a"], [(0, 1)], [[1.0]])
    shown = render(prediction, color=False, width=60).splitlines()
    assert [row.split()[0] for row in shown[1:11]] == [f"class{i}" for i in range(20, 10, -1)]
    assert shown[11] == "  11 more, together 26.2 %"
    few = render(prediction.limited(2, None), color=False, width=80, top=2).splitlines()
    assert few[1:3] == render(prediction, color=False, width=80, top=2).splitlines()[1:3]


def test_one_line_a_text() -> None:
    assert re.split(" {2,}", line(example("Good\nand new."))) == ["positive", "75.0 %", "Good and new."]
    assert line(example("word " * 1000)).endswith("word word ...")
    assert len(line(example("word " * 1000))) < 80


def test_unknown_words_are_named_and_with_color_underlined() -> None:
    prediction = example(SENTENCE, peaked(10, at=8), unknown=[0, 8])
    note = "2 of 10 tokens are not in the model's vocabulary: Slow, GREAT"
    shown = render(prediction, color=False, width=80)
    assert shown.split("\n\n")[1] == note
    colored = render(prediction, color=True, width=80)
    assert note in CODE.sub("", colored)
    underlined = re.findall(r"\x1b\[(?:[0-9;]*;)?4(?:;[0-9;]*)?m(\w+)", colored)
    assert underlined == ["Slow", "GREAT"]
    assert "vocabulary" not in render(example(), color=True, width=80)
