"""What every test may rely on: a clean environment, the shared data, outside programs, an honest list of skips.

A test that cannot run for want of data or of a program is skipped, and listed by cause at the end. With
``TOMEFLOW_REQUIRE_ALL=1`` (CI) such a skip is a failure; only two causes stay skips there: a test marked ``gpu``
on a machine without one, and a reason that begins with ``not applicable:``.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from support.s3_server import new_bucket, running_s3_server, s3_environment

SHARED_DATA = Path(os.environ.get("TOMEFLOW_SHARED_DATA") or os.devnull).resolve()  # no folder without one
REQUIRE_ALL = os.environ.get("TOMEFLOW_REQUIRE_ALL") == "1"

AMBIENT_PREFIXES = ("PREFECT_", "AWS_", "TOMEFLOW_", "GX_")
OF_THE_TESTS = ("TOMEFLOW_SHARED_DATA", "TOMEFLOW_REQUIRE_ALL")
"""Settings of the tests themselves; the processes that share the test files inherit them."""
QUIET_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_CLI_PROMPT": "false",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
    # Two processes share the tests and as many cores: threads that wait for one another cost ten times the work.
    "OMP_NUM_THREADS": "1",
}

settings.register_profile("tomeflow", deadline=None, derandomize=True, database=None)
settings.load_profile("tomeflow")


def pytest_configure(config: pytest.Config) -> None:
    """Forget the developer's own Prefect, AWS and tomeflow settings before anything is imported."""
    for name in _ambient_names():
        del os.environ[name]
    os.environ.update(QUIET_ENVIRONMENT)
    home = tempfile.mkdtemp(prefix="tomeflow-tests-")
    os.environ["PREFECT_HOME"] = home
    # Whoever starts the tests in the background has them ignore interrupts, and every child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    config.add_cleanup(_end_idle_processes)


def _end_idle_processes() -> None:
    from tasks.isolation import end_idle_processes

    end_idle_processes()


@contextmanager
def _put_back() -> Iterator[None]:
    """Put back every Prefect, AWS, tomeflow and GX variable that was changed meanwhile."""
    before = {name: os.environ[name] for name in _ambient_names()}
    yield
    for name in _ambient_names():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True, scope="module")
def unspoilt_environment_of_modules() -> Iterator[None]:
    """Put back what fixtures of a module changed: the next module must not find its server."""
    with _put_back():
        yield


@pytest.fixture(autouse=True)
def unspoilt_environment(unspoilt_environment_of_modules: None) -> Iterator[None]:
    """Put back what a test changed."""
    with _put_back():
        yield


@pytest.fixture
def shared_data(request: pytest.FixtureRequest) -> Path:
    """The folder of real scans; its tests carry the marker ``shared_data``, which skips them where it lacks."""
    if request.node.get_closest_marker("shared_data") is None:
        pytest.fail("a test that takes the fixture shared_data must carry the marker shared_data", pytrace=False)
    return SHARED_DATA


@pytest.fixture(scope="session")
def shared_data_folder() -> Path:
    """The same folder, for fixtures that outlive a test; their tests carry the marker as well."""
    return SHARED_DATA


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A local S3 server, one for all tests of this process."""
    with running_s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a Prefect server for all tests of this process that start runs and need no server of their own."""
    from flows.serving.prefect_server import prefect_api

    before = dict(os.environ)
    with prefect_api(tmp_path_factory.mktemp("prefect-server"), None) as url:
        changed = {name: os.environ.pop(name) for name in _ambient_names()}
        os.environ.update(before)  # nobody but who asks for this server is to find it
        yield url
        os.environ.update(changed)


@pytest.fixture
def s3_bucket(s3_endpoint: str) -> str:
    """The URI of a new empty bucket (``s3://...``); the AWS variables lead there, in this process and its children."""
    os.environ.update(s3_environment(s3_endpoint))
    return new_bucket(s3_endpoint, f"test-{uuid4().hex[:12]}")


@pytest.fixture
def need_tool() -> Callable[[str], str]:
    """Return a function: name of an outside program -> its path; without the program the test is skipped."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"the program {name} is not installed (.ci/run installs it)")
        return path

    return find


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that start servers, browsers or whole runs first: the longest first, so that no process idles last."""
    weights: dict[Path, int] = defaultdict(int)
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        weights[item.path] = max(weights[item.path], 3 * ("e2e" in marks) + 2 * ("flow" in marks) + ("slow" in marks))
    items.sort(key=lambda item: -weights[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the shared data or a CUDA device where there is none."""
    if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
        pytest.skip("no shared data (set TOMEFLOW_SHARED_DATA to the folder)")
    if item.get_closest_marker("gpu") and not _has_cuda():
        pytest.skip("no CUDA device")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skip into a failure where everything is required."""
    report: pytest.TestReport = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and not _may_skip(item, report):
        report.outcome = "failed"
        report.longrepr = f"TOMEFLOW_REQUIRE_ALL=1, but skipped: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Do the same for a whole module that skips itself, as ``pytest.importorskip`` does."""
    report: pytest.CollectReport = yield
    if REQUIRE_ALL and report.skipped:
        reason = _reason(report)
        report.outcome = "failed"
        report.longrepr = f"TOMEFLOW_REQUIRE_ALL=1, but {collector.nodeid} was skipped: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests by cause."""
    causes: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        causes[_reason(report)].append(report.nodeid)
    if not causes:
        return
    terminalreporter.section("skipped, by cause")
    for cause, names in sorted(causes.items(), key=lambda entry: -len(entry[1])):
        terminalreporter.line(f"{len(names):4d}  {cause}")
        for name in names:
            terminalreporter.line(f"        {name}")


def _ambient_names() -> list[str]:
    return [name for name in os.environ if name.startswith(AMBIENT_PREFIXES) and name not in OF_THE_TESTS]


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _may_skip(item: pytest.Item, report: pytest.TestReport) -> bool:
    no_gpu = item.get_closest_marker("gpu") is not None and not _has_cuda()
    return no_gpu or _reason(report).startswith("not applicable:")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
