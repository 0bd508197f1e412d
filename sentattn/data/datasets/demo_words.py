"""The words of the demo corpus: opinions by what they say, and the things they are about.

Square brackets mark the words that decide a label; `<whole>` is replaced by what the review is about.
"""

from __future__ import annotations

from typing import NamedTuple


class Tone(NamedTuple):
    """Words of one kind, by the label they speak for: `bad` is label 0, `good` is label 1."""

    bad: tuple[str, ...]
    good: tuple[str, ...]


class Topic(NamedTuple):
    """Things that the same adjectives fit.

    Attributes:
        nouns: Each as `noun/pronoun`, which also gives its number: a thing is `it`, several are `they`.
        adjectives: Adjectives for these nouns besides `GRADABLE` and `EXTREME`, which fit all.
    """

    nouns: tuple[str, ...]
    adjectives: Tone


class Domain(NamedTuple):
    """A kind of review.

    Attributes:
        topics: The parts that a review comments on.
        wholes: What the review is about; the adjectives fit "a ... film", "a ... dinner".
        kinds: Names for the place or the work itself.
        preposition: The word before "this {kind}".
        seen: The verb of "the best film I have ever ...".
    """

    topics: tuple[Topic, ...]
    wholes: Topic
    kinds: tuple[str, ...]
    preposition: str
    seen: str


# Adjectives that take "very" ...
GRADABLE = Tone(
    bad=("bad", "poor", "disappointing", "forgettable", "mediocre", "weak", "boring", "unpleasant"),
    good=("good", "great", "nice", "impressive", "memorable", "enjoyable", "lovely", "charming"),
)
# ... and those that do not.
EXTREME = Tone(
    bad=("awful", "terrible", "horrible", "dreadful", "pathetic", "disgusting"),
    good=("wonderful", "excellent", "amazing", "awesome", "fantastic", "perfect", "brilliant", "superb"),
)
DEGREES = Tone(bad=("very", "really", "rather", "so", "a bit"), good=("very", "really", "so", "quite", "truly"))
EXTREME_DEGREES = ("absolutely", "truly", "simply", "really")

# Each turns an adjective or an "a ..." into its opposite.
NEGATORS = ("not", "not", "not", "hardly", "never", "far from", "anything but", "by no means")
NEGATED_DEGREES = Tone(bad=("at all", "that", "really", "so"), good=("at all", "very", "really", "that"))  # after "not"
COPULAS = {"it": (("was", "wasn't"), ("is", "isn't")), "they": (("were", "weren't"), ("are", "aren't"))}

SUMMARIES = Tone(
    bad=("[mess]", "[bore]", "[letdown]", "[disaster]", "[disappointment]", "[waste] of time", "[waste] of money"),
    good=("[joy]", "[delight]", "[treat]", "[pleasure]", "[triumph]", "[masterpiece]", "[gem]"),
)
SUPERLATIVES = Tone(bad=("worst",), good=("best",))
VERBS = Tone(
    bad=("[annoyed] me", "[bored] me", "[disappointed] us", "made me [yawn]"),
    good=("[charmed] me", "[delighted] us", "[impressed] me", "made me [smile]"),
)
# Too strong for an opinion that is only conceded.
DECISIVE_VERBS = Tone(bad=("[ruined] the <whole>",), good=("[saved] the <whole>",))
LIKINGS = Tone(bad=("hated", "disliked", "regretted"), good=("loved", "liked", "enjoyed", "adored"))
# The present tense, and the form after "did not".
LIKES = Tone(bad=("hate", "dislike", "regret"), good=("like", "love", "enjoy", "recommend"))
AUXILIARIES = (("did", "didn't"), ("do", "don't"), ("would", "wouldn't"))
# What a weak or a strong point could *not* do to the whole: sorted by its own sense, not by the label it leads to.
EFFECTS = Tone(bad=("spoil", "ruin"), good=("save", "rescue"))

FILM = Domain(
    topics=(
        Topic(
            (
                "plot/it",
                "story/it",
                "script/it",
                "ending/it",
                "dialogue/it",
                "second half/it",
                "scenes/they",
                "jokes/they",
            ),
            Tone(
                bad=("dull", "slow", "predictable", "confusing", "silly", "stupid"),
                good=("gripping", "clever", "funny", "original", "moving", "exciting"),
            ),
        ),
        Topic(
            ("acting/it", "cast/it", "actors/they", "hero/it", "villain/it", "characters/they"),
            Tone(bad=("wooden", "bland", "annoying"), good=("convincing", "funny", "likeable")),
        ),
        Topic(
            ("music/it", "camera work/it", "costumes/they", "effects/they", "songs/they"),
            Tone(bad=("ugly", "cheap", "lazy"), good=("beautiful", "stylish", "inventive")),
        ),
    ),
    wholes=Topic(
        ("film/it", "movie/it", "film/it", "movie/it", "show/it"),
        Tone(bad=("dull", "slow", "predictable", "stupid"), good=("gripping", "clever", "funny", "original")),
    ),
    kinds=("film", "movie"),
    preposition="in",
    seen="seen",
)

RESTAURANT = Domain(
    topics=(
        Topic(
            (
                "food/it",
                "food/it",
                "soup/it",
                "pizza/it",
                "bread/it",
                "dessert/it",
                "noodles/they",
                "drinks/they",
                "dishes/they",
            ),
            Tone(
                bad=("bland", "greasy", "cold", "tasteless", "overpriced"),
                good=("delicious", "tasty", "fresh", "yummy"),
            ),
        ),
        Topic(
            ("service/it", "staff/it", "waiter/it", "waiters/they", "cooks/they"),
            Tone(bad=("rude", "slow", "careless", "unfriendly"), good=("friendly", "attentive", "polite", "helpful")),
        ),
        Topic(
            ("dining room/it", "terrace/it", "atmosphere/it", "bar/it", "seats/they"),
            Tone(bad=("ugly", "dirty", "gloomy", "noisy"), good=("beautiful", "cosy", "clean", "stylish")),
        ),
    ),
    wholes=Topic(
        ("dinner/it", "meal/it", "restaurant/it", "place/it"),
        Tone(bad=("bland", "overpriced", "dull", "dirty"), good=("tasty", "delicious", "cosy", "friendly")),
    ),
    kinds=("restaurant", "place"),
    preposition="at",
    seen="had",
)

DOMAINS = {"film": FILM, "restaurant": RESTAURANT}

FRIENDS = ("sister", "brother", "aunt", "mother", "father", "boss", "wife", "husband", "neighbour", "old teacher")
DAYS = ("Monday", "a Tuesday", "Friday", "a rainy Sunday", "my birthday", "the first day of spring")
CITIES = ("Lisbon", "Leeds", "Vienna", "Oslo", "Ghent", "Turin")
