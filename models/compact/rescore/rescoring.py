"""Lexicon rescoring of uncertain words: known words in their place, scored against the picture.

The hypothesis of a bad scan is often one letter away from a word that stands elsewhere in the book. So for each
uncertain word the words of the window, of fetched references and of a general list that are spelt nearly like it
compete with the hypothesis, all for the same frames: the CTC probability of each text, plus what the document's own
counts say of it. A change needs a margin. Nothing that is decided here enters the memory: it holds confident hypotheses
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from rapidfuzz.distance import Levenshtein

from models.compact.recognise.ctc_score import CtcHead
from models.compact.rescore.memory_words import MemoryWords, spelling_of
from models.compact.rescore.word_choice import Evidence, Thresholds, choose
from models.compact.words.candidates import in_case_of, keeps
from models.compact.words.document_words import DocumentWords
from models.compact.words.hypothesis_words import HypothesisWord, confident_words, page_words
from models.compact.words.word_list import WordList
from models.compact.words.word_tokens import word_picture
from models.sr_swa.context import AttentionContext
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.usage import Fetch
from models.sr_swa.pages import EncodedLine

Lists = Sequence[WordList]

NOTES_KEY = "words"
"""Where the document's words stand in the context's notes."""
FULL_MASS = 1.0
"""What an accepted word counts as, in attention: it is a hit, whatever ratio makes one."""


@dataclass(frozen=True)
class Replacement:
    """A word of line ``line_index`` that was changed from ``word`` to ``accepted``; ``posterior``: among all texts."""

    line_index: int
    word: HypothesisWord
    accepted: str
    posterior: float
    seen_on_pages: tuple[int, ...] = ()
    """Pages of the window, or fetched, on which the accepted word stands."""


@dataclass(frozen=True)
class Rescored:
    """A page after lexicon rescoring. ``lines`` are those given, changed ones with new ids, posteriors, frames.

    ``window_mass`` [tokens] by page number has 1 for each time that the accepted word of a doubt stood in the window.
    """

    lines: tuple[EncodedLine, ...]
    replacements: tuple[Replacement, ...] = ()
    window_mass: Mapping[int, torch.Tensor] = field(default_factory=dict)

    @property
    def changed_lines(self) -> frozenset[int]:
        """Indices of the lines that differ from the hypothesis."""
        return frozenset(each.line_index for each in self.replacements)

    def helping_pages(self, line_index: int) -> tuple[int, ...]:
        """Return the pages on which words stood that were accepted in a line."""
        seen_on = (each.seen_on_pages for each in self.replacements if each.line_index == line_index)
        return tuple(sorted({page for pages in seen_on for page in pages}))


class WordRescorer:
    """Rescores pages of one document. Holds no state of it: that is in the context's window, store and notes."""

    def __init__(
        self,
        head: CtcHead,
        characters: Sequence[str],
        lists: Iterable[WordList] = (),
        thresholds: Thresholds | None = None,
    ) -> None:
        """``characters`` [classes] map class ids; without ``lists`` only the document's words compete."""
        self._head = head
        self.characters = tuple(characters)
        self.spelling = spelling_of(self.characters)
        self._class_of = {character: index for index, character in enumerate(self.characters) if character}
        self._lists = tuple(lists)
        self._thresholds = thresholds or Thresholds()

    def rescore_page(self, lines: Sequence[EncodedLine], context: AttentionContext) -> Rescored:
        """Return ``lines`` of the current page with uncertain words rescored.

        The gate is asked word by word: one picture asks for pages on which that word stands, a whole line of them for
        no page in particular. A reader that is configured to remember no page has no counts either.
        """
        document = DocumentWords.from_json(context.notes.get(NOTES_KEY, {}))
        remembers = context.config.window_pages > 1 or context.config.reference_pages > 0
        words = page_words(lines, self.characters)
        lists = document.written_in(confident_words(words), self._lists)
        page = _PageRescoring(self, document if remembers else DocumentWords(), lists, context)
        rescored = [page.rescore(index, line, words[index]) for index, line in enumerate(lines)]
        return Rescored(tuple(rescored), tuple(page.replacements), page.window_mass)

    def count_page(self, lines: Sequence[EncodedLine], context: AttentionContext) -> None:
        """Count the confident words of a finished page, as read by CTC, in ``context.notes``; once a page."""
        document = DocumentWords.from_json(context.notes.get(NOTES_KEY, {}))
        document.add_page(confident_words(page_words(lines, self.characters)), context.page_number, self._lists)
        context.notes[NOTES_KEY] = document.as_json()

    def doubts(self, line: EncodedLine, words: Sequence[HypothesisWord]) -> list[HypothesisWord]:
        """Return the words of ``line`` that may be changed; none of a line that cannot be read."""
        thresholds = self._thresholds
        if not len(line.ctc_ids) or float(line.ctc_posteriors.mean()) < thresholds.unreadable_below:
            return []
        return [
            word
            for word in words
            if word.is_word
            and word.letters >= thresholds.least_letters
            and word.confidence < thresholds.uncertain_below
        ]

    def texts(self, line: EncodedLine, word: HypothesisWord, forms: Iterable[str]) -> dict[str, str]:
        """Return core -> text for what ``word`` might be, itself first.

        Every text can be written by the head, and none lacks a letter, figure or mark of which the hypothesis is sure.
        """
        first = word.start + len(word.head)
        marks = np.array([not character.isalpha() for character in word.core])
        least = np.where(marks, self._thresholds.sure_mark, self._thresholds.sure_letter)
        sure = line.ctc_posteriors[first : first + len(word.core)] > least
        cores = {word.core: word.text}
        for form in dict.fromkeys(forms):
            if keeps(form, word.core, sure):
                for core in in_case_of(word.core, form):
                    if self._class_of.keys() >= set(core):
                        cores.setdefault(core, word.head + core + word.tail)
        return cores

    def score(self, line: EncodedLine, word: HypothesisWord, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """Return the CTC score [texts] of each of ``texts`` in place of ``word``, its neighbours included."""
        around = [[self._class_of[character] for character in word.before + text + word.after] for text in texts]
        return self._head.score(line.frames[word.first_frame : word.last_frame + 1], around)

    def evidence(
        self,
        line: EncodedLine,
        word: HypothesisWord,
        texts: Mapping[str, str],
        remembered: npt.NDArray[np.bool_],
        document: DocumentWords,
        lists: Lists,
    ) -> Evidence:
        """Return what speaks for each of ``texts``, core -> text, in place of ``word``; ``remembered`` [texts]."""
        return Evidence(
            picture=self.score(line, word, texts.values()).astype(np.float64),
            times=np.array([document.count(core) for core in texts], np.float64),
            listed=np.array([any(core in each.words for each in lists) for core in texts]),
            remembered=remembered,
            letters=np.array([len(core) for core in texts]),
            has_list=bool(lists),
        )

    def choose(
        self, line: EncodedLine, word: HypothesisWord, texts: Mapping[str, str], evidence: Evidence
    ) -> tuple[int, float]:
        """Return the index among ``texts`` of what ``word`` of ``line`` is, 0 for the hypothesis, and its posterior."""
        del line, texts
        return choose(evidence, word.letters, self._thresholds)

    def write(self, line: EncodedLine, replacements: Sequence[Replacement]) -> EncodedLine:
        """Return ``line`` with words replaced; the new characters share the frames of the old ones.

        The posterior of a new character is that of its word, and no more than the picture leaves for it.
        """
        ids, posteriors, frames = (list(part) for part in (line.ctc_ids, line.ctc_posteriors, line.ctc_frames))
        for each in sorted(replacements, key=lambda each: -each.word.start):
            span = slice(each.word.start, each.word.stop)
            written = [self._class_of[character] for character in each.accepted]
            peaks = np.linspace(frames[span][0], frames[span][-1], len(written))
            hypothesis = "".join(self.characters[index] for index in ids[span])
            posteriors[span] = _bounded(each.posterior, hypothesis, each.accepted, posteriors[span])
            ids[span] = written
            frames[span] = [round(peak) for peak in peaks]
        return replace(
            line,
            ctc_ids=np.asarray(ids, np.int32),
            ctc_posteriors=np.asarray(posteriors, np.float32),
            ctc_frames=np.asarray(frames, np.int32),
        )


def _bounded(posterior: float, hypothesis: str, accepted: str, sureness: Sequence[float]) -> list[float]:
    """Return the posteriors of ``accepted`` [characters], given how sure the hypothesis was of what it had instead."""
    bounded = [posterior] * len(accepted)
    for step in Levenshtein.opcodes(hypothesis, accepted):
        if step.tag == "replace":
            left = 1 - float(max(sureness[step.src_start : step.src_end]))
            bounded[step.dest_start : step.dest_end] = [min(posterior, left)] * (step.dest_end - step.dest_start)
    return bounded


class _PageRescoring:
    """One page's lexicon rescoring: the memory that it is read with, and what came of it."""

    def __init__(
        self,
        rescorer: WordRescorer,
        document: DocumentWords,
        lists: Sequence[WordList],
        context: AttentionContext,
    ) -> None:
        self._rescorer = rescorer
        self._document = document
        self._lists = lists
        self._context = context
        self._window = MemoryWords(context.window_blocks(before=context.page_number), rescorer.spelling)
        self._fetched: dict[tuple[int, ...], MemoryWords] = {}
        self.replacements: list[Replacement] = []
        self.window_mass: dict[int, torch.Tensor] = {}

    def rescore(self, line_index: int, line: EncodedLine, words: Sequence[HypothesisWord]) -> EncodedLine:
        """Return ``line`` with the changes that its picture bears out."""
        doubts = self._rescorer.doubts(line, words)
        changes = [change for word in doubts if (change := self._rescore_word(line_index, line, word)) is not None]
        self.replacements += changes
        return self._rescorer.write(line, changes) if changes else line

    def _rescore_word(self, line_index: int, line: EncodedLine, word: HypothesisWord) -> Replacement | None:
        """Return what ``word`` should be instead, if anything."""
        picture = word_picture(line, word).astype(np.float16)
        fetch = self._fetch(picture, 1 - word.confidence)
        fetched = self._words_of(fetch.blocks if fetch else ())
        memories = (self._window, fetched)
        forms = [form for memory in memories for form in memory.candidates(word.core, picture)]
        forms += [form for each in self._lists for form in each.near(word.core)]
        texts = self._rescorer.texts(line, word, forms)
        if len(texts) == 1:
            return None
        remembered = np.array([any(memory.tokens_of(core) for memory in memories) for core in texts])
        evidence = self._rescorer.evidence(line, word, texts, remembered, self._document, self._lists)
        best, posterior = self._rescorer.choose(line, word, texts, evidence)
        core, text = list(texts.items())[best]
        self._note_use(core, fetch, fetched)
        seen_on = tuple(sorted({page for memory in memories for page in memory.tokens_of(core)}))
        return Replacement(line_index, word, text, posterior, seen_on) if best else None

    def _fetch(self, picture: npt.NDArray[np.float16], uncertainty: float) -> Fetch | None:
        query = torch.from_numpy(picture).view(1, 1, 1, -1)
        return self._context.fetch(query, uncertainty) if len(self._context.store) else None

    def _words_of(self, blocks: Sequence[KVBlock]) -> MemoryWords:
        """Return the words of fetched ``blocks``; on one page the same pages come again and again."""
        pages = tuple(block.page_number for block in blocks)
        if pages not in self._fetched:
            self._fetched[pages] = MemoryWords(blocks, self._rescorer.spelling)
        return self._fetched[pages]

    def _note_use(self, core: str, fetch: Fetch | None, fetched: MemoryWords) -> None:
        """Count the accepted word, changed or not, as attention to the tokens that spell it: their word it is.

        What a general list has is no use of the window: it would be kept of the page in place of what no list has.
        """
        in_window = {} if any(core in each.words for each in self._lists) else self._window.tokens_of(core)
        for page_number, tokens in in_window.items():
            mass = self.window_mass.setdefault(page_number, torch.zeros(self._window.tokens(page_number)))
            mass[tokens] += FULL_MASS
        if fetch is not None:
            fetch.note_mass(dict.fromkeys(fetched.tokens_of(core), FULL_MASS))
