"""The rules of the house that no single test of a module would notice."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("flows", "tasks", "models", "data_contracts")

LONGEST_FILE_LINES = 350
LONGEST_FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 8
MOST_MODULES = 14
"""In one folder."""
MOST_PARAMETERS = 6
FORMS = {"flows.backfill.backfill"}
"""Flows whose parameters are the fields of their form in the browser."""
STILL_WIDE = {
    "models.sr_swa.continuous.__init__",
}
"""Functions that are to take records; nothing may join them."""

# What only these modules may import, wherever the import stands in them.
DOORS = {
    "transformers": {
        "models.unlimited_ocr",
        "models.vlm.general",
        "models.vlm.cache",
        "models.vlm.driver",
        "models.vlm.loading",
        "flows.bench.vlm_decoder",
    },
    "great_expectations": {"data_contracts.quality.suites"},
    "models.sr_swa.baselines": {"flows.bench.kv", "flows.bench.kv_measure", "flows.bench.page_turner"},
}
READERS_OF_THE_ENVIRONMENT = {"flows.settings"}
OPTIONAL_PACKAGES = {"accelerate", "dask", "ray", "prefect_dask", "prefect_ray"}  # extras, imported only when asked for
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def sources() -> Iterator[tuple[str, Path, ast.Module]]:
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            yield module_name(path), path, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def normal_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def is_environ(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def reads_environment(tree: ast.Module) -> bool:
    """Whether a variable is looked up; setting one for a library, or handing all on to a process, is no look-up."""
    for node in ast.walk(tree):
        looked_up = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_environ(node.value)
        asked = isinstance(node, ast.Attribute) and is_environ(node.value) and node.attr in {"get", "items", "keys"}
        contained = isinstance(node, ast.Compare) and any(map(is_environ, node.comparators))
        if looked_up or asked or contained or (isinstance(node, ast.Attribute) and node.attr == "getenv"):
            return True
    return bool({"os.environ", "os.getenv"} & set(imports(tree)))


def test_imports_go_only_downward():
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("door", DOORS)
def test_some_packages_have_only_one_door(door):
    importers = {
        name for name, _, tree in sources() for used in imports(tree) if used == door or used.startswith(f"{door}.")
    }
    assert importers <= DOORS[door]


@pytest.mark.parametrize("source", ["os.environ['X']", "os.environ.get('X')", "'X' in os.environ", "os.getenv('X')"])
def test_reading_the_environment_is_noticed(source):
    assert reads_environment(ast.parse(source))
    assert not reads_environment(ast.parse("os.environ['X'] = '1'; del os.environ['X']; run(env={**os.environ})"))


def test_only_the_settings_read_the_environment():
    assert {name for name, _, tree in sources() if reads_environment(tree)} == READERS_OF_THE_ENVIRONMENT


def test_the_loop_names_no_module_of_prefect_even_late():
    late = {name for name, _, tree in sources() for used in imports(tree) if used.split(".")[0] == "prefect"}
    assert not {name for name in late if name.startswith(("models", "data_contracts"))}


def test_files_and_functions_stay_small():
    long_files = {name for name, path, _ in sources() if len(path.read_text().splitlines()) > LONGEST_FILE_LINES}
    assert not long_files
    lengths = [(f"{name}.{f.name}", length_lines(f)) for name, _, tree in sources() for f in functions(tree)]
    assert not [where for where, lines in lengths if lines > LONGEST_FUNCTION_LINES]
    assert sorted(lines for _, lines in lengths)[len(lengths) // 2] <= MEDIAN_FUNCTION_LINES


def test_functions_take_few_parameters():
    wide = {
        f"{name}.{f.name}"
        for name, _, tree in sources()
        for f in functions(tree)
        if sum(each.arg not in {"self", "cls"} for each in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs))
        > MOST_PARAMETERS
    }
    assert wide <= FORMS | STILL_WIDE


def test_folders_hold_few_modules():
    modules = Counter(path.parent for _, path, _ in sources() if path.name != "__init__.py")
    assert not {str(folder) for folder, count in modules.items() if count > MOST_MODULES}


def test_what_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {normal_name(requirement) for requirement in project["dependencies"]}
    known = packages_distributions()
    used = {name.split(".")[0] for _, _, tree in sources() for name in imports(tree)} - set(FLOORS)
    undeclared = {
        name for name in used - sys.stdlib_module_names if not declared & set(map(normal_name, known.get(name, [name])))
    }
    assert undeclared <= OPTIONAL_PACKAGES


def test_every_declared_package_has_its_pin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["dev"]
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
    assert {normal_name(requirement) for requirement in requirements} <= {normal_name(pin) for pin in pins}
    assert "torch==2.13.0" in pins


def test_no_module_has_a_name_that_says_nothing():
    parts = {part for name, _, _ in sources() for part in name.split(".")}
    assert not parts & FORBIDDEN_NAMES


def test_every_module_says_what_it_does():
    assert not [name for name, _, tree in sources() if not ast.get_docstring(tree)]


def test_tests_are_sentences_and_their_folders_no_packages():
    tests = ROOT / "tests"
    assert not list(tests.rglob("__init__.py"))
    names = [path.name for path in tests.rglob("test_*.py")]
    assert len(names) == len(set(names)), "two test files of one name cannot both be imported"
    short = [
        f"{path.name}: {function.name}"
        for path in tests.rglob("test_*.py")
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if function.name.startswith("test_") and function.name.count("_") < 3
    ]
    assert not short
