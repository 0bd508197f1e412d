"""The templates of the demo corpus. Training, validation and test share words, but no template.

Slots (without a number they speak for the label, with a 2 against it):
    {noun} {it}           a part of the whole and its pronoun
    {whole} {kind}        "film", "dinner"; "film", "place"; {here}: "in this film", "at this place"
    {was}                 "was" or "were", as {noun} needs it
    {be} {be_whole}       what is said of {noun} or {whole}: "was very good", "isn't bad at all", "is a joy"
    {word} {Word}         one adjective that fits {noun}, or {whole} at the beginning of a sentence
    {a_word} {best}       "a good", "an awful"; "best" or "worst", both before {whole}
    {deny} {Deny} {a_deny}  the same against the label: the template negates it
    {first}               what is conceded of {noun} itself
    {verb}                "delighted us", "ruined it"
    {liked} {like} {not_like}  "loved"; "love"; "did not like", "don't recommend"
    {effect}              "spoil" or "save": the template negates it
    {seen}                the verb of "the best film I have ever seen"
    {friend} {day} {city}

Square brackets mark the words that decide, here and in what fills the slots; `demo.py` turns them into spans.
"""

from __future__ import annotations

from typing import NamedTuple


class Templates(NamedTuple):
    """The templates of one split.

    Attributes:
        states: One opinion with {be} or {be_whole}, negated or not.
        plain: One opinion that is not negated.
        denials: One opinion that the template itself negates.
        contrasts: Two opinions, of which one decides.
        fillers: Sentences without opinion, by domain.
    """

    states: tuple[str, ...]
    plain: tuple[str, ...]
    denials: tuple[str, ...]
    contrasts: tuple[str, ...]
    fillers: dict[str, tuple[str, ...]]


TRAIN = Templates(
    states=(
        "The {noun} {be}.",
        "The {noun} {be}!",
        "The {noun} {here} {be}.",
        "This {whole} {be_whole}.",
        "This {whole} {be_whole}!",
        "The {whole} {be_whole}.",
        "It {be_whole}.",
        "It {be_whole}, if you ask me.",
        "I thought the {noun} {be}.",
        "For us the {noun} {be}.",
        "I remember the {noun}: {it} {be}.",
        "My {friend} said that the {noun} {be}, and I agree.",
        "Ask my {friend}: the {whole} {be_whole}.",
        "From start to finish the {noun} {be}.",
        "Everybody said that the {noun} {be}.",
        "I would say that the {noun} {be}.",
        "I think this {whole} {be_whole}.",
    ),
    plain=(
        "{Word}!",
        "{Word}.",
        "Simply {word}.",
        "It's {word}.",
        "It's really {word}!",
        "What {a_word} {whole}!",
        "Such {a_word} {whole}.",
        "The {best} {whole} ever.",
        "This is the {best} {whole} I have ever {seen}.",
        "I {liked} it.",
        "I {liked} this {whole}.",
        "I really {liked} the {noun}.",
        "I {like} it!",
        "I {like} this {whole}.",
        "I really {like} the {noun}.",
        "We {like} this {kind}.",
        "My {friend} and I {like} this {whole}.",
        "We {liked} every minute of it.",
        "My {friend} and I {liked} the {noun}, all of it.",
        "Everybody {liked} the {noun}, and so did I.",
        "It is {a_word} {whole}, as my {friend} would say.",
        "I would call the {noun} {word}.",
        "There was something {word} about the {noun}.",
        "We all found the {noun} {word}.",
        "The {noun} {verb}.",
        "I have to say it: the {noun} {verb}.",
    ),
    denials=(
        "[Not] {deny}.",
        "[Not] {deny}!",
        "[Not] {deny} at all.",
        "[Not] so {deny}.",
        "[Not] {deny}, I would say.",
        "It's [not] {deny}.",
        "It's [not] {deny} at all!",
        "[Not] {deny}, if you ask me.",
        "[Not] {a_deny} {whole}.",
        "I {not_like} it.",
        "I {not_like} it at all.",
        "I {not_like} this {whole}.",
        "We {not_like} this {kind}.",
        "I {not_like} the {noun}.",
        "My {friend} and I {not_like} the {noun} at all.",
        "[Not] the {deny_best} {whole} I have ever {seen}.",
        "I would [not] call the {noun} {deny}.",
        "[Nobody] would call the {noun} {deny}.",
        "[Nobody] would call this {whole} {deny}.",
        "[Nobody] said that the {noun} {was} {deny}.",
        "I would [never] call it {a_deny} {whole}.",
        "I could [never] say that the {noun} {was} {deny}.",
        "I could [never] say that it was {a_deny} {whole}.",
        "There was [nothing] {deny} about the {noun}.",
        "We [never] found the {noun} {deny}.",
        "I do [not] think that the {noun} {was} {deny}.",
        "I do [not] think that it is {a_deny} {whole}.",
        "I [don't] think it was {deny}.",
        "This was [not] {a_deny} {whole}, if you ask me.",
    ),
    contrasts=(
        "The {noun2} {be2}, but the {noun} {be}.",
        "The {noun} {was} {first} at first, but then {it} {verb}.",
        "{First2} at first, but the {noun} {be}.",
        "{First2}, but {word}.",
        "I thought the {noun2} {be2}, but my {friend} and I {liked} the {noun}.",
        "I {liked2} the {noun2}, but the {noun} {verb}.",
        "I {liked2} the {noun2} at first, but then the {noun} {be}.",
        "I {liked2} the {noun2}, but not the rest: the {noun} {be}.",
        "The {noun2} {verb2}, but the {noun} {be}.",
        "The {noun2} {be2}, but I {not_like} the {noun}.",
        "Although the {noun2} {be2}, the {noun} {be}.",
        "Although I {liked2} the {noun2}, the {noun} {verb}.",
        "The {noun} {be}, although the {noun2} {be2}.",
        "I {liked} the {noun}, although the {noun2} {be2}.",
        "Despite the {word2} {noun2}, the {noun} {be}.",
        "The {noun} {verb} despite the {word2} {noun2}.",
        "Even if the {noun2} {be2}, my {friend} and I {liked} the {whole}.",
        "I thought the {noun} {be}, even if the {noun2} {verb2}.",
        "The {word2} {noun2} could [not] {effect} the {whole}.",
        "The {word2} {noun2} [never] did {effect} the {whole} for us.",
    ),
    fillers={
        "film": (
            "I saw it on {day} with my {friend}.",
            "We watched it at home in {city}.",
            "It takes two hours and a bag of popcorn.",
            "It is based on a book that my {friend} read on a train.",
            "We sat in the third row.",
            "There is a dog in it, and the dog has a name.",
            "It takes place in {city}, or so they say.",
            "The director also made a film about trains.",
        ),
        "restaurant": (
            "We went there on {day} with my {friend}.",
            "The {kind} is near the old station in {city}.",
            "I asked for a glass of water, and then for two glasses.",
            "My {friend} ordered for all of us.",
            "It was raining in {city}, so we sat inside.",
            "The menu is two pages long.",
            "A dog slept under the next table.",
            "We paid at the table and walked home.",
        ),
    },
)

VAL = Templates(
    states=(
        "I have to say that the {noun} {be}.",
        "My {friend} would say that the {noun} {here} {be}.",
        "The {whole} {be_whole}, and my {friend} said so.",
        "All of us say that it {be_whole}.",
        "I say the {noun} {be}!",
    ),
    plain=(
        "My {friend} said it: what {a_word} {whole}!",
        "We all {liked} the {noun}.",
        "I think that the {noun} {verb}.",
        "For us it is the {best} {whole} ever.",
    ),
    denials=(
        "My {friend} would [not] call the {noun} {deny}.",
        "[Nobody] could say that the {noun} {was} {deny}.",
        "My {friend} and I say: we {not_like} the {noun}.",
        "If you ask my {friend}, it was [not] {a_deny} {whole}.",
        "It is [not] the {deny_best} {whole} ever.",
    ),
    contrasts=(
        "We thought the {noun2} {be2}, but then the {noun} {verb}.",
        "My {friend} said that the {noun2} {be2}, but for me the {noun} {be}.",
        "Although my {friend} and I {liked2} the {noun2}, I have to say that the {noun} {be}.",
        "I thought the {noun} {be}, despite the {word2} {noun2}.",
        "Even if the {noun2} {verb2}, I {liked} the {noun}.",
        "At first the {noun} {was} {first}, but then {it} {be}.",
        "The {word2} {noun2} did [not] {effect} the {whole}.",
    ),
    fillers={
        "film": (
            "On {day} I watched it with my {friend} in {city}.",
            "It is about a dog on a train.",
            "There was a bag of popcorn for all of us.",
            "We read the book on the train.",
        ),
        "restaurant": (
            "On {day} we had a table near the station.",
            "My {friend} asked for two glasses of water.",
            "The menu is as long as a book.",
            "We walked there from the station with my {friend}.",
        ),
    },
)

TEST = Templates(
    states=(
        "What I remember is that the {noun} {be}.",
        "The {noun} {be}, as we all said at home.",
        "We say that this {whole} {be_whole}.",
        "We found that the {noun} {here} {be}.",
        "I think it {be_whole}, and so did my {friend}.",
    ),
    plain=(
        "If you ask me, this is {a_word} {whole}.",
        "All of us {liked} it.",
        "We found that the {noun} {verb}.",
        "I think it is the {best} {whole} I have {seen}.",
    ),
    denials=(
        "I could [not] call the {noun} {deny}.",
        "There is [nothing] {deny} about the {noun} {here}.",
        "All of us {not_like} this {whole}.",
        "I would [never] say that this was {a_deny} {whole}.",
        "We do [not] think it is {a_deny} {whole}.",
    ),
    contrasts=(
        "We say that the {noun2} {be2}, but the {noun} {verb}.",
        "I {liked2} the {noun2} from the start, but then the {noun} {be}.",
        "Although we thought the {noun2} {be2}, my {friend} and I {liked} the {noun}.",
        "My {friend} said the {noun} {be}, even if the {noun2} {be2}.",
        "Despite the {word2} {noun2}, I have to say that the {noun} {verb}.",
        "At the start the {noun} {was} {first}, but then {it} {be}.",
        "If you ask me, the {word2} {noun2} could [never] {effect} this {whole}.",
    ),
    fillers={
        "film": (
            "My {friend} and I saw it in {city} on {day}.",
            "It is two hours long, and so is the train to {city}.",
            "We had popcorn and water.",
            "The dog in it has a name, and so has the train.",
        ),
        "restaurant": (
            "My {friend} and I went there from {city} on {day}.",
            "We asked for water, and so did the dog.",
            "The menu of this {kind} is two pages long, and so is the book.",
            "My {friend} paid, and we walked home from the station.",
        ),
    },
)
