"""Wordings, system prompts and rewriters as axes of a sweep."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

import clinometer as cm
from clinometer.sweeps.grid import LATER, Cell, sweep_from_mapping
from clinometer.sweeps.sweep import LoadedObjects, request_of
from tests.models.openai.image_server import ImageServer, png
from tests.toys import Eye, Painter, toy_suite, two_wordings

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return cm.sweep(
        {"axes": {"suite": "worded", "model": "painter", "wording": ["plain", "longer"]}, "resamples": 999},
        tmp_path_factory.mktemp("wordings") / "sweep", models={"painter": Painter()},
        suites={"worded": two_wordings()}, encoder=[Eye()],
    )  # fmt: skip


@pytest.mark.thorough
def test_each_cell_draws_one_wording_under_the_concepts_own_name(swept):
    runs = list(swept.runs.values())
    names = [[target.name for target in run.suite.targets] for run in runs]
    assert names[0] == names[1]
    assert [run.suite.wording for run in runs] == ["plain", "longer"]
    prompts = [set(run.samples[run.samples.role == "target"].prompt) for run in runs]
    assert not prompts[0] & prompts[1]
    assert "wording" not in set(runs[0].scores.metric)


def test_settings_of_two_wordings_are_paired_by_noise(swept):
    first, second = swept.runs.values()
    (compared,) = cm.compare(first, second)
    assert compared.paired
    assert compared.pairs == len(first.plan)
    assert len(swept.differences)


def test_the_folder_of_a_cell_without_them_is_called_as_before():
    cell = Cell.of(model="a/b c", suite="s")
    before = [pair for pair in cell.values if pair[0] not in LATER]
    assert cell.name.endswith(hashlib.sha256(json.dumps(before).encode()).hexdigest()[:8])


def test_system_prompt_and_rewriter_reach_the_adapter_of_a_cell():
    sweep_file = sweep_from_mapping({"axes": {"system_prompt": ["none", "Be fair."], "rewriter": "small"}})
    without, with_one = (request_of(cell, sweep_file, LoadedObjects(), "out") for cell in sweep_file.grid)
    assert "system_prompt" not in without.adapter_options
    assert with_one.adapter_options["system_prompt"] == "Be fair."
    assert with_one.adapter_options["rewriter"] == "small"


@pytest.mark.thorough
def test_a_system_prompt_is_a_factor_of_what_a_chat_endpoint_draws(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def behave(number, asked):
        picture = png(asked["messages"][-1]["content"], number)
        url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(picture).decode()}"}}
        return (
            200,
            {"choices": [{"index": 0, "message": {"content": None, "images": [url]}, "finish_reason": "stop"}]},
            {},
        )

    with ImageServer(behave) as server:
        swept = cm.sweep(
            {
                "axes": {"suite": "toy", "model": "chat:painter", "system_prompt": ["none", "Draw it red."]},
                "options": {"base_url": server.url, "price": 0}, "resamples": 99, "report": False,
            },
            tmp_path / "sweep", suites={"toy": toy_suite(concepts=2)}, encoder=[Eye()],
        )  # fmt: skip
    without, with_one = swept.runs.values()
    assert without.model_card["settings"].get("system_prompt") is None
    assert with_one.model_card["settings"]["system_prompt"] == "Draw it red."
    told = [[each["content"] for each in asked["messages"] if each["role"] == "system"] for asked in server.asked]
    assert sorted(map(len, told)) == [0] * len(without.plan) + [1] * len(with_one.plan)
    assert set(without.samples.prompt) == set(with_one.samples.prompt)
    assert len(swept.differences)


@pytest.mark.thorough
def test_a_wording_that_the_suite_has_not_fails_its_cells_in_a_line(tmp_path):
    swept = cm.sweep(
        {"axes": {"suite": "worded", "model": "painter", "wording": ["plain", "none such"]}}, tmp_path / "sweep",
        models={"painter": Painter()}, suites={"worded": two_wordings(4)}, encoder=[Eye()],
    )  # fmt: skip
    ((_, reason),) = swept.failed.items()
    assert "no wording named 'none such'" in reason
