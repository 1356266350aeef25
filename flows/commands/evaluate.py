"""``tomeflow eval``: a document's error rates as a table or JSON, recorded in its warehouse."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from data_contracts.errors import ConfigError
from data_contracts.text import ALL_STEPS, Step
from flows.evaluate import Evaluation, find_document, find_truth, listed, read_pages, record, score


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow eval`` with parsed ``options`` and return the exit code."""
    steps = parse_skipped(options.skip_steps)
    folder = find_document(Path(options.output), options.document)
    readings = read_pages(folder)
    truth = find_truth(folder, options.truth, options.language)
    evaluation = score(((number, truth.pages[number], readings[number]) for number in sorted(truth.pages)), steps)
    left_out = [number for number in readings if number not in truth.pages]
    if steps == ALL_STEPS:
        record(folder, truth, evaluation)
    if options.json:
        said = {"source": truth.source, "is_estimate": truth.is_estimate, "unjudged_pages": left_out}
        print(json.dumps({**said, **evaluation.as_json()}))
        return 0
    print(as_table(evaluation))
    if truth.is_estimate:
        print("an estimate: differences from a second reader, which errs as well")
    if left_out:
        print(f"no {truth.source} for pages {listed(left_out)}", file=sys.stderr)
    if steps != ALL_STEPS:
        print(f"normalised only by: {', '.join(steps) or 'nothing'}; not recorded", file=sys.stderr)
    return 0


def parse_skipped(skipped: str) -> tuple[Step, ...]:
    """Return the steps that remain; ``skipped`` lists names or the numbers 1-6 of the steps to leave out.

    Raises:
        ConfigError: with every entry that is no step.
    """
    numbered = {str(number): step for number, step in enumerate(ALL_STEPS, start=1)}
    named = numbered | {step.value: step for step in ALL_STEPS}
    entries = [entry.strip() for entry in skipped.split(",") if entry.strip()]
    if wrong := [entry for entry in entries if entry not in named]:
        known = ", ".join(f"{number} {step}" for number, step in numbered.items())
        raise ConfigError(f"no normalisation step {', '.join(map(repr, wrong))}; the steps are {known}.")
    left_out = {named[entry] for entry in entries}
    return tuple(step for step in ALL_STEPS if step not in left_out)


def as_table(evaluation: Evaluation) -> str:
    """Return the figures for people: one line a page, then the totals."""
    lines = ["  page      CER      WER  characters"]
    lines += [
        f"{page.page_number:6d} {page.cer:8.2%} {page.wer:8.2%} {page.characters:11d}" for page in evaluation.per_page
    ]
    lines.append(f" total {evaluation.cer:8.2%} {evaluation.wer:8.2%} {evaluation.characters:11d}")
    kinds = evaluation.kinds()
    lines.append(
        f"wrong: {kinds['digit_errors']} at {kinds['digits']} digits, {kinds['punctuation_errors']} at "
        f"{kinds['punctuation']} marks, {kinds['letter_errors']} letters, {kinds['case_errors']} in case"
    )
    lines.append(
        f"{len(evaluation.per_page)} pages, median page CER {evaluation.median_page_cer:.2%}, "
        f"{evaluation.over_5_percent_ratio:.0%} of pages above 5 %"
    )
    return "\n".join(lines)
