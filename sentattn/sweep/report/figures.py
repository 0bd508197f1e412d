"""A figure of a result, by the name that an objective has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sentattn.config.groups import at


def figure_of(result: Mapping[str, Any], metric: str) -> float | None:
    """Returns a figure such as `val/accuracy`, or a cost such as `latency_ms.one`; None where it is no number."""
    value = result.get("metrics", {}).get(metric, at(result, metric))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
