"""Queries against torch's multihead attention, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drawn_modules import LENGTHS, MASK_BL, drawn
from torch import nn

from sentattn.models.attention.query import Query

DIM = 6
STATES_BLD = torch.randn(3, 4, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
SOURCES = ("first", "mean", "last")
SETTINGS = pytest.mark.parametrize(
    "settings",
    [{}, {"heads": 1}, {"hops": 3, "heads": 3}, *({"query_from": source, "heads": 3} for source in SOURCES)],
    ids=str,
)


def make(settings: dict[str, Any]) -> Query:
    return drawn(Query(dim=DIM, **{"heads": 2, **settings}))


@SETTINGS
def test_equals_multihead_attention_of_torch(settings: dict[str, Any]) -> None:
    module = make(settings)
    theirs = nn.MultiheadAttention(DIM, module.heads, batch_first=True, dtype=torch.float64)
    rows = [STATES_BLD[row, :n] for row, n in enumerate(LENGTHS)]
    sources = {
        "first": [row[0] for row in rows],
        "mean": [row.mean(0) for row in rows],
        "last": [row[-1] for row in rows],
    }
    source = sources.get(settings.get("query_from", "learned"))
    queries_BRD = module.queries_RD.expand(3, -1, -1) if source is None else torch.stack(source)[:, None]
    with torch.no_grad():
        projection = torch.eye(DIM) if module.query is None else module.query.weight
        theirs.in_proj_weight.copy_(torch.cat([projection, module.key.weight, module.value.weight]))
        if module.query is not None:
            theirs.in_proj_bias[:DIM] = module.query.bias
    theirs.out_proj.load_state_dict(module.output.state_dict())
    values_BRD, weights_BRL = theirs(queries_BRD, STATES_BLD, STATES_BLD, key_padding_mask=~MASK_BL)
    attended = module(STATES_BLD, MASK_BL)
    assert module.hops == queries_BRD.shape[1] == settings.get("hops", 1)
    torch.testing.assert_close(attended.values_BRD, values_BRD)
    torch.testing.assert_close(attended.weights_BRL, weights_BRL)


@pytest.mark.parametrize(
    ("settings", "expected", "scoring"),
    [
        ({"hops": 3}, 3 * 100 + 100 * 100, ["key.weight", "queries_RD"]),
        *(
            ({"query_from": source}, 2 * 100 * 100 + 100, ["key.weight", "query.bias", "query.weight"])
            for source in SOURCES
        ),
    ],
    ids=str,
)
def test_parameter_counts(settings: dict[str, Any], expected: int, scoring: list[str]) -> None:
    module = Query(dim=100, **settings)
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    assert sorted(names[id(parameter)] for parameter in module.scoring_parameters()) == scoring
    assert sum(p.numel() for p in module.scoring_parameters()) == expected
    assert sum(p.numel() for p in module.parameters()) == expected + 2 * 100 * 100 + 100


def test_heads_that_do_not_divide_the_states_are_refused() -> None:
    with pytest.raises(ValueError, match="heads must divide the width 6"):
        Query(dim=DIM, heads=4)
