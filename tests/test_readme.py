"""The README speaks of what there is."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from data_contracts.config_table import with_table
from data_contracts.errors import TomeflowError
from flows.commands.cli import _parser

ROOT = Path(__file__).parent.parent
DOOR = (ROOT / "README.md").read_text()
CONTRACTS = (ROOT / "data_contracts" / "README.md").read_text()
OPERATION = (ROOT / "deployments" / "README.md").read_text()
README = "\n".join((DOOR, (ROOT / "models" / "README.md").read_text(), CONTRACTS, OPERATION))
BLOCKS = "\n".join(README.split("```")[1::2])
EXAMPLES = re.findall(r"^tomeflow .*", BLOCKS, re.MULTILINE)


def test_the_configuration_table_is_up_to_date() -> None:
    assert with_table(CONTRACTS) == CONTRACTS, "make fix writes it"


def test_the_door_has_at_most_200_lines() -> None:
    assert len(DOOR.splitlines()) <= 200


def test_every_command_is_described() -> None:
    (commands,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    missing = [name for name in commands.choices if f"tomeflow {name}" not in README]
    assert not missing


def test_every_exit_code_is_listed() -> None:
    def codes(error: type[TomeflowError]) -> set[int]:
        return {error.exit_code}.union(*(codes(child) for child in error.__subclasses__()))

    table = OPERATION.split("## Exit codes")[1].split("\n## ")[0]
    missing = [code for code in codes(TomeflowError) if str(code) not in table]
    assert not missing


@pytest.mark.parametrize("line", EXAMPLES)
def test_what_it_says_to_type_is_understood(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    options, rest = _parser().parse_known_args(arguments)
    assert options.command.__name__ == "_bench" or not rest  # each benchmark knows its own
