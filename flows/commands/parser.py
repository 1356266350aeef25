"""What the command line takes: commands, their options and their help. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from typing import Any

from data_contracts.errors import INTERRUPTED_EXIT_CODE, TomeflowError, all_errors
from flows.commands.arguments import at_least_one, path_or_uri, port, utf8_path_or_uri

_TRUTH = """\
what a truth folder holds (UTF-8), the first of these that is there:
  pages.tsv                      its n-th row, column page, names the page_NNNN.txt of page n
  page_0001.txt, page_0002.txt   page N of the document is page_N; page_0001.gt.txt is as good
  one text file                  all pages, a form feed between; such a file may be named itself

what both sides go through before they are compared (data_contracts/text.py says it in full):
  1 letters  ligatures, full width and long s to plain letters; vowels with e above to umlauts
  2 hyphens  a word that is parted at the end of a line is joined
  3 spaces   a run of white space, line ends included, is one space; none in Chinese and Japanese
  4 quotes   every quote is ' or "
  5 dashes   every dash is -
  6 dots     an ellipsis is ...
"""


def command_parser() -> argparse.ArgumentParser:
    """Return the parser; what it parses has ``module``, whose ``main`` runs the command."""
    parser = argparse.ArgumentParser(
        prog="tomeflow",
        description="Digitize very long scanned documents: every page accounted for, memory flat, resumable.",
        epilog=_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(knows_its_arguments=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_ingest(commands)
    _add_backfill(commands)
    _add_status(commands)
    _add_eval(commands)
    _add_sample(commands)
    _add_bench(commands)
    _add_query(commands)
    _add_export(commands)
    _add_report(commands)
    _add_release(commands)
    _add_serve(commands)
    _add_doctor(commands)
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser("run", help="digitize documents", description="Digitize each INPUT into OUT/<document>/.")
    run.add_argument(
        "inputs", nargs="+", type=path_or_uri, metavar="INPUT", help="a PDF, an image, or a folder of page images"
    )
    run.add_argument(
        "--pages", metavar="LIST", help="published are these and no others, such as 1-20,35 (default: all)"
    )
    _add_digitizing(run)
    run.add_argument("--runner", choices=["threads", "dask", "ray"], default="threads", help="where pages are encoded")
    run.add_argument("--fresh", action="store_true", help="ignore what earlier runs finished")
    run.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    run.set_defaults(module="flows.commands.run")


def _add_ingest(commands: Any) -> None:
    ingest = commands.add_parser("ingest", help="digitize what is new or changed in an archive; remembers what it saw")
    ingest.add_argument(
        "prefix", type=utf8_path_or_uri, metavar="PREFIX", help="a folder or s3://bucket/prefix, searched at any depth"
    )
    _add_digitizing(ingest)
    ingest.add_argument("--retry-failed", action="store_true", help="also what failed for good or too often")
    ingest.add_argument("--json", action="store_true", help="print one JSON object")
    ingest.set_defaults(module="flows.commands.ingest", pages=None)


def _add_backfill(commands: Any) -> None:
    backfill = commands.add_parser("backfill", help="read again the pages that failed, and patch every output")
    backfill.add_argument("-o", "--output", default="out", metavar="OUT", help="output folder of tomeflow run")
    backfill.add_argument("--document", metavar="ID", help="one document (default: all)")
    backfill.add_argument("--since", metavar="DATE", help="pages read by runs from then on, such as 2026-11-30")
    backfill.add_argument(
        "--status", metavar="LIST", help="of failed, truncated, quarantined, stale (default: the first three)"
    )
    backfill.add_argument("--pages", metavar="LIST", help="such as 79,83, whatever their status")
    backfill.add_argument(
        "--chunks", metavar="LIST", help="such as 5: the pages of these chunks, whatever their status"
    )
    backfill.add_argument("--model", metavar="NAME", help="pages that this model, or fingerprint, has read")
    backfill.add_argument("--config", metavar="SHA", help="pages read with this configuration; first digits suffice")
    backfill.add_argument("--dpi", type=int, metavar="N", help="read these pages at this resolution")
    backfill.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="such as compact.detector_side_px=2048"
    )
    backfill.add_argument("--cascade", action="store_true", help="read all later pages again too")
    backfill.add_argument("--why", default="", metavar="REASON", help="kept with every attempt")
    backfill.add_argument("--json", action="store_true", help="print one JSON object")
    backfill.set_defaults(module="flows.commands.backfill")


def _add_status(commands: Any) -> None:
    status = commands.add_parser("status", help="what became of each document, and what to do next")
    status.add_argument("document", nargs="?", metavar="DOC", help="id of one document (default: all)")
    status.add_argument("-o", "--output", default="out", metavar="OUT", help="output folder of tomeflow run")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    status.set_defaults(module="flows.commands.status")


def _add_digitizing(run: argparse.ArgumentParser) -> None:
    """Add the options that say how documents are read and what is published."""
    run.add_argument(
        "-o", "--output", type=utf8_path_or_uri, default="out", metavar="OUT", help="where to publish (default: out)"
    )
    run.add_argument("--dpi", default="auto", metavar="auto|N", help="rendering resolution (default: the scan's own)")
    run.add_argument("--chunk-pages", type=int, metavar="N", help="pages between two checkpoints (default: 16)")
    run.add_argument("--window", type=int, metavar="N", help="pages held at full resolution (default: 8)")
    run.add_argument("--lookahead", type=int, metavar="N", help="of those, pages after the current one (default: 0)")
    run.add_argument("--top-k", type=int, metavar="N", help="far pages fetched when unsure (default: 4)")
    run.add_argument("--model", metavar="NAME", help="which reads: compact (default), unlimited-ocr, vision-language")
    run.add_argument("--model-path", metavar="DIR", help="folder with the large model's weights")
    run.add_argument("--device", choices=["auto", "cuda", "mps", "cpu"], help="where the large model computes")
    run.add_argument("--format", metavar="LIST", help="names of formats, with commas (default: txt,pdf,jsonl)")
    side_by_side = "documents side by side, sharing one model (default: 2)"
    run.add_argument("--at-once", type=at_least_one, default=2, metavar="N", help=side_by_side)
    run.add_argument(
        "--gate",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="check before publishing; what fails is quarantined (exit 40; default: yes)",
    )


def _add_eval(commands: Any) -> None:
    evaluate = commands.add_parser(
        "eval",
        help="compare a reading with the truth: CER and WER by page",
        epilog=_TRUTH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    evaluate.add_argument("output", metavar="OUT", help="a document's folder, or the output folder of tomeflow run")
    evaluate.add_argument(
        "--truth",
        required=True,
        metavar="DIR|text-layer|second-reader",
        help="truth files or one file with form feeds; the PDF's own visible text; or Tesseract's reading, an estimate",
    )
    evaluate.add_argument("--language", default="eng", metavar="MODEL", help="Tesseract's model (default: eng)")
    evaluate.add_argument("--document", metavar="ID", help="which document, if OUT holds several")
    evaluate.add_argument(
        "--skip-steps", default="", metavar="LIST", help="normalisation steps to leave out, such as 2,3"
    )
    evaluate.add_argument("--json", action="store_true", help="print one JSON object")
    evaluate.set_defaults(module="flows.commands.evaluate")


def _add_sample(commands: Any) -> None:
    sample = commands.add_parser("sample", help="draw a book that looks scanned, with its truth")
    sample.add_argument("--pages", type=int, default=12, metavar="N")
    sample.add_argument("--seed", type=int, default=1, metavar="S")
    sample.add_argument("-o", "--output", required=True, metavar="FILE.pdf")
    sample.set_defaults(module="flows.sample.book")


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench", help="measure: memory (kv), accuracy beside others (readers), what memory gains (accuracy)"
    )
    kinds = bench.add_subparsers(required=True, metavar="KIND")
    for kind, text in (
        ("kv", "memory and latency of SR-SWA beside its baselines"),
        ("readers", "accuracy beside other readers"),
        ("vlm", "memory and latency of a large decoder, page after page"),
        ("calibration", "the error rate that confidence lets expect beside the measured one"),
        ("overhead", "what orchestration costs: start-up, each document, each chunk"),
        ("accuracy", "what memory and word lists gain, on pages as they are and degraded"),
    ):
        parser = kinds.add_parser(kind, help=text, add_help=False)
        parser.set_defaults(module=f"flows.bench.{kind}", knows_its_arguments=True)


def _add_query(commands: Any) -> None:
    query = commands.add_parser("query", help="ask the warehouse: SQL over documents, runs, pages, verdicts, views")
    query.add_argument(
        "sql",
        metavar="SQL",
        help='such as "SELECT * FROM hit_ratio"; "SHOW TABLES" and "DESCRIBE pages" say what there is',
    )
    query.add_argument("-o", "--output", default="out", metavar="OUT", help="output folder of tomeflow run")
    query.add_argument("--export", metavar="URI", help="folder or URI of an export made by tomeflow export")
    query.add_argument(
        "--seconds", type=at_least_one, default=60, metavar="N", help="a query that takes longer is ended (default: 60)"
    )
    query.add_argument("--form", choices=["table", "csv", "json"], default="table")
    query.set_defaults(module="flows.commands.query")


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="write the warehouse as Parquet, to a folder or s3://")
    export.add_argument("--to", required=True, metavar="URI", help="such as metrics/ or s3://bucket/metrics")
    export.add_argument("-o", "--output", default="out", metavar="OUT", help="output folder of tomeflow run")
    export.set_defaults(module="flows.commands.export")


def _add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="write one document's report: verdict, plots, worst lines")
    report.add_argument("folder", metavar="OUT/DOCUMENT", help="a published document, or one in quarantine")
    report.add_argument(
        "--data-docs",
        metavar="FOLDER",
        help="also write Great Expectations' own pages there; opened, they load scripts and styles from the web",
    )
    report.set_defaults(module="flows.report.document")


def _add_release(commands: Any) -> None:
    release = commands.add_parser("release", help="publish pages in spite of the gate; recorded with name and time")
    release.add_argument("document", metavar="DOCUMENT", help="its id")
    release.add_argument("--pages", required=True, metavar="LIST", help="such as 79,83")
    release.add_argument("--why", required=True, metavar="REASON")
    release.add_argument("--by", metavar="NAME", help="who decides (default: the user of this process)")
    release.add_argument("-o", "--output", default="out", metavar="OUT", help="output folder of tomeflow run")
    release.set_defaults(module="flows.commands.release")


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="a web UI on this machine: start, watch and schedule runs in the browser")
    serve.add_argument("-o", "--output", default="out", metavar="OUT", help="where documents are published")
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default: this machine alone)")
    serve.add_argument("--port", type=port, default=4200, metavar="N", help="where to listen (default: 4200)")
    side_by_side = "documents side by side (default: 1)"
    serve.add_argument("--at-once", type=at_least_one, default=1, metavar="N", help=side_by_side)
    serve.set_defaults(module="flows.serving.serve")


def _add_doctor(commands: Any) -> None:
    doctor = commands.add_parser("doctor", help="what this machine can run, and what is missing")
    doctor.add_argument("--model-path", metavar="DIR", help="also look at the weights of unlimited-ocr in this folder")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(module="flows.commands.doctor")


def _exit_codes() -> str:
    """Return all exit codes with their meaning, of the errors from their docstrings."""
    meanings = {0: "all documents published", INTERRUPTED_EXIT_CODE: "interrupted; the same command goes on from there"}
    for error in all_errors():
        first_line = (error.__doc__ or error.__name__).partition("\n")[0].rstrip(".")
        meanings[error.exit_code] = first_line[0].lower() + first_line[1:]
    meanings[TomeflowError.exit_code] = "anything else"
    return "exit codes:\n" + "\n".join(f"  {code:3d}  {meanings[code]}" for code in sorted(meanings))
