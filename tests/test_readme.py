"""The README speaks of what there is."""

from __future__ import annotations

import argparse
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from data_contracts.config_table import with_table
from data_contracts.errors import all_errors
from flows.commands.parser import command_parser

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
    (commands,) = (action for action in command_parser()._actions if isinstance(action, argparse._SubParsersAction))
    missing = [name for name in commands.choices if f"tomeflow {name}" not in README]
    assert not missing


def test_every_exit_code_is_listed() -> None:
    table = OPERATION.split("## Exit codes")[1].split("\n## ")[0]
    codes = {error.exit_code for error in all_errors()}
    assert not [code for code in codes if str(code) not in table]
    help_of_codes = command_parser().format_help().split("exit codes:")[1]
    assert {int(code) for code in re.findall(r"^ +(\d+)  ", help_of_codes, re.MULTILINE)} >= codes


def test_every_command_is_a_module_that_runs_it() -> None:
    def modules(parser: argparse.ArgumentParser) -> list[str]:
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        own = [parser.get_default("module")] if parser.get_default("module") else []
        return own + [name for group in groups for child in group.choices.values() for name in modules(child)]

    names = modules(command_parser())
    assert len(names) > 15
    assert all(callable(import_module(name).main) for name in names)


@pytest.mark.parametrize("line", EXAMPLES)
def test_what_it_says_to_type_is_understood(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    options, rest = command_parser().parse_known_args(arguments)
    assert options.knows_its_arguments or not rest  # each benchmark knows its own
