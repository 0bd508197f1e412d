"""A prediction on the terminal: label, probabilities as bars, the text coloured by attention."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from sentattn.insight.pairs import lead
from sentattn.insight.pieces import UNREAD, pieces, visible
from sentattn.insight.prediction import Prediction
from sentattn.insight.shares import shades, summary

NARROWEST, WIDEST = 20, 100
BAR = 30
BEGINNING = 60
MOST_CLASSES = 10
MOST_BLOCKS = 6
MOST_LINES = 3
# Grey to orange by saturation rather than lightness, so that they rank alike on dark and on light
# backgrounds; black is legible on each (contrast of 7 and more); each is one of a 256-colour
# terminal's own. What is weaker than the first step keeps the terminal's colours.
RAMP = ("#a8a8a8", "#d7af87", "#ffaf5f", "#ff8700")
FAINTEST = 0.15
BRACKETED = 0.6


class Line(NamedTuple):
    """A line of a coloured text, with the largest weight in it."""

    text: Text
    peak: float


def render(prediction: Prediction, *, color: bool, width: int) -> str:
    """Returns a prediction as lines of text.

    With one hop its attention; with up to six the mean over the hops and each hop, of which long
    texts show the strongest lines; with more the mean and each hop's leading words. Where there are
    pairs, a line names the heaviest ones. Without colour, brackets stand around the words that are
    strongest in their row.

    Args:
        prediction: What to show.
        color: Whether to colour by ANSI codes, as many colours as the terminal has.
        width: Columns of the terminal; 20 are used at least.
    """
    width = max(NARROWEST, width)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    color = color and console.color_system is not None
    console.print(_verdict(prediction))
    for line in _bars(prediction.probabilities, width=width, color=color):
        console.print(line)
    for block in _blocks(prediction, console, width=min(width, WIDEST), color=color):
        console.print()
        for line in block:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")
    return "\n".join(lines if color else map(str.rstrip, lines)).rstrip("\n")


def line(prediction: Prediction) -> str:
    """Returns a prediction in one line: label, probability and the beginning of the text."""
    label = visible(prediction.label)
    width = min(20, max(cell_len(visible(name)) for name in prediction.probabilities))
    beginning = textwrap.shorten(visible(prediction.text[:WIDEST]), BEGINNING, placeholder=UNREAD.rstrip())
    return f"{set_cell_size(label, max(width, cell_len(label)))}  {_percent(_probability(prediction))}  {beginning}"


def _probability(prediction: Prediction) -> float:
    return prediction.probabilities[prediction.label]


def _percent(share: float) -> str:
    return f"{100 * share:5.1f} %"


def _verdict(prediction: Prediction) -> Text:
    label = Text(" ".join(visible(prediction.label).split()), style="bold")
    return label.append(f"  {_percent(_probability(prediction)).strip()}", style="not bold")


def _bars(probabilities: dict[str, float], *, width: int, color: bool) -> Iterator[Text]:
    """Yields a bar a class, in the order of the classes; of many classes the most likely ones."""
    shown = list(probabilities.items())
    if len(shown) > MOST_CLASSES:
        shown = sorted(shown, key=lambda item: -item[1])[:MOST_CLASSES]
    names = [" ".join(visible(name).split()) for name, _ in shown]
    room = width - len("  ") - len("  ") - len(" 100.0 %")
    name_width = min(max(map(cell_len, names)), room // 2)
    bar_width = min(BAR, room - name_width)
    for name, (_, share) in zip(names, shown, strict=True):
        bar = Text(bar_of(share, bar_width, color=color), style=RAMP[-1] if color else "")
        yield Text.assemble(f"  {set_cell_size(name, name_width)}  ", bar, f" {_percent(share)}")
    if rest := len(probabilities) - len(shown):
        together = max(0.0, 1 - sum(share for _, share in shown))
        yield Text(f"  {rest} more, together {_percent(together).strip()}")


def bar_of(share: float, width: int, *, color: bool) -> str:
    """Returns a bar that fills `share` of `width` columns, to an eighth of a column where it is coloured."""
    if not color:
        return ("#" * round(share * width)).ljust(width, ".")
    eighths = round(share * width * 8)
    full, part = divmod(eighths, 8)
    return ("\u2588" * full + (chr(0x2590 - part) if part else "")).ljust(width)


def _blocks(prediction: Prediction, console: Console, *, width: int, color: bool) -> Iterator[list[Text]]:
    hops = prediction.attention
    words = [visible(word) for word in prediction.words]
    mean = prediction.mean_attention
    name = "attention" if len(hops) == 1 else f"mean of {len(hops)} hops"
    whole = [line.text for line in _coloured(prediction, mean, console, width, color)]
    yield [*_title(name, summary(words, mean), console, width), *whole]
    if len(hops) > MOST_BLOCKS:
        leads = {f"hop {r:<2}": summary(words, row) for r, row in enumerate(hops, start=1)}
        yield [part for hop, led in leads.items() for part in _title(hop, led, console, width)]
    elif len(hops) > 1:
        for r, row in enumerate(hops, start=1):
            lines = _coloured(prediction, row, console, width, color)
            yield [*_title(f"hop {r}", summary(words, row), console, width), *_strongest(lines)]
    if prediction.pairs:
        yield _title("pairs", lead(words, prediction.pairs), console, width)


def _title(name: str, led: str, console: Console, width: int) -> list[Text]:
    title = Text.assemble((name, "bold"), "  ", (led, "italic"))
    return list(title.wrap(console, width))


def _coloured(prediction: Prediction, row: Sequence[float], console: Console, width: int, color: bool) -> list[Line]:
    """Returns the lines of the text, each token on the colour of its weight."""
    text, heavy = Text(), []
    strength = shades(row)
    for piece in pieces(prediction.text, prediction.spans):
        shown = piece.text.replace("\t", " ")
        if piece.token is None:
            text.append(shown, style="dim" if piece.unread else "")
            continue
        heavy.append((len(text), row[piece.token]))
        if color:
            text.append(shown, style=style(strength[piece.token]))
        else:
            text.append(f"[{shown}]" if strength[piece.token] >= BRACKETED else shown)
    text.rstrip()
    return list(_with_peaks(text, text.wrap(console, width), heavy))


def _with_peaks(text: Text, lines: Iterable[Text], heavy: Sequence[tuple[int, float]]) -> Iterator[Line]:
    """Yields each line with the largest weight that begins in it, given each token's place in the text."""
    end = 0
    for line in lines:
        start = text.plain.index(line.plain, end)
        end = start + len(line.plain)
        line.rstrip()
        yield Line(line, max((weight for place, weight in heavy if start <= place < end), default=0.0))


def _strongest(lines: Sequence[Line]) -> Iterator[Text]:
    """Yields the few lines that hold the largest weights, in their order, with a sign where others were left out."""
    kept = sorted(sorted(range(len(lines)), key=lambda i: -lines[i].peak)[:MOST_LINES])
    for before, i in zip([-1, *kept[:-1]], kept, strict=True):
        if i > before + 1:
            yield Text(UNREAD.strip(), style="dim")
        yield lines[i].text
    if kept and kept[-1] < len(lines) - 1:
        yield Text(UNREAD.strip(), style="dim")


def style(shade: float) -> Style:
    """Returns how a token looks at a strength from 0 to 1; below `FAINTEST` it is left alone."""
    if shade < FAINTEST:
        return Style.null()
    step = int((shade - FAINTEST) / (1 - FAINTEST) * len(RAMP))
    return Style(color="#000000", bgcolor=RAMP[min(step, len(RAMP) - 1)])
