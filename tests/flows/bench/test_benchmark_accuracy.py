"""The accuracy benchmark: degradations that do not move, fair comparisons, and a report with what was promised."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.hypotheses import CHARACTERS, hypothesis_line

import models.compact
from data_contracts.errors import ConfigError
from flows.bench import accuracy as benchmark_accuracy
from flows.bench.accuracy import (
    CTC,
    OURS,
    READERS,
    Measured,
    References,
    as_report,
    as_text,
    choose_degradations,
)
from flows.bench.accuracy_controls import Arm, lend, random_words
from flows.bench.accuracy_pages import ENCODER_CODE, another_book, consecutive, usual_line_height_px
from flows.bench.accuracy_scores import character_error_rate, compare, rare_misread, score_page, word_errors, words_in
from flows.bench.degradation import AS_IS, SETTINGS_FILE, degrade, load_degradations
from models.sr_swa.pages import EncodedPage

FROZEN_SHA256 = "0cb590ab1a3c4fe4de04e65cd82c16549fe84567633a037b63582e3179ab2a94"
LINE_HEIGHT_PX = 40.0
PROMISED_KEYS = {
    *("cer", "ctc_cer", "no_references_cer", "random_references_cer", "tesseract_cer", "passes_per_line"),
    *("degraded_cer", "degraded_ctc_cer", "degraded_no_references_cer", "degraded_random_references_cer"),
}


def striped_page() -> np.ndarray:
    page = np.full((400, 300, 3), 230, np.uint8)
    page[::8] = 40
    return page


def scored(
    page_number: int, truth: str, readings: dict[str, str | None], book: str = "en_book", degradation: str = "A"
):
    return score_page(book, degradation, page_number, truth, readings)


def test_the_degradations_are_frozen():
    settings = json.loads(SETTINGS_FILE.read_text(encoding="utf-8"))["degradations"]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    assert digest == FROZEN_SHA256, "a changed setting makes all published figures incomparable"


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_a_degraded_page_keeps_its_size_and_equal_seeds_give_equal_pages(name):
    page, setting = striped_page(), load_degradations()[name]
    once, again, other = (degrade(page, setting, LINE_HEIGHT_PX, seed) for seed in ("a 1", "a 1", "a 2"))
    assert once.shape == page.shape
    assert once.dtype == np.uint8
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_a_setting_is_as_hard_for_a_finer_scan_of_the_same_page():
    setting = load_degradations()["A"]
    coarse = striped_page()
    fine = np.repeat(np.repeat(coarse, 2, axis=0), 2, axis=1)
    of_coarse = degrade(coarse, setting, LINE_HEIGHT_PX, "a")
    of_fine = degrade(fine, setting, 2 * LINE_HEIGHT_PX, "a")
    assert of_fine.std() == pytest.approx(of_coarse.std(), rel=0.1)


def test_an_unknown_degradation_is_refused_by_name():
    assert choose_degradations(None) == [AS_IS, "A", "B", "C"]
    assert choose_degradations(["C", AS_IS]) == [AS_IS, "C"]
    with pytest.raises(ConfigError, match="no degradation D; there are as_is, A, B, C"):
        choose_degradations(["D"])


def test_pages_are_neighbours_from_the_middle_of_the_book():
    assert consecutive([3, 5, 6, 7, 9], 3) == [5, 6, 7]
    assert consecutive([3, 5], None) == [3, 5]
    assert consecutive([3, 5], 9) == [3, 5]


def test_kept_pages_are_encoded_anew_when_any_file_of_the_encoder_changes():
    (compact,) = models.compact.__path__
    named = {path for pattern in ENCODER_CODE for path in Path(compact).glob(pattern)}
    assert all(any(path in named for path in Path(compact).glob(pattern)) for pattern in ENCODER_CODE)
    rest = {path.relative_to(compact).parts[0] for path in Path(compact).glob("**/*.py") if path not in named}
    assert rest == {"__init__.py", "decode", "rescore", "words"}


def test_the_height_of_lines_is_that_of_text_not_of_page_numbers():
    assert usual_line_height_px([hypothesis_line("text of a line"), hypothesis_line("7")]) == pytest.approx(40)
    assert usual_line_height_px([]) == pytest.approx(48)


def test_an_absent_reader_has_no_rate_rather_than_a_perfect_one():
    page = scored(1, "some words", {OURS: "some words", "tesseract": None})
    assert character_error_rate([page], OURS) == 0
    assert character_error_rate([page], "tesseract") is None
    assert compare([page], "tesseract", OURS) is None


def test_a_clear_difference_is_significant_and_none_is_not():
    pages = [
        scored(n, "the house of Horton", {CTC: "thc house of Hortom", OURS: "the house of Horton"}) for n in range(20)
    ]
    better = compare(pages, CTC, OURS)
    assert better is not None
    assert better["change"] == pytest.approx(-2 / 19)
    assert better["change_high"] < 0
    assert better["p"] < 0.05
    assert (better["pages_better"], better["pages_worse"]) == (20, 0)
    same = compare(pages, CTC, CTC)
    assert same is not None
    assert same["p"] == 1


def test_a_difference_on_one_page_of_many_is_not_significant():
    pages = [scored(n, "the house", {CTC: "the house", OURS: "the house"}) for n in range(19)]
    pages.append(scored(19, "the house", {CTC: "thc house", OURS: "the house"}))
    found = compare(pages, CTC, OURS)
    assert found is not None
    assert found["p"] > 0.05


def test_words_are_told_apart_by_whether_an_earlier_page_has_them():
    first = scored(1, "Horton came", {OURS: "Hortom came"})
    second = scored(2, "Horton left Morton", {OURS: "Hortom left Morton"})
    other_book = scored(3, "Horton", {OURS: "Hortom"}, book="fr_other")
    counts = word_errors([second, first, other_book], [OURS])
    assert counts["repeated"] == {"words": 1, OURS: 1}
    assert counts["repeated_rare"] == {"words": 1, OURS: 1}
    assert counts["first"] == {"words": 5, OURS: 2}


def test_digits_and_marks_are_counted_apart_by_book_language_and_reader():
    pages = [
        scored(1, "( 12 ) men", {OURS: "( 2 ) men", CTC: "( 12 ) mem"}, degradation=AS_IS),
        scored(2, "(6) in 1876", {OURS: "(6 in l876", CTC: "(6) in 1876"}, degradation=AS_IS),
        scored(3, "7", {OURS: "", CTC: "7"}, book="fr_book", degradation=AS_IS),
    ]
    kinds = as_report(Measured(pages=pages))["kinds"]
    assert {name: kinds[name]["digits"] for name in ("en_book", "en", "fr", AS_IS)} == {
        "en_book": {"all": 7, **dict.fromkeys(READERS), OURS: 2, CTC: 0},
        "en": {"all": 7, **dict.fromkeys(READERS), OURS: 2, CTC: 0},
        "fr": {"all": 1, **dict.fromkeys(READERS), OURS: 1, CTC: 0},
        AS_IS: {"all": 8, **dict.fromkeys(READERS), OURS: 3, CTC: 0},
    }
    assert (kinds["en"]["punctuation"]["all"], kinds["en"]["punctuation"][OURS]) == (4, 1)
    assert (kinds["en"]["letters"][CTC], kinds["en"]["words"][CTC]) == (1, 1)
    assert "en_book: digits, of 7, wrong: ours 2, ctc 0" in as_text(as_report(Measured(pages=pages)))


def test_a_useful_reference_has_a_rare_word_that_the_hypothesis_misread():
    words = {number: words_in(text) for number, text in {1: "Horton with them", 2: "with Horton"}.items()}
    words |= {number: {"with"} for number in range(3, 20)}
    assert rare_misread(1, words, "Hortom wlth them") == {"horton"}


def test_the_report_has_the_promised_keys_everywhere():
    readings = dict.fromkeys(READERS, "some words")
    measured = Measured(
        pages=[
            replace(scored(1, "some words", readings, degradation=name), passes=[0, 3])
            for name in (AS_IS, "A", "B", "C")
        ],
        references={OURS: References(fetched=4, hit=1, useful=2)},
    )
    report = json.loads(json.dumps(as_report(measured)))
    assert {"books", "languages", "degradations", "total"} <= report.keys()
    for block in (report["total"], report["books"]["en_book"], report["languages"]["en"]):
        assert block.keys() >= PROMISED_KEYS
        assert block["cer"] == 0
    assert list(report["degradations"]) == [AS_IS, "A", "B", "C"]
    assert report["references"][OURS] == {"fetched": 4, "hit_ratio": 0.25, "recall": 0.5}
    assert report["languages"]["en"]["passes_per_line"] == pytest.approx(1.5)
    assert "en_book" in as_text(report)


def page_of(number: int, text: str) -> EncodedPage:
    return EncodedPage(number, 800, 600, 300.0, lines=(hypothesis_line(text),))


def written(page: EncodedPage) -> str:
    return "".join(CHARACTERS[index] for index in page.lines[0].ctc_ids)


def test_a_lent_page_stands_under_the_number_of_the_page_read():
    lent = lend([page_of(7, "a"), page_of(8, "b"), page_of(9, "c")], [page_of(1, "Horton"), page_of(2, "Morton")])
    assert {number: (page.page_number, written(page)) for number, page in lent.items()} == {
        7: (7, "Horton"),
        8: (8, "Morton"),
        9: (9, "Horton"),
    }


def test_random_words_are_as_long_and_the_same_for_the_same_seed():
    page = page_of(1, "of Hortom, said")
    once, again = (written(random_words([page], CHARACTERS, "seed")[1]) for _ in range(2))
    assert once == again != "of Hortom, said"
    assert [len(word) for word in once.split()] == [len(word) for word in ("of", "Hortom,", "said")]


def test_another_book_is_of_the_same_language_and_no_other_scan():
    names = ["de_a", "en_moat", "en_moat_degraded", "en_horton", "zh_b"]
    assert another_book("en_moat", names) == "en_horton"
    assert another_book("en_moat_degraded", names) == "en_horton"
    assert another_book("en_horton", names) == "en_moat"
    assert another_book("zh_b", names) == "de_a"
    assert another_book("en_moat", ["en_moat", "en_moat_degraded"]) is None


def test_a_reader_remembers_the_lent_page_and_not_its_own():
    class Reader:
        fingerprint, geometry = "reader", None

        def prefill(self, page, context):
            return written(page)

        def write(self, page, readings, context):
            self.remember(page, context)
            return readings

        def remember(self, page, context):
            context.notes["words"] = [*context.notes.get("words", []), written(page)]

    class Context:
        def __init__(self):
            self.notes = {"words": ["before"]}

    own, lent = page_of(3, "own"), lend([page_of(3, "own")], [page_of(1, "lent")])
    for arm, remembered in ((Arm(Reader(), {3: ["read"]}, lent), "lent"), (Arm(Reader(), {3: ["read"]}), "own")):
        context = Context()
        assert arm.prefill(own, context) == remembered
        assert arm.decode(own, context) == ["read"]
        assert context.notes == {"words": ["before", remembered]}


def test_pages_made_worse_are_counted():
    truth = "x" * 100
    readings = {OURS: "y" * 4 + "x" * 96, CTC: truth}
    report = as_report(Measured(pages=[scored(1, truth, dict.fromkeys(READERS, truth) | readings, degradation=AS_IS)]))
    made_worse = report["pages_made_worse"]
    assert (made_worse["by_half_a_point"], made_worse["by_three_points"]) == (1, 1)
    assert made_worse["worst"] == pytest.approx(0.04)


@pytest.mark.shared_data
@pytest.mark.slow
def test_two_real_pages_are_read_in_all_arms_and_kept(shared_data, tmp_path, capsys):
    arguments = [str(shared_data / "books"), "--books", "en_lusitania", "--pages-per-book", "2", "--no-tesseract"]
    arguments += ["--degradations", f"{AS_IS},A", "--cache", str(tmp_path), "--json"]
    assert benchmark_accuracy.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["total"]["tesseract_cer"] is None
    assert report["total"]["cer"] < report["total"]["degraded_ctc_cer"] < 0.3
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert len(kept) == 4
    assert benchmark_accuracy.main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == kept
