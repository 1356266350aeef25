"""A page of another origin, open in the browser of whoever runs ``tomeflow serve``: it lists nothing and runs nothing.

Nor does whoever may use the server have its worker run anything but tomeflow's own flows.
"""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support.browser import CHROMIUM_FLAGS
from support.command import run
from support.served import Served, until

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGE_TIMEOUT_MS = 120_000
# A name that leads to this machine, as an attacker's would whose name server answers so (DNS rebinding).
REBOUND = "rebound.example"

ATTACK = """<!doctype html><meta charset=utf-8><title>under way</title><script>
(async () => {
  const server = SERVER, deployment = DEPLOYMENT, made = MADE, log = [];
  const attempt = async (name, action) => {
    try { log.push([name, await action()]); } catch (error) { log.push([name, 'ERR ' + error]); }
  };
  const json = (path, body, more = {}) => fetch(server + path, {
    method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body), ...more});
  const run = id => ({state: {type: 'SCHEDULED'}, parameters: {source: '/none.pdf'}, enforce_parameter_schema: false,
                      job_variables: {command: 'touch ' + made}});
  await attempt('list', async () => await (await json('/api/deployments/filter', {})).text());
  await attempt('read', async () => await (
      await fetch(server + '/api/deployments/name/digitize-document/digitize')).text());
  await attempt('run', async () => await (await json(`/api/deployments/${deployment}/create_flow_run`, run())).text());
  // No preflight is asked for these: they arrive, and only the answer would be hidden.
  for (const type of ['text/plain', 'application/x-www-form-urlencoded'])
    await attempt('simple ' + type, async () => (await fetch(
      server + `/api/deployments/${deployment}/create_flow_run`,
      {method: 'POST', mode: 'no-cors', headers: {'Content-Type': type}, body: JSON.stringify(run())})).type);
  await attempt('no type', async () => (await fetch(
      server + `/api/deployments/${deployment}/create_flow_run`,
      {method: 'POST', mode: 'no-cors', body: new Blob([JSON.stringify(run())])})).type);
  await attempt('beacon', async () => navigator.sendBeacon(
      server + `/api/deployments/${deployment}/create_flow_run`, new Blob([JSON.stringify(run())])));
  await attempt('socket', () => new Promise(resolve => {
    const socket = new WebSocket(server.replace('http', 'ws') + '/api/events/out');
    socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused');
  }));
  await attempt('script', () => new Promise(resolve => {
    const script = document.createElement('script');
    script.src = server + '/api/version'; script.onload = () => resolve('loaded');
    script.onerror = () => resolve('refused'); document.head.append(script);
  }));
  await attempt('frame', () => new Promise(resolve => {
    const frame = document.createElement('iframe');
    frame.src = server + '/dashboard';
    frame.onload = () => { try { resolve(frame.contentDocument ? frame.contentDocument.body.innerText : 'closed'); }
                           catch (error) { resolve('closed'); } };
    document.documentElement.append(frame);
  }));
  window.attempts = log; document.title = 'done';
})();
</script>"""


class _Attack(BaseHTTPRequestHandler):
    page = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    write_sample(served.folder / "sample.pdf", 1, seed=11)
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from shutil import which

    chromium = which("chromium") or pytest.skip("the program chromium is not installed (.ci/run installs it)")
    with sync_playwright() as playwright:
        rebound = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=chromium, args=[*CHROMIUM_FLAGS, rebound])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    yield page
    page.close()


@pytest.fixture
def attack(served: Served) -> Iterator[Callable[[str], str]]:
    """Return a function: where the server is thought to be -> the address of the page that attacks it."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _Attack)
    threading.Thread(target=listener.serve_forever, daemon=True).start()

    def place(server: str) -> str:
        for name, value in {
            "SERVER": json.dumps(server),
            "DEPLOYMENT": json.dumps(served.deployment()["id"]),
            "MADE": json.dumps(str(served.folder / "made")),
        }.items():
            _Attack.page = (_Attack.page if name != "SERVER" else ATTACK).replace(name, value)
        return f":{listener.server_port}/"

    yield place
    listener.shutdown()
    listener.server_close()


def attempts(page: Page) -> dict[str, str]:
    page.wait_for_function("document.title === 'done'")
    return {name: str(outcome) for name, outcome in page.evaluate("window.attempts")}


def assert_nothing_came_of_it(served: Served, outcomes: dict[str, str]) -> None:
    assert not [name for name, outcome in outcomes.items() if "digitize" in outcome or "state_id" in outcome], outcomes
    assert outcomes["socket"] == "refused"
    assert outcomes["script"] == "refused"
    assert outcomes["frame"] in ("closed", "")
    assert served.ask("/flow_runs/filter", {}) == []
    assert not (served.folder / "made").exists()


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "http://localhost", f"http://{REBOUND}"])
def test_a_page_of_another_origin_lists_nothing_and_runs_nothing(
    served: Served, page: Page, attack: Callable[[str], str], origin: str
) -> None:
    page.goto(f"{origin}{attack(served.url)}")
    outcomes = attempts(page)
    assert outcomes["list"].startswith("ERR "), outcomes
    assert outcomes["run"].startswith("ERR "), outcomes
    assert_nothing_came_of_it(served, outcomes)


def test_a_page_without_an_origin_lists_nothing_and_runs_nothing(
    served: Served, page: Page, attack: Callable[[str], str], tmp_path: Path
) -> None:
    attack(served.url)
    (tmp_path / "attack.html").write_text(_Attack.page)
    page.goto((tmp_path / "attack.html").as_uri())
    assert_nothing_came_of_it(served, attempts(page))


def test_a_name_that_was_made_to_lead_here_is_not_answered(
    served: Served, page: Page, attack: Callable[[str], str]
) -> None:
    attack(f"http://{REBOUND}:{served.port}")
    answer = page.goto(f"http://{REBOUND}:{served.port}/dashboard")
    assert answer is not None
    assert answer.status == 403
    page.evaluate(_Attack.page.partition("<script>")[2].partition("</script>")[0])  # of the same origin, so to speak
    outcomes = attempts(page)
    assert "does not answer under that name" in outcomes["list"]
    assert not [name for name, outcome in outcomes.items() if "digitize" in outcome or "state_id" in outcome], outcomes
    assert served.ask("/flow_runs/filter", {}) == []


def asked(served: Served, path: str, **headers: str) -> tuple[int, str]:
    """Status and content of a path that nobody makes simpler on the way."""
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")


@pytest.mark.parametrize(
    "path",
    [
        "/tomeflow/quarantine/../",
        "/tomeflow/files/../secret.txt",
        "/tomeflow/files/%2e%2e/secret.txt",
        "/tomeflow/files/%252e%252e/secret.txt",
        "/tomeflow/files/..%5csecret.txt",
        "/tomeflow/files/away/secret.txt",
        "/tomeflow/files/.tomeflow/prefect/prefect.db",
        "/tomeflow/files/work/prefect/prefect.db",
        "/tomeflow/files/a%00b",
        "/../../../../../../etc/passwd",
        "/assets/../../../../../../../etc/passwd",
        "/assets/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/v2/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/api/static/..%2f..%2fserver.py",
    ],
)
def test_no_path_leads_out_of_what_is_served(served: Served, path: str) -> None:
    (served.folder / "secret.txt").write_text("SECRET")
    for name, target in {"away": served.folder, "work": served.output / ".tomeflow"}.items():
        if not (served.output / name).is_symlink():
            (served.output / name).symlink_to(target)
    status, content = asked(served, path)
    assert status == 404
    assert not [word for word in ("SECRET", "SQLite", "root:", "FastAPI") if word in content]


FREE_COMMAND = {
    "job_configuration": {"command": "{{ command }}", "env": "{{ env }}"},
    "variables": {"type": "object", "properties": {"command": {"type": "string"}, "env": {"type": "object"}}},
}


@pytest.mark.parametrize(
    "variables",
    [
        {"command": "touch made"},
        {"env": {"PYTHONSTARTUP": "made.py"}},
        {"env.PATH": "."},
        {"working_dir": "/tmp"},
        {"image": "other"},
        {"name": "other"},
    ],
)
def test_a_run_brings_nothing_of_how_it_is_started(served: Served, variables: dict[str, object]) -> None:
    body = {
        "state": {"type": "SCHEDULED"},
        "parameters": {"source": "none.pdf"},
        "enforce_parameter_schema": False,
        "job_variables": variables,
    }
    code, said = served.refusal(f"/deployments/{served.deployment()['id']}/create_flow_run", body)
    assert (code, "Additional properties are not allowed" in said) == (422, True)
    (bulk,) = served.ask(f"/deployments/{served.deployment()['id']}/create_flow_run/bulk", [body])["results"]
    assert bulk["status"] == "FAILED"
    assert served.ask("/flow_runs/filter", {}) == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/deployments/{id}", {"job_variables": {"command": "touch made"}}),
        ("PATCH", "/deployments/{id}", {"entrypoint": "made.py:flow"}),
        (
            "PATCH",
            "/deployments/{id}",
            {"pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "x"}}]},
        ),
        ("PATCH", "/deployments/{id}/", {"entrypoint": "made.py:flow"}),
        ("POST", "/deployments/", {"name": "x", "flow_id": "{flow_id}", "entrypoint": "os.system"}),
        ("POST", "/deployments", {"name": "x", "flow_id": "{flow_id}", "entrypoint": "os.system"}),
        ("PATCH", "/work_pools/tomeflow", {"base_job_template": FREE_COMMAND}),
        ("PATCH", "/work_pools/tomeflow", {"base_job_template": {}}),
        ("POST", "/work_pools/", {"name": "tomeflow", "type": "process"}),
        ("DELETE", "/work_pools/tomeflow", None),
        ("DELETE", "/work_pools/%74omeflow", None),
    ],
)
def test_nobody_stores_what_would_run_something_else(
    served: Served, method: str, path: str, body: dict[str, object] | None
) -> None:
    deployment = served.deployment()
    place = path.replace("{id}", deployment["id"])
    content = body and json.loads(json.dumps(body).replace("{flow_id}", deployment["flow_id"]))
    code, said = served.refusal(place, content, method)
    assert (code, "Refused: " in said) == (422, True)


def test_a_pool_of_an_older_version_is_corrected_and_its_limit_stays(served: Served) -> None:
    served.ask("/work_pools/tomeflow", {"concurrency_limit": 3}, "PATCH")
    with closing(sqlite3.connect(served.home / "prefect.db", timeout=60)) as database, database:
        database.execute("UPDATE work_pool SET base_job_template = ?", [json.dumps(FREE_COMMAND)])
        database.execute("UPDATE deployment SET infra_overrides = ?", [json.dumps({"command": "touch made"})])
    assert "command" in served.ask("/work_pools/tomeflow")["base_job_template"]["variables"]["properties"]
    again = [sys.executable, "-m", "flows.serving.registration", str(served.output), str(served.folder)]
    environment = {**served.environment, "PREFECT_API_URL": f"{served.url}/api", "PREFECT_HOME": str(served.home)}
    done = subprocess.run(again, cwd=served.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pool = served.ask("/work_pools/tomeflow")
    assert pool["base_job_template"]["variables"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert set(pool["base_job_template"]["job_configuration"]) == {"command", "working_dir", "stream_output"}
    assert pool["concurrency_limit"] == 3
    assert {d["job_variables"].get("command") for d in served.ask("/deployments/filter", {})} == {None}


def test_runs_that_bring_a_command_or_another_output_make_nothing(served: Served, tmp_path: Path) -> None:
    made = served.folder / "made"
    deployment = served.deployment()
    without_deployment = {
        "flow_id": deployment["flow_id"],
        "work_pool_name": "tomeflow",
        "state": {"type": "SCHEDULED"},
        "job_variables": {"command": f"touch {made}", "env": {"BASH_ENV": str(made)}},
    }
    strange = str(served.ask("/flow_runs/", without_deployment)["id"])
    elsewhere = served.start_run(source="sample.pdf", output=str(tmp_path / "elsewhere"))
    ends = ("FAILED", "CRASHED")
    for run_id in (strange, elsewhere):
        until(lambda: served.state(run_id)["type"] in ends, 300, lambda: served.story(run_id))  # noqa: B023
    assert "write to" in served.state(elsewhere)["message"]
    assert not made.exists()
    assert list(tmp_path.iterdir()) == []


def test_the_own_pages_work_and_a_run_from_them_is_published(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/deployments")
    page.get_by_role("link", name="digitize", exact=True).first.wait_for()
    run_id = page.evaluate(
        """async id => (await (await fetch(`/api/deployments/${id}/create_flow_run`, {method: 'POST',
            headers: {'Content-Type': 'application/json'},
            body: JSON.stringify({state: {type: 'SCHEDULED'}, parameters: {source: 'sample.pdf'}})})).json()).id""",
        served.deployment()["id"],
    )
    served.wait_for(run_id, "COMPLETED")
    (report,) = served.output.glob("*/report.html")
    report.write_text(report.read_text().replace("</body>", f"<script>{_STEAL}</script></body>"))
    answer = page.goto(f"{served.url}/tomeflow/files/{report.parent.name}/report.html")
    assert answer is not None
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert page.title() != "stolen"
    assert page.locator("h1").first.evaluate("e => getComputedStyle(e).fontSize") == "20.8px"  # its own styles hold
    (text,) = served.output.glob("*/document.txt")
    page.goto(f"{served.url}/tomeflow/files/{text.parent.name}/document.txt")
    assert page.inner_text("body").split() == text.read_text().split()


_STEAL = "document.title = 'stolen'; fetch('/api/deployments/filter', {method: 'POST', body: '{}'})"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org", ""])
def test_another_host_is_refused_without_a_password(tmp_path: Path, host: str) -> None:
    done = run("serve", "-o", tmp_path / "out", "--host", host)
    assert (done.returncode, "PREFECT_SERVER_API_AUTH_STRING=user:password" in done.stderr) == (2, True)
