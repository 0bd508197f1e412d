"""Ranges: Hydra's grammar, read by Hydra's parser, without what that accepts and has no meaning."""

from __future__ import annotations

import math
import re
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Override, QuotedString, RangeSweep, Sweep
from hydra.errors import HydraException

from sentattn.config.schema import RAW
from sentattn.config.types import as_typed
from sentattn.errors import SettingError, suggestion

LOG, ZERO = "log", "zero"
TAGS = (LOG, ZERO)
FUNCTIONS = ("choice", "range", "interval", "tag", "glob", "sort", "shuffle", "int", "float", "str", "bool")
RANGES = "range(1,31), interval(0,1), tag(log,interval(1e-3,1)) and choice(a,b)"
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
VECTORS = "data.vectors"

Range = ChoiceSweep | RangeSweep | IntervalSweep | Glob
"""What Hydra makes of a range."""


def is_range(key: str, text: str) -> bool:
    """Whether a text stands for several values, valid or not; texts and paths are always one value."""
    call = CALL.match(text)
    if key in RAW:
        return key == VECTORS and call is not None and call[1] in FUNCTIONS
    if call is not None and (call[1] in FUNCTIONS or suggestion(call[1].lower(), FUNCTIONS)):
        return True
    try:
        return OverridesParser.create().parse_override(f"{key}={text}").is_sweep_override()
    except HydraException:
        return False


def read(key: str, text: str) -> Range:
    """Parses a range.

    Raises:
        SettingError: If it cannot be read, is one value, or is nonsense.
    """
    shown = f"{key}={text}"
    call = CALL.match(text)
    if call is not None and call[1] == "shuffle":
        raise SettingError(f"{shown}: the order is the sampler's; leave out shuffle(...).")
    try:
        parsed: Override = OverridesParser.create().parse_override(f"key={text}")
    except HydraException as error:
        raise SettingError(f"{shown}: {_unreadable(key, text, error)}") from error
    found: Any = parsed.value()  # leaves a range as it is
    if not isinstance(found, Range):
        raise SettingError(f"{shown} is one value and no range: put it among the overrides; ranges are {RANGES}.")
    _check_tags(shown, found)
    if isinstance(found, ChoiceSweep):
        _check_choices(key, shown, found)
    elif isinstance(found, RangeSweep):
        _check_range(shown, found)
    elif isinstance(found, IntervalSweep):
        _check_interval(shown, text, found)
    return found


def _unreadable(key: str, text: str, error: HydraException) -> str:
    call = CALL.match(text)
    name = call[1] if call else ""
    reason = str(error.__cause__ or error).strip().splitlines()[0].rstrip(".")
    if call and name not in FUNCTIONS:
        near = suggestion(name.lower(), FUNCTIONS)
        return f"there is no {name}(...).{near} Ranges are {RANGES}."
    if "empty choice" in reason:
        return f"choice() has nothing to choose from; type {key}=choice(a,b)."
    if name == "choice" and "NoneType" in reason:
        rest = re.sub(r"\s*\bnull\b\s*,?|,\s*null\b", "", text.partition("(")[2].rpartition(")")[0])
        return f"choice(...) takes no null; type {key}=null,{rest}, or of a group the name of a choice."
    if name == "choice" and "Sweep" in reason:
        return "choice(...) takes values and no ranges."
    if text.count("(") != text.count(")"):
        return "the parentheses do not match."
    return f"it cannot be read ({reason}); ranges are {RANGES}."


def _check_tags(shown: str, found: Range) -> None:
    tags = found.tags if isinstance(found, Sweep) else set()
    for tag in sorted(tags - set(TAGS)):
        raise SettingError(f"{shown}: there is no tag {tag!r}.{suggestion(tag, TAGS)} The tags are log and zero.")
    if tags and not isinstance(found, RangeSweep | IntervalSweep):
        raise SettingError(f"{shown}: choices have no {' and no '.join(sorted(tags))}; leave the tag out.")
    if ZERO in tags and (LOG not in tags or not isinstance(found, IntervalSweep) or isinstance(found.start, int)):
        raise SettingError(
            f"{shown}: zero adds the point 0 to an interval on a log scale; type tag(log,zero,interval(1e-3,1))."
        )


def _check_choices(key: str, shown: str, found: ChoiceSweep) -> None:
    values: list[Any] = [value.text if isinstance(value, QuotedString) else value for value in found.list]
    found.list = values
    if found.shuffle:
        raise SettingError(f"{shown}: the order is the sampler's; leave out shuffle(...).")
    if any(isinstance(value, Sweep) for value in values):
        raise SettingError(f"{shown}: choice(...) takes values and no ranges.")
    if any(isinstance(value, list | dict) for value in values):
        raise SettingError(
            f"{shown}: lists are no choices, since nothing could be learned from one of them about another; "
            "search a name such as choice(none,balanced), or a number."
        )
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise SettingError(f"{shown}: each choice must be finite.")
    doubled = [value for position, value in enumerate(values) if value in values[:position]]
    if doubled:
        raise SettingError(f"{shown}: {as_typed(doubled[0])} is there twice; leave one out.")
    if len(values) == 1:
        raise SettingError(f"{shown} has one choice and nothing to search; type {key}={as_typed(values[0])}.")


def _check_range(shown: str, found: RangeSweep) -> None:
    start, stop, step = found.start, found.stop, found.step
    assert start is not None
    assert stop is not None
    if found.shuffle:
        raise SettingError(f"{shown}: the order is the sampler's; leave out shuffle(...).")
    if not all(map(math.isfinite, (start, stop, step))):
        raise SettingError(f"{shown}: a range is finite.")
    if step == 0:
        raise SettingError(f"{shown}: with step 0 the range never ends; type range({start},{stop}).")
    if (stop - start) * step <= 0:
        turned = f"range({min(start, stop)},{max(start, stop)})"
        how = f"type {turned}" if start != stop else "its end, which it leaves out, must lie above its start"
        raise SettingError(f"{shown} holds nothing: {how}.")
    if abs(stop - start) <= abs(step):
        raise SettingError(f"{shown} holds one value, {start}: a range leaves out its end.")
    if LOG in found.tags and (not isinstance(start, int) or step != 1):
        raise SettingError(f"{shown}: steps have no log scale; type tag(log,interval({start},{stop})).")
    _check_log(shown, found.tags, start)


def _check_interval(shown: str, text: str, found: IntervalSweep) -> None:
    start, end = found.start, found.end
    assert start is not None
    assert end is not None
    if not math.isfinite(start) or not math.isfinite(end):
        raise SettingError(f"{shown}: both ends must be finite.")
    if start == end:
        rounded = " (int(...) cuts off what follows the point)" if isinstance(start, int) and "." in text else ""
        raise SettingError(f"{shown} holds one value, {as_typed(start)}{rounded}: give it two ends.")
    if start > end:
        raise SettingError(f"{shown}: its start lies above its end; type interval({as_typed(end)},{as_typed(start)}).")
    _check_log(shown, found.tags, start)


def _check_log(shown: str, tags: set[str], low: float) -> None:
    if LOG in tags and low <= 0:
        zero = "; the tag zero adds the point 0: tag(log,zero,interval(1e-3,1))" if low == 0 else ""
        raise SettingError(f"{shown}: a log scale has nothing at {as_typed(low)}; begin above 0{zero}.")
