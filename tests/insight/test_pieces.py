import unicodedata

import pytest
from given_predictions import WORD
from hypothesis import given
from hypothesis import strategies as st

from sentattn.insight.pieces import UNREAD, Piece, pieces, visible

PLAIN = st.text(st.characters(categories=["L", "N", "P", "S"]) | st.sampled_from(" \n\t"), max_size=60)


def spans_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


@given(PLAIN.filter(lambda text: "<" not in text))
def test_pieces_put_together_are_the_text(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text, spans_of(text))) == text


def test_each_token_is_one_piece_in_the_case_of_the_text() -> None:
    found = list(pieces("So GOOD!", [(0, 2), (3, 7), (7, 8)]))
    assert found == [Piece("So", 0), Piece(" "), Piece("GOOD", 1), Piece("!", 2)]


def test_words_that_were_not_read_become_three_dots() -> None:
    text = "one two three four"
    assert [piece.text for piece in pieces(text, [(4, 7), (14, 18)])] == [UNREAD, "two", UNREAD, "four"]
    assert [piece.text for piece in pieces(text, [(0, 3)])] == ["one", UNREAD]


def test_signs_between_tokens_are_shown_not_left_out() -> None:
    assert [piece.text for piece in pieces("a -- b", [(0, 1), (5, 6)])] == ["a", " -- ", "b"]


@pytest.mark.parametrize(
    ("between", "shown"),
    [("<br />", "\n"), (" <br /><br />", "\n\n"), ("<BR>", "\n"), ("<br/><br/><br/><br/>", "\n\n"), ("\r\n", "\n")],
)
def test_line_breaks_of_all_kinds_become_line_breaks(between: str, shown: str) -> None:
    text = f"a{between}b"
    assert [piece.text for piece in pieces(text, [(0, 1), (len(text) - 1, len(text))])] == ["a", shown, "b"]


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert not [sign for sign in shown if unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\t"]
    shown.encode()


def test_control_signs_get_a_picture_and_turned_directions_a_mark() -> None:
    assert visible("\x1b[31m\x07\x7f\x9b\u202e\ud800") == "\u241b[31m\u2407\u2421\ufffd\ufffd\ufffd"


def test_other_scripts_and_joined_emoji_stay() -> None:
    text = "na\u00efve \u4f60\u597d \U0001f469\u200d\U0001f680"
    assert visible(text) == text
