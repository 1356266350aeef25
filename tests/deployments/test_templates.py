"""The templates in deployments/ say what the code says, and are what their readers expect."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint

from flows.serving.deployments import DEPLOYMENTS, FLOW_PROCESS, WORK_POOL, job_template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "deployments"


@pytest.fixture(scope="module")
def prefect_yaml() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((TEMPLATES / "prefect.yaml").read_text())
    return content


def test_prefect_yaml_offers_what_serve_offers(prefect_yaml: dict[str, Any]) -> None:
    offered = {entry["name"]: entry for entry in prefect_yaml["deployments"]}
    assert set(offered) == {deployment.name for deployment in DEPLOYMENTS}
    for deployment in DEPLOYMENTS:
        entry = offered[deployment.name]
        assert entry["entrypoint"] == deployment.entrypoint
        assert entry["description"] == deployment.description
        assert entry["tags"] == list(deployment.tags)
        assert entry["enforce_parameter_schema"] is True
        assert entry["parameters"] == deployment.parameters
        assert entry["work_pool"]["name"] == WORK_POOL
        assert entry["work_pool"]["job_variables"] == {}
        schedules = [(s["cron"], s["timezone"], s["active"]) for s in entry["schedules"]]
        assert schedules == ([(deployment.cron, deployment.timezone, False)] if deployment.cron else [])


def test_every_entrypoint_is_a_flow_that_loads(prefect_yaml: dict[str, Any]) -> None:
    for entry in prefect_yaml["deployments"]:
        assert load_flow_from_entrypoint(entry["entrypoint"]).parameters.properties


def test_the_template_for_a_pool_of_your_own_is_the_one_that_serve_gives_its_pool() -> None:
    template = json.loads((TEMPLATES / "work-pool.json").read_text())
    ours = job_template(Path(template["job_configuration"]["working_dir"]))
    ours["job_configuration"]["command"] = f"python -m {FLOW_PROCESS}"  # whatever this python is called
    assert template == ours


def test_prefect_yaml_names_the_pinned_version(prefect_yaml: dict[str, Any]) -> None:
    assert f"prefect=={prefect_yaml['prefect-version']}" in (ROOT / "constraints.txt").read_text().splitlines()


def test_the_image_has_every_package_and_no_other_python() -> None:
    dockerfile = (TEMPLATES / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    copied = {target for line in re.findall(r"^COPY (.*)$", dockerfile, re.M) for target in line.split()}
    assert packages <= copied
    assert all((ROOT / source).exists() for source in copied - {"./"})
    minimum = project["project"]["requires-python"].removeprefix(">=")
    assert f"FROM python:{minimum}-" in dockerfile


def test_compose_publishes_the_ui_to_this_machine_alone() -> None:
    (service,) = yaml.safe_load((TEMPLATES / "compose.yaml").read_text())["services"].values()
    assert service["ports"] == ["127.0.0.1:4200:4200"]
    assert service["environment"]["PREFECT_SERVER_API_AUTH_STRING"].startswith("${PREFECT_SERVER_API_AUTH_STRING:?")
    assert (TEMPLATES / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_the_kubernetes_template_fills_every_placeholder() -> None:
    template = json.loads((TEMPLATES / "kubernetes" / "work-pool.json").read_text())
    placeholders = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    assert placeholders == set(template["variables"]["properties"])
    (container,) = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"]
    assert container["workingDir"] == "/data"


def test_a_run_on_kubernetes_says_how_much_it_needs_and_nothing_of_what_is_started() -> None:
    template = json.loads((TEMPLATES / "kubernetes" / "work-pool.json").read_text())
    assert template["variables"]["additionalProperties"] is False
    assert not set(template["variables"]["properties"]) & {"image", "command", "env", "namespace", "secret", "claim"}
    assert "env" not in template["job_configuration"], "Prefect would merge into it what a run brings"
    (container,) = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["python", "-m", FLOW_PROCESS]
    assert container["env"] == []
