"""Writes the rows of `data=demo`: short reviews from a seeded grammar that knows which words decide the label.

The words are in `grammar.yaml`. Every split is balanced, no template is used in two splits, and the rows are the
same on every machine: `git diff` shows no change unless the grammar has changed.

    python benchmarks/demo/rows.py
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import yaml
from pydantic import BaseModel

from sentattn.data.corpus import Row
from sentattn.data.datasets import demo

SIZES = {"train": 5000, "val": 500, "test": 500}
FILE = Path(demo.__file__).with_suffix(".jsonl.gz")
T = TypeVar("T")
Words: TypeAlias = tuple[str, ...]
Tone: TypeAlias = tuple[Words, Words]
"""Words of one kind, by the label that they speak for."""


class Topic(BaseModel):
    """Things that the same adjectives fit."""

    nouns: Words
    adjectives: Tone


class Domain(BaseModel):
    """A kind of review, such as that of a film."""

    topics: tuple[Topic, ...]
    wholes: Topic
    kinds: Words
    preposition: str
    seen: str


class Templates(BaseModel):
    """The templates of one split."""

    states: Words
    plain: Words
    denials: Words
    contrasts: Words
    fillers: dict[str, Words]


class Grammar(BaseModel):
    """The content of `grammar.yaml`, which describes it."""

    tones: dict[str, Tone]
    words: dict[str, Words]
    copulas: dict[str, tuple[Words, ...]]
    auxiliaries: tuple[Words, ...]
    domains: dict[str, Domain]
    templates: dict[str, Templates]


GRAMMAR = Grammar.model_validate(yaml.safe_load(Path(__file__).with_name("grammar.yaml").read_text(encoding="utf-8")))
TONES, WORDS = GRAMMAR.tones, GRAMMAR.words

# Of 25 reviews, how many give one opinion without a negator, one that is negated, or two of which one decides. A bag
# of words gets little more than the first kind right: `mean` has an accuracy between 0.65 and 0.85.
PLAN = ("plain",) * 16 + ("negated",) * 5 + ("contrast",) * 4
MAX_TOKENS = 30


def unmarked(marked: str, label: int) -> Row:
    """Returns the row of a text whose deciding words are in square brackets."""
    text, rationale = "", []
    for index, part in enumerate(re.split(r"[\[\]]", marked)):
        if index % 2:  # Brackets do not nest, so every second part was in them.
            rationale += [(len(text) + word.start(), len(text) + word.end()) for word in re.finditer(r"\S+", part)]
        text += part
    return Row(text, label, rationale=tuple(rationale))


class Writer:
    """Writes reviews from the templates of one split, with the deciding words in square brackets.

    Every choice comes from `random.random()`, the one method whose sequence Python promises to keep for a seed.
    """

    def __init__(self, templates: Templates, seed: int) -> None:
        self._templates = templates
        self._random = random.Random(seed)  # noqa: S311 - not for secrets

    def reviews(self, size: int) -> tuple[Row, ...]:
        """Returns different reviews, as many of one label as of the other, in mixed order."""
        rows: dict[str, Row] = {}
        while len(rows) < size:
            index = len(rows)
            label = index % 2
            row = unmarked(self._review(label, PLAN[index // 2 % len(PLAN)]), label)
            if row.text not in rows and len(re.findall(r"[\w']+|[^\w\s]", row.text)) <= MAX_TOKENS:
                rows[row.text] = row
        # `shuffle` may change between Pythons.
        return tuple(sorted(rows.values(), key=lambda _: self._random.random()))

    def _review(self, label: int, plan: str) -> str:
        """Returns one review: an opinion, often with a neutral sentence before or after it."""
        name = self._pick(tuple(GRAMMAR.domains))
        negated = plan == "negated" or (plan == "contrast" and self._chance(0.2))
        slots = self._slots(GRAMMAR.domains[name], label, negated)
        templates = self._templates
        if plan == "contrast":
            opinions = templates.contrasts
        elif plan == "negated":
            opinions = self._pick((templates.states, templates.denials))
        else:
            opinions = templates.states + templates.plain
        opinion = self._pick(opinions).format_map(slots)
        filler = self._pick(templates.fillers[name]).format_map(slots | {"friend": slots["friend2"]})
        text = " ".join(self._pick(((opinion,), (opinion,), (opinion, filler), (filler, opinion))))
        return text.removesuffix(".") if self._chance(0.2) else text

    def _slots(self, domain: Domain, label: int, negated: bool) -> dict[str, str]:
        first, second = self._two(domain.topics)
        friend, friend2 = self._two(WORDS["friends"])
        whole, kind = self._pick(domain.wholes.nouns).split("/")[0], self._pick(domain.kinds)
        deciding = self._opinion(first, label, negated, TONES["verbs"][label] + TONES["decisive_verbs"][label])
        conceded = self._opinion(second, 1 - label, self._chance(0.2), TONES["verbs"][1 - label])
        slots = deciding | {f"{name}2": _bare(value) for name, value in conceded.items()}
        slots |= {
            "first": _bare(self._adjective(first, 1 - label)),
            "First2": _capitalized(_bare(self._mild(first, 1 - label))),
            "Word": _capitalized(self._mild(domain.wholes, label)),
            "be_whole": self._predicate(domain.wholes, "it", label, negated),
            "a_word": _with_article(self._adjective(domain.wholes, label)),
            "a_deny": _with_article(self._mild(domain.wholes, 1 - label)),
            "best": self._marked(TONES["superlatives"][label]),
            "deny_best": self._marked(TONES["superlatives"][1 - label]),
            "like": self._marked(TONES["likes"][label]),
            "not_like": self._negated_verb(TONES["likes"][1 - label]),
            # What could *not* be spoiled was good.
            "effect": self._marked(TONES["effects"][1 - label]),
            "whole": whole,
            "kind": kind,
            "here": f"{domain.preposition} this {kind}",
            "seen": domain.seen,
            "friend": friend,
            "friend2": friend2,
            "day": self._pick(WORDS["days"]),
            "city": self._pick(WORDS["cities"]),
        }
        return {name: value.replace("<whole>", whole) for name, value in slots.items()}

    def _opinion(self, topic: Topic, label: int, negated: bool, verbs: Sequence[str]) -> dict[str, str]:
        noun, pronoun = self._pick(topic.nouns).split("/")
        return {
            "noun": noun,
            "it": pronoun,
            "was": GRAMMAR.copulas[pronoun][0][0],
            "be": self._predicate(topic, pronoun, label, negated),
            "word": self._mild(topic, label),
            "deny": self._mild(topic, 1 - label),
            "verb": self._pick(verbs),
            "liked": self._marked(TONES["likings"][label]),
        }

    def _predicate(self, topic: Topic, pronoun: str, label: int, negated: bool) -> str:
        """Returns a copula and an adjective or an "a ...", negated where requested."""
        copula, contracted = self._pick(GRAMMAR.copulas[pronoun])
        summary = self._chance(0.12)
        if not negated:
            return f"{copula} " + (
                f"a {self._pick(TONES['summaries'][label])}" if summary else self._adjective(topic, label)
            )
        opposite, negator = 1 - label, self._pick(WORDS["negators"])
        negation = f"[{contracted}]" if negator == "not" and self._chance(0.5) else f"{copula} [{negator}]"
        if summary:
            return f"{negation} a {self._pick(TONES['summaries'][opposite])}"
        degree = f"{self._pick(TONES['negated_degrees'][opposite])} " if negator == "not" and self._chance(0.3) else ""
        return f"{negation} {degree}{self._mild(topic, opposite)}"

    def _negated_verb(self, verbs: Sequence[str]) -> str:
        auxiliary, contracted = self._pick(GRAMMAR.auxiliaries)
        negation = f"[{contracted}]" if self._chance(0.5) else f"{auxiliary} [not]"
        return f"{negation} [{self._pick(verbs)}]"

    def _adjective(self, topic: Topic, label: int) -> str:
        """Returns an adjective with or without its degree."""
        extreme = self._chance(0.35)
        words = TONES["extreme"] if extreme else self._pick((TONES["gradable"], topic.adjectives))
        word = self._marked(words[label])
        degree = self._pick(WORDS["extreme_degrees"] if extreme else TONES["degrees"][label])
        return f"{degree} {word}" if self._chance(0.4) else word

    def _mild(self, topic: Topic, label: int) -> str:
        """Returns an adjective without a degree."""
        return (
            f"[{self._pick(self._pick((TONES['gradable'][label], TONES['extreme'][label], topic.adjectives[label])))}]"
        )

    def _two(self, items: Sequence[T]) -> tuple[T, T]:
        first = self._pick(range(len(items)))
        second = (first + self._pick(range(1, len(items)))) % len(items)
        return items[first], items[second]

    def _pick(self, items: Sequence[T]) -> T:
        return items[int(self._random.random() * len(items))]

    def _marked(self, words: Words) -> str:
        return f"[{self._pick(words)}]"

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _bare(marked: str) -> str:
    return marked.replace("[", "").replace("]", "")


def _capitalized(marked: str) -> str:
    return re.sub(r"\w", lambda letter: letter[0].upper(), marked, count=1)


def _with_article(phrase: str) -> str:
    phrase = re.sub(r"^(a bit|so) ", "rather ", phrase)  # "a so good film" is no English
    # By letter: the word lists hold no word like "hour" or "unique".
    return f"{'an' if _bare(phrase)[0] in 'aeiou' else 'a'} {phrase}"


def require_different_templates() -> None:
    """Stops if two splits share a template; other slots in the same places make no other template."""
    frames = []
    for split in GRAMMAR.templates.values():
        templates = (*split.states, *split.plain, *split.denials, *split.contrasts, *sum(split.fillers.values(), ()))
        frames.append({re.sub(r"\{\w+\}|[\[\]]", "_", text).lower().rstrip(".!") for text in templates})
    assert not any(first & second for first, second in itertools.combinations(frames, 2)), "splits share a template"


def main() -> None:
    """Writes the file."""
    require_different_templates()
    lines = [
        json.dumps([split, row.text, row.label, row.rationale]) + "\n"
        for seed, split in enumerate(demo.DemoSource.splits)
        for row in Writer(GRAMMAR.templates[split], seed).reviews(SIZES[split])
    ]
    FILE.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"{FILE}: {len(lines):,} rows, {FILE.stat().st_size:,} bytes. tests/data/datasets/test_demo.py")
    print("fails where they are others, with the SHA-256 that is to be in sentattn.data.datasets.demo.FINGERPRINT.")


if __name__ == "__main__":
    main()
