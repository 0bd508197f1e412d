import pytest

from sentattn.rendering import canvas
from sentattn.rendering.canvas import ColorScale, drawable, missing_scripts


def test_colors_darken_with_the_weight_up_to_the_limit() -> None:
    scale = ColorScale(0.5, 0.9)
    colors = [scale.colors(i / 100) for i in range(101)]
    brightness = [sum(color[:3]) for color in colors]
    assert brightness == sorted(brightness, reverse=True)
    assert (scale.text_color(0.0), scale.text_color(0.5), scale.text_color(0.9)) == ("black", "white", "white")


def test_matplotlibs_font_has_latin_greek_and_cyrillic() -> None:
    text = "na\u00efve \u03b1\u03b2 \u0416\u0437 \u201equoted\u201c \u2026 \u2192"
    for weight in ("normal", "bold"):
        assert drawable(text, weight) == text
    assert missing_scripts([text]) == []


def test_characters_that_no_font_has_become_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas, "_drawable_characters", lambda weight: frozenset(range(0x80)))
    assert drawable("a\u4f60") == "a\u25a1"
    texts = ["\u4f60", "\u0e01", "\U0001f600\ufe0f", "a\u200b"]
    assert missing_scripts(texts) == ["CJK", "Thai", "symbols"]
