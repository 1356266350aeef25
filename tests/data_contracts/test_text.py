from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_contracts.text import ALL_STEPS, Step, bag_recall, cer, edit_distance, is_ideographic, normalise, wer

PRINT = st.text(
    alphabet=st.sampled_from(" \n\t.,-–—…'’‘\"“”«»‹›`´ſꝛ⸗¬\u00ad\u0364\u0308aouAOUbnﬁＡ１漢字「」かё"), max_size=30
)
ANY_STEPS = st.sets(st.sampled_from(ALL_STEPS))


@pytest.mark.parametrize(
    ("step", "printed", "plain"),
    [
        (Step.LETTERS, "ſo ꝛein, ﬁne Ｆｕｌｌ", "so rein, fine Full"),
        (Step.LETTERS, "ſu\u0364ß o\u0364de Ha\u0364nde", "süß öde Hände"),
        (Step.LETTERS, "Wort⸗teil, trait¬d'union, ver\u00adborgen", "Wort-teil, trait-d'union, verborgen"),
        (Step.HYPHENS, "a digi-\ntized book", "a digitized book"),
        (Step.HYPHENS, "a digi- \r\n  tized book", "a digitized book"),
        (Step.SPACES, "  two\n\nlines \t here ", "two lines here"),
        (Step.QUOTES, "‘a’ `b´ «c» „d“ ''e''", '\'a\' \'b´ "c" "d" "e"'),
        (Step.DASHES, "one — two -- three–four - five", "one-two-three-four-five"),
        (Step.DOTS, "so… or . . . or .....", "so... or ... or ..."),
    ],
)
def test_each_step_does_its_own_work(step, printed, plain):
    assert normalise(printed, steps={step}) == plain


def test_without_steps_nothing_changes():
    text = " ‘ſ—\n… "
    assert normalise(text, steps=()) == text


def test_a_dash_at_a_line_end_is_no_hyphen():
    assert normalise("he said—\nand left") == "he said-and left"
    assert normalise("he said--\nand left") == "he said-and left"


def test_a_number_broken_at_its_hyphen_keeps_it():
    assert normalise("1914-\n1918") == "1914-1918"


def test_chinese_loses_all_white_space_and_english_does_not():
    assert normalise("欽定 四庫\n全書") == "欽定四庫全書"
    assert normalise("欽定 四庫", language="en") == "欽定 四庫"
    assert normalise("the word 書 here") == "the word 書 here"
    assert normalise("a b", language="zh-Hant") == "ab"


def test_the_truth_decides_whether_spaces_count():
    assert cer("欽定四庫全書", "欽 定 四 庫 全 書") == 0
    assert cer("four words are here", "fourwordsarehere") == pytest.approx(3 / 19)


def test_the_same_print_in_two_transcriptions_has_no_errors():
    assert cer("“It’s fine,” he said—and went home…", '"It\'s fine," he said -- and\nwent ho-\nme. . .') == 0


def test_rates_without_normalisation_are_higher():
    truth, reading = "“It’s”", '"It\'s"'
    assert cer(truth, reading) == 0
    assert cer(truth, reading, steps=()) == pytest.approx(3 / 6)


def test_a_page_is_capped_at_one_unless_asked():
    assert cer("ab", "xyzxyz") == 1
    assert cer("ab", "xyzxyz", cap=False) == 3


def test_where_nothing_is_printed_anything_read_is_an_error():
    assert cer("", "") == wer("", "") == 0
    assert cer(" \n", "x") == 1
    assert edit_distance("", "xyz") == 3


def test_words_are_counted_by_spaces_and_in_chinese_by_characters():
    assert wer("one two three four", "one too three four") == pytest.approx(1 / 4)
    assert wer("四庫全書", "四庫金書") == pytest.approx(1 / 4)


def test_bags_ignore_order_but_not_number():
    assert bag_recall("abc", "cba") == 1
    assert bag_recall(["a", "a", "b", "c"], ["a", "b", "x"]) == 0.5
    assert bag_recall("", "x") == 1


def test_scripts_are_told_apart_by_their_letters():
    assert is_ideographic("卷一 1908, 12.5 %")
    assert not is_ideographic("page 12 of 書")
    assert not is_ideographic("")
    assert not is_ideographic("한국어")


@given(PRINT | st.text(max_size=20), ANY_STEPS)
def test_normalising_twice_changes_nothing(text, steps):
    once = normalise(text, steps=steps)
    assert normalise(once, steps=steps) == once


@given(PRINT)
def test_every_text_equals_itself(text):
    assert cer(text, text) == wer(text, text) == 0


@given(PRINT, PRINT)
def test_rates_are_between_nothing_and_one_and_agree_with_equality(truth, reading):
    rate = cer(truth, reading, language="en")
    assert 0 <= rate <= 1
    assert (rate == 0) == (normalise(truth, language="en") == normalise(reading, language="en"))


@given(st.text(alphabet="abc ", min_size=1, max_size=12), st.text(alphabet="abc ", max_size=12))
def test_the_distance_is_the_textbook_one(truth, reading):
    row = list(range(len(reading) + 1))
    for i, expected in enumerate(truth, start=1):
        diagonal, row[0] = row[0], i
        for j, read in enumerate(reading, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != read))
    assert edit_distance(truth, reading, cap=False) == row[-1]
