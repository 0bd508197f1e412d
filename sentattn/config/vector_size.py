"""The size of the words is that of the vectors they start from: known before anything is read or built."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from sentattn.config.arguments import LAST, Faults, Typed
from sentattn.config.groups import Choices, at
from sentattn.config.placing import laid
from sentattn.config.settable import annotation
from sentattn.data.vector_file import width
from sentattn.errors import DataError

VECTORS, SIZE = "data.vectors", "model.embedding.size"


def with_size(settings: dict[str, Any], values: Sequence[Typed], choices: Choices, faults: Faults) -> list[Typed]:
    """Returns the typed values and, before them, the size of the words where they start from vectors.

    Another size that was typed, and vectors that are not there, go to the faults.
    """
    typed = {one.key: one for one in values}
    if VECTORS not in typed and at(settings, VECTORS) is None:
        return list(values)
    resolved, _ = laid(copy.deepcopy(settings), values, choices, Faults())
    vectors, position = at(resolved, VECTORS), typed[VECTORS].position if VECTORS in typed else LAST
    if not isinstance(vectors, str):
        return list(values)
    if annotation(resolved, SIZE) is None:
        faults.add(f"{VECTORS}={vectors}: the words of this model/embedding have no size to take it from.", position)
        return list(values)
    try:
        size = width(vectors)
    except DataError as error:
        faults.add(str(error), position)
        return list(values)
    if SIZE in typed and typed[SIZE].value != size:
        faults.add(
            f"{typed[SIZE]} does not fit {VECTORS}={vectors}, which has {size} numbers a word: leave it out.",
            typed[SIZE].position,
        )
    return [Typed(LAST, SIZE, str(size), size), *values]
