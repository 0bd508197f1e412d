"""The sentences of the demo corpus. Training, validation and test share words, but no sentence template.

Slots (filled in by `demo.py`; without a number they speak for the label, with a 2 against it):
    {noun} {was} {it}   a thing, the verb in its number, its pronoun
    {say}               what is said of it after "was": "very good", "far from dull", "a joy"
    {say_whole}         the same, said of {whole}
    {word}, {a_word}    one adjective that fits it, for the label
    {deny}              one adjective that fits it, against the label: the template negates it
    {fit}, {deny_fit}   the same with an article, fitting {whole}: "a good"
    {first}             what is conceded of {noun} itself
    {verb} {liking}     "delighted us", "ruined it"; "loved"
    {effect}            "spoil" or "save": the template negates it
    {deny_whole}        the last without its article
    {whole} {kind}      "film", "dinner"; "film", "place"; {here}: "in this film", "at this place"
    {friend} {day} {city}

Square brackets mark the words that decide, here and in what fills the slots; `demo.py` turns them into spans.
"""

from __future__ import annotations

from typing import NamedTuple


class Templates(NamedTuple):
    """The sentence templates of one split.

    Attributes:
        states: One opinion with {say}, which may itself be negated.
        plain: One opinion with no room for a negator.
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
        "The {noun} {was} {say}.",
        "I thought the {noun} {was} {say}.",
        "For us the {noun} {was} {say}.",
        "The {noun} {here} {was} {say}.",
        "The {noun} {was} {say}, and I would say so again.",
        "If you ask me, the {noun} {was} {say}.",
        "My {friend} said that the {noun} {was} {say}, and I agree.",
        "The {noun}, by the way, {was} {say}.",
        "I still remember the {noun}: {it} {was} {say}.",
        "From start to finish the {noun} {was} {say}.",
        "Ask my {friend}, or ask me: the {noun} {was} {say}.",
        "My {friend} and I think that the {noun} {was} {say}.",
        "Everybody said that the {noun} {was} {say}.",
        "I would say that the {noun} {was} {say}.",
        "The {whole} was {say_whole}, and I have to say that at once.",
    ),
    plain=(
        "What {fit} {whole}!",
        "I would call the {noun} {word}.",
        "My {friend} and I would call this {fit} {whole}.",
        "We could say a lot about the {noun}, but {word} is the word for it.",
        "I do think that the {noun} {verb}.",
        "There was something {word} about the {noun}.",
        "We all found the {noun} {word}.",
        "Everybody {liking} the {noun}, and so did I.",
        "It is {fit} {whole}, as my {friend} would say.",
        "This was {fit} {whole} from start to finish.",
        "I {liking} the {noun}.",
        "We {liking} the {noun}, all of us.",
        "Most of all, I {liking} the {noun} {here}.",
        "The {noun} {verb}.",
        "I have to say that the {noun} {verb}.",
        "My {friend} talked about the {word} {noun} all the way home.",
    ),
    denials=(
        "I would [not] call the {noun} {deny}.",
        "[Nobody] would call the {noun} {deny}.",
        "[Nobody] thought that the {noun} {was} {deny}.",
        "I could [never] say that the {noun} {was} {deny}.",
        "My {friend} would [not] say that it was {deny_fit} {whole}.",
        "There is [nothing] {deny_whole} about this {whole}.",
        "There was [nothing] {deny} about the {noun}.",
        "At [no] point {was} the {noun} {deny}.",
        "I [never] found the {noun} {deny}.",
        "We [never] thought of the {noun} as {deny}.",
        "We could [not] find anything {deny} about the {noun}.",
        "I do [not] think that the {noun} {was} {deny}.",
        "[Not] once did I find the {noun} {deny}.",
        "It is [hardly] {deny_fit} {whole}.",
        "This was [not] {deny_fit} {whole}, if you ask me.",
    ),
    contrasts=(
        "The {noun2} {was2} {say2}, but the {noun} {was} {say}.",
        "The {noun} {was} {first} at first, but then {it} {verb}.",
        "The {noun} {was} {first} at first, but {it} became {word}.",
        "I thought the {noun2} {was2} {say2}, but my {friend} and I {liking} the {noun}.",
        "I {liking2} the {noun2}, but the {noun} {verb}.",
        "The {noun2} {verb2}, but the {noun} {was} {say}.",
        "Although the {noun2} {was2} {say2}, the {noun} {was} {say}.",
        "Although the {noun2} {verb2}, the {noun} {was} {say}.",
        "Although I {liking2} the {noun2}, the {noun} {verb}.",
        "The {noun} {was} {say}, although the {noun2} {was2} {say2}.",
        "I {liking} the {noun}, although the {noun2} {was2} {say2}.",
        "Despite the {word2} {noun2}, the {noun} {was} {say}.",
        "Despite the {word2} {noun2}, I {liking} the {noun}.",
        "The {noun} {verb} despite the {word2} {noun2}.",
        "Even if the {noun2} {was2} {say2}, the {noun} {was} {say}.",
        "The {noun} {was} {say}, even if the {noun2} {verb2}.",
        "The {word2} {noun2} could [not] {effect} the {whole}.",
        "[Nothing], not even the {word2} {noun2}, could {effect} this {whole}.",
        "The {word2} {noun2} [never] did {effect} the {whole} for us.",
    ),
    fillers={
        "film": (
            "I saw it on {day} with my {friend}.",
            "We watched it at home in {city}.",
            "It takes two hours and a bag of popcorn.",
            "It is based on a book that my {friend} read on a train.",
            "We sat in the third row.",
            "The man beside me slept with his hat on.",
            "There is a dog in it, and the dog has a name.",
            "My {friend} ate the popcorn before the lights went out.",
            "It takes place in {city}, or so they tell us.",
            "The director also made a film about trains.",
            "Most of it takes place on a train to {city}.",
        ),
        "restaurant": (
            "We went there on {day} with my {friend}.",
            "The {kind} is near the old station in {city}.",
            "I asked for a glass of water, and then for two glasses.",
            "My {friend} ordered for all of us.",
            "We had a table beside the kitchen.",
            "It was raining in {city}, so we sat inside.",
            "The menu is two pages long.",
            "A dog slept under the next table.",
            "We paid at the table and walked home.",
            "My {friend} talked about trains before we ordered.",
            "The man at the next table had a hat and two menus.",
        ),
    },
)

VAL = Templates(
    states=(
        "I have to say that the {noun} {was} {say}.",
        "My {friend} and I agree that the {noun} {was} {say}.",
        "My {friend} would say that the {noun} {here} {was} {say}.",
        "As I remember it, the {noun} {was} {say}.",
        "The {whole} was {say_whole}, and my {friend} said so at once.",
        "All in all, the {noun} {was} {say}.",
    ),
    plain=(
        "My {friend} said it at once: what {fit} {whole}!",
        "We all {liking} the {noun}.",
        "I think that the {noun} {verb}.",
        "For my {friend} it was {fit} {whole}.",
    ),
    denials=(
        "I did [not] find the {noun} {deny}.",
        "[Nobody] could say that the {noun} {was} {deny}.",
        "We [never] thought that the {noun} {was} {deny}.",
        "If you ask my {friend}, it was [not] {deny_fit} {whole}.",
        "I could find [nothing] {deny} about the {noun} {here}.",
    ),
    contrasts=(
        "We thought the {noun2} {was2} {say2}, but then the {noun} {verb}.",
        "My {friend} said that the {noun2} {was2} {say2}, but for me the {noun} {was} {say}.",
        "Although my {friend} and I {liking2} the {noun2}, I have to say that the {noun} {was} {say}.",
        "For us the {noun} {was} {say}, although my {friend} {liking2} the {noun2}.",
        "I thought the {noun} {was} {say} despite the {word2} {noun2}.",
        "Even if the {noun2} {verb2}, I {liking} the {noun}.",
        "At first the {noun} {was} {first}, but then {it} {was} {say}.",
        "Most of us thought that the {word2} {noun2} did [not] {effect} the {whole}.",
    ),
    fillers={
        "film": (
            "On {day} I watched it with my {friend} in {city}.",
            "We sat beside a man with a hat.",
            "My {friend} had read the book on the way there.",
            "It is about a dog on a train.",
            "The lights went out in the third row first.",
            "There was a bag of popcorn for all of us.",
        ),
        "restaurant": (
            "On {day} we had a table near the kitchen.",
            "We walked there from the station with my {friend}.",
            "My {friend} asked for two glasses of water.",
            "There was a dog at the next table.",
            "The menu is as long as a book.",
            "This {kind} is inside the station in {city}.",
        ),
    },
)

TEST = Templates(
    states=(
        "What I remember is that the {noun} {was} {say}.",
        "The {noun} {was} {say}, as we all said at home.",
        "Ask my {friend} at home: the {noun} {was} {say}.",
        "Most of all, the {noun} {was} {say}.",
        "We found that the {noun} {here} {was} {say}.",
        "I think the {whole} was {say_whole}, and we all said so.",
    ),
    plain=(
        "If you ask me, this is {fit} {whole}.",
        "By the way, I {liking} the {noun}.",
        "We found that the {noun} {verb}.",
        "My {friend} would call it {fit} {whole}, and so would I.",
    ),
    denials=(
        "I could [not] call the {noun} {deny}.",
        "My {friend} did [not] think that the {noun} {was} {deny}.",
        "There is [nothing] {deny} about the {noun} {here}.",
        "I would [never] say that this was {deny_fit} {whole}.",
        "[Nobody] at home found the {noun} {deny}.",
    ),
    contrasts=(
        "We agree that the {noun2} {was2} {say2}, but the {noun} {verb}.",
        "I {liking2} the {noun2} from the start, but then the {noun} {was} {say}.",
        "Although we thought the {noun2} {was2} {say2}, my {friend} and I {liking} the {noun}.",
        "My {friend} said the {noun} {was} {say}, even if the {noun2} {was2} {say2}.",
        "We {liking} the {noun} despite the {word2} {noun2}.",
        "Despite the {word2} {noun2}, I have to say that the {noun} {verb}.",
        "At the start the {noun} {was} {first}, but then {it} became {word}.",
        "If you ask me, the {word2} {noun2} could [never] {effect} this {whole}.",
    ),
    fillers={
        "film": (
            "My {friend} and I saw it in {city} on {day}.",
            "The man in the third row had a dog under his hat.",
            "It is two hours long, and so is the train to {city}.",
            "My {friend} slept at home before it.",
            "We had popcorn and water.",
            "The book is about a hat.",
        ),
        "restaurant": (
            "My {friend} and I went there from {city} on {day}.",
            "We asked for water, and so did the dog.",
            "It is a long way to the station from this {kind}.",
            "A man with a long book sat at the table near us.",
            "My {friend} paid before we ordered.",
            "It was raining before we paid.",
        ),
    },
)
