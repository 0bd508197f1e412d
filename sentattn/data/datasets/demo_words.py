"""The words of the demo corpus: opinions sorted by what they say, and what they can be said about."""

from __future__ import annotations

from typing import NamedTuple


class Tone(NamedTuple):
    """Words of one kind, by the label they speak for: `bad` is label 0, `good` is label 1."""

    bad: tuple[str, ...]
    good: tuple[str, ...]


class Topic(NamedTuple):
    """Things that the same adjectives fit.

    Attributes:
        nouns: Each as `noun/pronoun`, which also tells its number: a thing is `it`, several are `they`.
        adjectives: Adjectives for these nouns, beside `GRADABLE` and `EXTREME`, which fit all.
    """

    nouns: tuple[str, ...]
    adjectives: Tone


class Domain(NamedTuple):
    """A kind of review.

    Attributes:
        topics: What there is to have an opinion on.
        wholes: What the review is about as a whole; the adjectives fit "a ... film", "a ... dinner".
        kinds: Names for the place or the work itself.
        preposition: What stands before "this {kind}".
    """

    topics: tuple[Topic, ...]
    wholes: Topic
    kinds: tuple[str, ...]
    preposition: str


# Adjectives that take "very" and "not" ...
GRADABLE = Tone(
    bad=("bad", "dismal", "disappointing", "dreary", "forgettable", "tiresome"),
    good=("good", "remarkable", "impressive", "memorable", "charming", "lovely"),
)
# ... and those that take neither: "very superb" and "not terrible" are no plain English praise.
EXTREME = Tone(
    bad=("awful", "terrible", "dreadful", "hopeless"), good=("wonderful", "excellent", "superb", "brilliant")
)
DEGREES = Tone(bad=("very", "really", "rather", "a bit"), good=("very", "really", "quite", "truly"))
EXTREME_DEGREES = ("absolutely", "truly", "simply")

# Each turns an adjective or an "a ..." into its opposite.
NEGATORS = ("not", "hardly", "never", "far from", "anything but", "by no means", "in no way")

NEGATED_DEGREES = Tone(bad=("at all", "really"), good=("at all", "very", "really"))  # after "not"

SUMMARIES = Tone(
    bad=("mess", "bore", "letdown", "chore", "disaster"), good=("joy", "delight", "treat", "pleasure", "triumph")
)
VERBS = Tone(
    bad=("[annoyed] me", "[bored] me", "[disappointed] us", "made me [yawn]"),
    good=("[charmed] me", "[delighted] us", "[impressed] me", "made me [smile]"),
)
# Too strong for an opinion that is only conceded.
DECISIVE_VERBS = Tone(bad=("[ruined] the <whole>",), good=("[saved] the <whole>",))
LIKINGS = Tone(bad=("hated", "disliked", "regretted"), good=("loved", "liked", "adored"))
# What a weak or a strong point could *not* do to the whole: sorted by its own sense, not by the label it leads to.
EFFECTS = Tone(bad=("spoil", "ruin"), good=("save", "rescue"))

FILM = Domain(
    topics=(
        Topic(
            ("plot/it", "story/it", "script/it", "ending/it", "dialogue/it", "second half/it", "last scenes/they"),
            Tone(
                bad=("dull", "boring", "slow", "predictable", "confusing", "silly"),
                good=("gripping", "clever", "funny", "original", "moving", "exciting"),
            ),
        ),
        Topic(
            ("hero/he", "heroine/she", "villain/he", "narrator/she", "cast/it", "actors/they", "children/they"),
            Tone(
                bad=("wooden", "bland", "annoying", "lifeless"), good=("convincing", "funny", "likeable", "believable")
            ),
        ),
        Topic(
            ("music/it", "camera work/it", "costumes/they", "effects/they", "songs/they"),
            Tone(bad=("ugly", "cheap", "lazy", "clumsy"), good=("beautiful", "stylish", "elegant", "inventive")),
        ),
    ),
    wholes=Topic(
        ("film/it", "movie/it"),
        Tone(bad=("dull", "boring", "slow", "predictable"), good=("gripping", "clever", "funny", "original")),
    ),
    kinds=("film", "movie"),
    preposition="in",
)

RESTAURANT = Domain(
    topics=(
        Topic(
            (
                "soup/it",
                "fish/it",
                "curry/it",
                "bread/it",
                "dessert/it",
                "dumplings/they",
                "noodles/they",
                "pancakes/they",
            ),
            Tone(
                bad=("bland", "greasy", "stale", "tasteless", "overpriced"),
                good=("delicious", "tasty", "fresh", "fragrant"),
            ),
        ),
        Topic(
            ("service/it", "waiter/he", "waitress/she", "owner/she", "waiters/they"),
            Tone(bad=("rude", "slow", "careless", "clumsy"), good=("friendly", "attentive", "polite", "cheerful")),
        ),
        Topic(
            ("dining room/it", "terrace/it", "garden/it", "bar/it", "window seats/they"),
            Tone(bad=("ugly", "shabby", "gloomy", "noisy"), good=("beautiful", "cosy", "elegant", "stylish")),
        ),
    ),
    wholes=Topic(
        ("dinner/it", "meal/it", "lunch/it"),
        Tone(bad=("bland", "overpriced", "dull"), good=("tasty", "delicious", "enjoyable")),
    ),
    kinds=("restaurant", "place"),
    preposition="at",
)

DOMAINS = {"film": FILM, "restaurant": RESTAURANT}

FRIENDS = ("sister", "brother", "aunt", "uncle", "mother", "father", "boss", "dentist", "neighbour", "old teacher")
DAYS = ("Monday", "a Tuesday", "Friday", "a rainy Sunday", "my birthday", "the first day of spring")
CITIES = ("Lisbon", "Leeds", "Vienna", "Oslo", "Ghent", "Turin")
