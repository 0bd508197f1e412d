"""The space of a sweep: ranges in Hydra's grammar, as Optuna's distributions.

The tag `zero` adds the point 0 to a range on a log scale: the scale is drawn out downwards by a quarter of its length,
and everything below the range's start stands for 0. So a fifth of random draws are 0, next to the smallest numbers, and
it stays one dimension: a switch next to the range would be a condition, which many samplers do not model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Quote, QuotedString, RangeSweep
from hydra.errors import HydraException
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)

from sentattn.config.groups import Choices
from sentattn.config.schema import RAW
from sentattn.config.types import as_typed
from sentattn.errors import Fault, SettingError, suggestion

if TYPE_CHECKING:
    from optuna import Trial

Value: TypeAlias = str | int | float | bool | None
When: TypeAlias = Mapping[str, tuple[Value, ...]]
"""The values of other dimensions under which a dimension is set; it is left out under all others."""
Distribution: TypeAlias = CategoricalDistribution | FloatDistribution | IntDistribution

LOG, ZERO = "log", "zero"
FUNCTIONS = ("choice", "range", "interval", "tag", "glob", "sort", "shuffle", "int", "float", "str", "bool")
EXAMPLES = "range(1,31), interval(0,1), tag(log,interval(1e-3,1)) and choice(a,b)"
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
CAST = re.compile(r"\b(int|float)\s*\(([^()]*,[^()]*)\)")
"""A list of values, which Hydra casts one by one, though it looks like a range."""
NAMES = ("model.embedding.name", "model.embedding.revision", "data.tokenizer", "data.dataset")
"""Settings that hold names, in which there are no commas."""
WORD = re.compile(r"[A-Za-z_][\w.-]*")
OTHER_THAN_TEXT = {"true", "false", "null", "nan", "inf"}
"""Words that Hydra's grammar reads as something else, in any mixture of small and capital letters."""
ROUNDING = 1e-8
"""How far a value may be from a step of its range, as in Optuna."""
ZERO_SHARE = 0.2
"""Of a log range with 0: the share of random draws that are 0."""


@dataclass(frozen=True)
class Dimension:
    """One setting that is searched.

    Attributes:
        key: The setting.
        distribution: What Optuna draws from.
        zero: Whether draws below `floor` stand for 0.
        floor: The smallest number but 0, where `zero`.
        when: Under which values of other dimensions it is set at all.
        written: The range as it was written.
    """

    key: str
    distribution: Distribution
    zero: bool = False
    floor: float = 0.0
    when: When = field(default_factory=dict)
    written: str = field(default="", compare=False)

    @property
    def is_categorical(self) -> bool:
        """Whether it is a list of choices, not a range of numbers."""
        return isinstance(self.distribution, CategoricalDistribution)

    def value(self, drawn: Value) -> Value:
        """Returns the setting's value for what was drawn."""
        return 0.0 if self.zero and isinstance(drawn, float) and drawn < self.floor else drawn

    def drawn(self, value: Value) -> Value:
        """Returns what is drawn for a value: the middle of what stands for 0, else the value itself."""
        if not isinstance(self.distribution, FloatDistribution) or not isinstance(value, int | float):
            return value
        return math.sqrt(self.distribution.low * self.floor) if self.zero and value == 0 else float(value)

    def suggest(self, trial: Trial) -> Value:
        """Returns the setting's value in a trial."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return trial.suggest_categorical(self.key, distribution.choices)
        is_integer = isinstance(distribution, IntDistribution)
        draw: Callable[..., Value] = trial.suggest_int if is_integer else trial.suggest_float
        low, high, step = distribution.low, distribution.high, distribution.step
        return self.value(draw(self.key, low, high, step=step, log=distribution.log))

    def contains(self, value: Value) -> bool:
        """Whether a value lies in the range."""
        if isinstance(self.distribution, CategoricalDistribution):
            return is_one_of(value, self.distribution.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if isinstance(self.distribution, IntDistribution) and not isinstance(value, int):
            return False
        if self.zero and value < self.floor:
            return value == 0
        low, high, step = self.distribution.low, self.distribution.high, self.distribution.step
        steps = (value - low) / step if step else 0.0
        return low <= value <= high and abs(steps - round(steps)) < ROUNDING

    def ends(self) -> tuple[Value, ...]:
        """Returns all choices, or both ends of a range, and 0 where it is one of its points."""
        if isinstance(self.distribution, CategoricalDistribution):
            return tuple(self.distribution.choices)
        low, high = self.distribution.low, self.distribution.high
        return (self.floor, high, 0.0) if self.zero else (low, high)

    def values(self) -> Iterator[Value] | None:
        """Returns all values one after another, or None for a continuous range."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return iter(distribution.choices)
        if distribution.step is None:
            return None
        low, step = Decimal(str(distribution.low)), Decimal(str(distribution.step))
        count = round((distribution.high - distribution.low) / distribution.step) + 1
        number = int if isinstance(distribution, IntDistribution) else float
        return (number(low + position * step) for position in range(count))

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Whether it is set under these values of other dimensions."""
        return all(key in values and is_one_of(values[key], legal) for key, legal in self.when.items())


def is_one_of(value: Value, legal: Iterable[Value]) -> bool:
    """Whether a value is among others; 1, 1.0 and true are three."""
    return any(type(other) is type(value) and other == value for other in legal)


def is_range(key: str, text: str) -> bool:
    """Whether a text stands for several values, valid or not; of texts and paths only `NAMES` have several."""
    call = CALL.match(text)
    if key in RAW:
        is_call = call is not None and call[1] in FUNCTIONS
        return (is_call and key in (*NAMES, "data.train", "data.vectors", "init_from")) or (
            "," in text and key in NAMES
        )
    if call is not None and suggestion(call[1].lower(), FUNCTIONS):
        return True
    try:
        return OverridesParser.create().parse_override(f"{key}={text}").is_sweep_override()
    except HydraException:
        return False


def read_dimension(key: str, text: str, choices: Choices, when: Mapping[str, Any] | None = None) -> Dimension:
    """Reads a range in Hydra's grammar.

    Args:
        key: The setting.
        text: Such as `range(1,31)`, `tag(log,interval(1e-3,1))`, `choice(flatten,mean,prune)`, `1,2,4`.
        choices: Groups and choices, for `glob`.
        when: Under which values of other dimensions it is set; with conditions, a single choice is a range too.

    Raises:
        SettingError: If it cannot be read, or holds fewer than two values.
    """
    try:
        parsed: Any = OverridesParser.create().parse_override(f"key={text}").value()
        if isinstance(parsed, Glob) and key in choices.groups():
            parsed = ChoiceSweep(list=[*parsed.filter(choices.names(key))])
        if not isinstance(parsed, ChoiceSweep | RangeSweep | IntervalSweep):
            raise ValueError("glob(...) is for groups" if isinstance(parsed, Glob) else "it is one value")
        if cast := CAST.search(text):
            name, values = cast.groups()
            raise ValueError(
                f"{cast[0]} lists {values} and is no range: type choice({values}) or {name}(interval(LOW,HIGH))"
            )
        legal = set() if isinstance(parsed, ChoiceSweep) else {LOG}
        if isinstance(parsed, IntervalSweep) and isinstance(parsed.start, float) and LOG in parsed.tags:
            legal.add(ZERO)
        for tag in sorted(parsed.tags - legal):
            hint = f"{suggestion(tag, (LOG, ZERO))} Numbers have log, log intervals of floats have zero"
            raise ValueError(f"the tag {tag} is not legal here.{hint}")
        distribution = _choices(parsed, 1 if when else 2) if isinstance(parsed, ChoiceSweep) else _numbers(parsed)
    except (HydraException, ValueError) as error:
        call = CALL.match(text)
        close = suggestion(call[1].lower(), FUNCTIONS) if call and call[1] not in FUNCTIONS else ""
        reason = " ".join(str(error.__cause__ or error).replace("`", "").split()).rstrip(".")
        message = f"{key}={text}: {reason}.{close} Ranges are {EXAMPLES}."
        raise SettingError(Fault(key, "range", message)) from error
    dimension = Dimension(key, distribution, when=when or {}, written=text)
    if ZERO not in parsed.tags or isinstance(distribution, CategoricalDistribution):
        return dimension
    floor, high = distribution.low, distribution.high
    low = floor * (floor / high) ** (ZERO_SHARE / (1 - ZERO_SHARE))
    return replace(dimension, distribution=FloatDistribution(low, high, log=True), zero=True, floor=floor)


def _choices(parsed: ChoiceSweep, fewest: int) -> CategoricalDistribution:
    values: list[Any] = [value.text if isinstance(value, QuotedString) else value for value in parsed.list]
    numbers = [value for value in values if isinstance(value, int | float)]
    if not all(map(math.isfinite, numbers)) or any(isinstance(value, list | dict | ChoiceSweep) for value in values):
        raise ValueError("choices are names, finite numbers, true, false and null")
    if len(values) < fewest:
        raise ValueError(f"{' '.join(map(as_typed, values)) or 'nothing'} is all there is to choose from")
    if double := [value for position, value in enumerate(values) if value in values[:position]]:
        raise ValueError(f"the choice {as_typed(double[0])} is listed twice")
    return CategoricalDistribution(values)


def _numbers(parsed: RangeSweep | IntervalSweep) -> FloatDistribution | IntDistribution:
    """A range leaves out its end; counted down or up it holds the same values."""
    is_log, step = LOG in parsed.tags, None
    numbers: list[Any] = [parsed.start, parsed.end if isinstance(parsed, IntervalSweep) else parsed.stop]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("both ends must be finite")
    if isinstance(parsed, RangeSweep):
        numbers.append(parsed.step)
        start, stop, width = (Decimal(str(number)) for number in numbers)
        count = max(0, math.ceil((stop - start) / width)) if width.is_finite() and width else 0
        last = start + (count - 1) * width if count else start
        low, high, step = min(start, last), max(start, last), abs(width)
    else:
        low, high = numbers
    if low >= high:
        raise ValueError("it holds fewer than two values; int(...) cuts off decimals, range(...) leaves out its end")
    if is_log and low <= 0:
        raise ValueError(f"a log scale begins above 0, got {low}; tag(log,zero,interval(1e-3,1)) adds the point 0")
    if all(isinstance(number, int) for number in numbers):
        return IntDistribution(int(low), int(high), log=is_log, step=int(step or 1))
    return FloatDistribution(float(low), float(high), log=is_log, step=None if step is None else float(step))


def combinations(dimensions: Sequence[Dimension]) -> Iterator[dict[str, Value]]:
    """Yields all combinations of the values of dimensions that are not continuous, along their conditions."""
    if not dimensions:
        yield {}
        return
    *others, last = dimensions
    for values in combinations(others):
        if last.is_active(values):
            yield from ({**values, last.key: value} for value in last.values() or ())
        else:
            yield values


def first_point(space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Returns the point of a space with the first value of each dimension."""
    values: dict[str, Value] = {}
    for key, dimension in space.items():
        if dimension.is_active(values):
            values[key] = dimension.ends()[0]
    return values


def points(space: Mapping[str, Dimension], most: int) -> int | None:
    """Returns how many different trials a space has; None where it is continuous or has more than `most`."""
    if any(dimension.values() is None for dimension in space.values()):
        return None
    count = sum(1 for _ in islice(combinations(list(space.values())), most + 1))
    return count if count <= most else None


def to_json(space: Mapping[str, Dimension]) -> list[dict[str, Any]]:
    """Returns a space as it is kept with a study."""
    return [
        vars(dimension) | {"distribution": distribution_to_json(dimension.distribution)} for dimension in space.values()
    ]


def from_json(kept: Iterable[Mapping[str, Any]]) -> dict[str, Dimension]:
    """Returns the space that was kept with a study."""
    space = {}
    for fields in kept:
        when = {key: tuple(legal) for key, legal in fields["when"].items()}
        distribution = json_to_distribution(fields["distribution"])
        space[fields["key"]] = Dimension(**{**fields, "distribution": distribution, "when": when})
    return space


def suggest(trial: Trial, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Draws the values of a trial by key; a key whose condition does not hold is left out."""
    values: dict[str, Value] = {}
    for key, dimension in space.items():
        if dimension.is_active(values):
            values[key] = dimension.suggest(trial)
    return values


def override(key: str, value: Value) -> str:
    """Returns a setting and its value as typed on the command line, so that Hydra reads the same value."""
    if not isinstance(value, str) or key in RAW:
        assert not isinstance(value, float) or math.isfinite(value)
        return f"{key}={as_typed(value)}"
    if WORD.fullmatch(value) and value.lower() not in OTHER_THAN_TEXT:
        return f"{key}={value}"
    return f"{key}={QuotedString(value, Quote.single).with_quotes()}"
