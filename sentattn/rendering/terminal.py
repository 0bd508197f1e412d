"""Predictions on the terminal: label, probabilities as bars, the text colored by attention."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from sentattn.errors import visible
from sentattn.prediction.prediction import UNREAD, Prediction, notes, pair_summary, summary

NARROWEST, WIDEST, BAR, BEGINNING = 20, 100, 30, 60  # columns
MAX_CLASSES, MAX_BLOCKS, MAX_LINES = 10, 6, 5
# Grey to orange by saturation instead of lightness, so that their order is the same on dark and on light
# backgrounds; black is legible on each (contrast of 7 or more); each is in the 256-color palette.
# Weights below the first step keep the terminal's colors.
RAMP = ("#a8a8a8", "#d7af87", "#ffaf5f", "#ff8700")
FAINTEST, BRACKETED = 0.15, 0.6


def render(prediction: Prediction, *, color: bool, width: int, top: int = MAX_CLASSES) -> str:
    """Returns a prediction as lines of text.

    Of many classes the `top` most probable ones are shown. The text is shaded by the mean over the hops, and, if it is
    short and there are up to six, by each hop; otherwise each has a line with its top words. With color, words that are
    not in the vocabulary are underlined; without, brackets mark the words with the largest weights of their row. At
    least 20 columns are used.
    """
    prediction, width = prediction.in_words(), max(NARROWEST, width)
    output = io.StringIO()
    console = Console(
        file=output, width=width, force_terminal=color, no_color=False, highlight=False, markup=False, emoji=False
    )
    color = color and console.color_system is not None
    label = Text(" ".join(prediction.name.split()), style="bold")
    console.print(label.append(f"  {_percent(prediction).strip()}", style="not bold"))
    for line in _bars(prediction, top, width=width, color=color):
        console.print(line)
    for note in notes(prediction):
        console.print(Text(f"\n{note}"))
    for block in _blocks(prediction, console, width=min(width, WIDEST), color=color):
        console.print()
        for line in block:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
    lines = output.getvalue().split("\n")
    return "\n".join(lines if color else map(str.rstrip, lines)).rstrip("\n")


def line(prediction: Prediction, top: int = 1) -> str:
    """Returns a prediction as one line: label, probability, those of the next classes, the beginning of the text."""
    label = prediction.name
    width = min(20, max((cell_len(visible(name)) for name in prediction.probabilities), default=0))
    beginning = textwrap.shorten(visible(prediction.text[:WIDEST]), BEGINNING, placeholder=UNREAD.rstrip())
    others = "".join(f"  {visible(name)} {100 * share:.1f} %" for name, share in prediction.ranked(top)[1:])
    return f"{set_cell_size(label, max(width, cell_len(label)))}  {_percent(prediction)}{others}  {beginning}"


def _percent(prediction: Prediction) -> str:
    return f"{100 * prediction.share:5.1f} %"


def _bars(prediction: Prediction, top: int, *, width: int, color: bool) -> Iterator[Text]:
    """Yields a bar a class, in the order of the classes; of many classes the most likely ones."""
    probabilities = prediction.probabilities
    classes = prediction.ranked(top) if len(probabilities) > top else list(probabilities.items())
    names = [" ".join(visible(name).split()) for name, _ in classes]
    space = width - len("  ") - len("  ") - len(" 100.0 %")
    name_width = min(max(map(cell_len, names), default=0), space // 2)
    bar_width = min(BAR, space - name_width)
    for name, (_, share) in zip(names, classes, strict=True):
        bar = (("\u2588" if color else "#") * round(share * bar_width)).ljust(bar_width)
        styled = bar, RAMP[-1] if color else ""
        yield Text.assemble(f"  {set_cell_size(name, name_width)}  ", styled, f" {100 * share:5.1f} %")
    if rest := len(probabilities) - len(classes):
        yield Text(f"  {rest} more, together {100 * (1 - sum(share for _, share in classes)):.1f} %")


def _blocks(prediction: Prediction, console: Console, *, width: int, color: bool) -> Iterator[list[Text]]:
    count, words = len(prediction.attention), [visible(word) for word in prediction.tokens]

    def title(name: str, top: str) -> list[Text]:
        return list(Text.assemble((name, "bold"), "  ", (top, "italic")).wrap(console, width))

    (_, mean), *hops = prediction.rows.items()
    lines = _colored(prediction, mean, console, width, color)
    heading = "attention" if count == 1 else f"mean of {count} hops"
    yield [*title(heading, summary(words, mean)), *lines]
    if count <= MAX_BLOCKS and len(lines) <= MAX_LINES:
        for name, row in hops:
            yield [*title(name, summary(words, row)), *_colored(prediction, row, console, width, color)]
    elif hops:
        yield [line for name, row in hops for line in title(f"{name:<6}", summary(words, row))]
    if prediction.pairs:
        yield title("pairs", pair_summary(words, prediction.pairs))


def _colored(prediction: Prediction, row: Sequence[float], console: Console, width: int, color: bool) -> list[Text]:
    """Returns the lines of the text, each token on the color of its weight."""
    text = Text()
    for piece in prediction.shaded(row):
        signs = piece.text.replace("\t", " ")
        if piece.shade is None:
            text.append(signs, style="dim" if piece.unread else "")
            continue
        if color:
            text.append(signs, style=style(piece.shade) + Style(underline=piece.is_unknown or None))
        else:
            text.append(f"[{signs}]" if piece.shade >= BRACKETED else signs)
    text.rstrip()
    lines = list(text.wrap(console, width))
    for line in lines:
        line.rstrip()
    return lines


def style(shade: float) -> Style:
    """Returns the style of a token by its strength, 0 to 1; below `FAINTEST` it has none."""
    if shade < FAINTEST:
        return Style.null()
    step = int((shade - FAINTEST) / (1 - FAINTEST) * len(RAMP))
    return Style(color="#000000", bgcolor=RAMP[min(step, len(RAMP) - 1)])
