"""The command line: runs one command and turns what went wrong into a line and an exit code.

Each command imports what it needs when it runs, so that ``--help`` takes no time.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from data_contracts.errors import INTERRUPTED_EXIT_CODE, OutOfMemory, StorageUnavailable, TomeflowError
from flows.commands.parser import command_parser

OUTPUT_LOST_EXIT_CODE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a known error is one line on standard error."""
    code = OUTPUT_LOST_EXIT_CODE
    try:
        code = _code_of(arguments)
        print(end="", flush=True)
        return code
    except TomeflowError as error:
        print(f"tomeflow: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tomeflow: interrupted; finished chunks are kept, run the same command to go on", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:  # who reads the output has read enough
        _drop_output()
        return code
    except Exception as error:
        if (said := _said_of_memory(error)) is not None:
            print(f"tomeflow: {said}", file=sys.stderr)
            return OutOfMemory.exit_code
        if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
            raise
        print(f"tomeflow: {error}. Make room, or send standard output elsewhere.", file=sys.stderr)
        _drop_output()
        return StorageUnavailable.exit_code


def _said_of_memory(error: Exception) -> str | None:
    """Return what to say of an error if it is memory, or room for a process, that ran out."""
    from data_contracts.out_of_memory import is_out_of_memory, memory_bound

    if not is_out_of_memory(error) and not (isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN):
        return None
    what = f"memory ran out, or no process may be started ({type(error).__name__}: {error})"
    return f"{what}. {memory_bound()}Give it more, or fewer documents at once (--at-once 1)."


def _code_of(arguments: Sequence[str] | None) -> int:
    """Run the command and return its exit code, also where a parser ends it, after its help or of wrong usage."""
    try:
        parser = command_parser()
        options, rest = parser.parse_known_args(arguments)
        if rest and not options.knows_its_arguments:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        from flows.settings import set_library_defaults

        set_library_defaults()
        run = import_module(options.module).main
        return int(run(rest if options.knows_its_arguments else options))
    except SystemExit as ended:
        return int(ended.code or 0)


def _drop_output() -> None:
    """Have the interpreter not fail once more, at the output that nobody takes, when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
