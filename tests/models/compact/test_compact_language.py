"""The language of a page, by its commonest words: told where it is plain, and never guessed."""

from __future__ import annotations

import re

import pytest

from models.compact.words.language import COMMON_SHARE, LEAST_WORDS, common_words, is_french, page_language

PAGES = {
    "en": """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of
        foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was
        the season of Darkness, it was the spring of hope, it was the winter of despair, we had everything before us,
        we had nothing before us, we were all going direct to Heaven, we were all going direct the other way, in
        short, the period was so far like the present period, that some of its noisiest authorities insisted on its
        being received""",
    "fr": """Il était une fois une petite fille de village, la plus jolie qu'on eût su voir ; sa mère en était folle,
        et sa mère-grand plus folle encore. Cette bonne femme lui fit faire un petit chaperon rouge, qui lui seyait si
        bien que partout on l'appelait le petit Chaperon rouge. Un jour, sa mère, ayant cuit et fait des galettes, lui
        dit : Va voir comme se porte ta mère-grand, car on m'a dit qu'elle était malade. Porte-lui une galette et ce
        petit pot de beurre. Le petit Chaperon rouge partit aussitôt pour aller chez sa mère-grand, qui demeurait dans
        un autre""",
    "de": """Es war einmal mitten im Winter, und die Schneeflocken fielen wie Federn vom Himmel herab, da saß eine
        Königin an einem Fenster, das einen Rahmen von schwarzem Ebenholz hatte, und nähte. Und wie sie so nähte und
        nach dem Schnee aufblickte, stach sie sich mit der Nadel in den Finger, und es fielen drei Tropfen Blut in den
        Schnee. Und weil das Rote im weißen Schnee so schön aussah, dachte sie bei sich: Hätt ich ein Kind so weiß wie
        Schnee, so rot wie Blut und so schwarz wie das Holz an dem Rahmen. Bald darauf bekam sie ein Töchterlein, das
        war so""",
}
OTHERS = {
    "Spanish": """En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un
        hidalgo de los de lanza en astillero, adarga antigua, rocín flaco y galgo corredor. Una olla de algo más vaca
        que carnero, salpicón las más noches, duelos y quebrantos los sábados, lentejas los viernes, algún palomino de
        añadidura los domingos, consumían las tres partes de su hacienda. El resto della concluían sayo de velarte,
        calzas de velludo para las fiestas con sus pantuflos de lo mismo, y los días de entre semana se honraba con su
        vellorí de lo más fino. Tenía en su casa una ama que pasaba de los cuarenta, y una sobrina que no llegaba a
        los veinte""",
    "Latin": """Gallia est omnis divisa in partes tres, quarum unam incolunt Belgae, aliam Aquitani, tertiam qui
        ipsorum lingua Celtae, nostra Galli appellantur. Hi omnes lingua, institutis, legibus inter se differunt.
        Gallos ab Aquitanis Garumna flumen, a Belgis Matrona et Sequana dividit. Horum omnium fortissimi sunt Belgae,
        propterea quod a cultu atque humanitate provinciae longissime absunt, minimeque ad eos mercatores saepe
        commeant atque ea quae ad effeminandos animos pertinent important, proximique sunt Germanis, qui trans Rhenum
        incolunt""",
    "Dutch": """Ik ben makelaar in koffie, en woon op de Lauriergracht. Het is mijn gewoonte niet, romans te
        schrijven, of zulke dingen, en het heeft dan ook lang geduurd, voor ik er toe overging een paar riem papier
        extra te bestellen, en het werk aan te vangen, dat gij, lieve lezer, zoo-even in de hand hebt genomen, en dat
        ge lezen moet als ge makelaar in koffie zijt, of als ge wat anders zijt. Niet alleen dat ik nooit iets schreef
        wat naar een roman geleek, maar ik houd er zelfs niet van, iets dergelijks te lezen, omdat ik een man van
        zaken ben""",
}


def words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


@pytest.mark.parametrize("language", PAGES)
def test_a_page_is_in_the_language_whose_common_words_it_is_made_of(language: str) -> None:
    assert page_language(words(PAGES[language]), common_words()) == language
    assert page_language([word.upper() for word in words(PAGES[language])], common_words()) == language


@pytest.mark.parametrize("language", OTHERS)
def test_a_page_in_another_language_is_in_none(language: str) -> None:
    assert page_language(words(OTHERS[language]), common_words()) is None


def test_too_few_words_tell_nothing_and_of_many_a_share_must_be_common() -> None:
    usual = {"one": {"the", "and"}, "two": {"der", "und"}}
    assert page_language(["the"] * (LEAST_WORDS - 1), usual) is None
    assert page_language(["the"] * LEAST_WORDS, usual) == "one"
    assert page_language(["der"] * 30 + ["the"] * 31, usual) == "one"
    few = round(100 * COMMON_SHARE) - 1
    assert page_language(["und"] * few + ["xyz"] * (100 - few), usual) is None
    assert page_language(["und"] * (few + 1) + ["xyz"] * (99 - few), usual) == "two"
    assert page_language(["a", "b7", "an"] * 100 + ["and"] * (LEAST_WORDS - 1), usual) is None


def test_common_words_are_a_thousand_a_language_and_words_of_one_are_seldom_those_of_another() -> None:
    common = common_words()
    assert {language: len(usual) for language, usual in common.items()} == {"de": 1000, "en": 1000, "fr": 1000}
    for one, other in (("de", "en"), ("de", "fr"), ("en", "fr")):
        assert len(common[one] & common[other]) < 60


def test_a_few_words_tell_that_a_page_is_french() -> None:
    assert is_french(["il", "est", "dans", "la", "maison", "et", "ne", "sort", "pas", "elle"])
    assert is_french(["Il"] + ["maison"] * 8)
    assert not is_french(["il"] + ["house"] * 9)  # a tenth is not more than a tenth
    assert is_french(["ıl", "Eſt"])
    assert not is_french([])
