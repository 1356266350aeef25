import pytest

from tasks.publishing.visual_order import runs_right_to_left, visual_order


def shown(text: str) -> str:
    return "".join(text[position] for position in visual_order(text))


@pytest.mark.parametrize(
    ("text", "on_paper"),
    [
        ("abc def", "abc def"),
        ("אבג דהו", "והד גבא"),
        ("אבג 123 דהו", "והד 123 גבא"),
        ("אבג abc def דהו", "והד abc def גבא"),
        ("said אבג דהו, he", "said והד גבא, he"),
        ("אבג.", ".גבא"),
        ("אבג 12.50 דהו", "והד 12.50 גבא"),
        ("אבג 50% דהו", "והד 50% גבא"),
        ("قال 12 شيء", "ءيش 12 لاق"),
        ("", ""),
        ("- 1 -", "- 1 -"),
    ],
)
def test_text_stands_on_paper_as_the_bidirectional_algorithm_says(text, on_paper):
    assert shown(text) == on_paper
    assert sorted(visual_order(text)) == list(range(len(text)))


def test_only_scripts_that_run_from_right_to_left_are_turned():
    assert not runs_right_to_left("Straße κόσμος 永和九年 123")
    assert runs_right_to_left("x א")
    assert runs_right_to_left("ء")
    assert not runs_right_to_left("")
