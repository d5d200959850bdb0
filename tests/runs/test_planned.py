"""A plan held as columns is the list of its samples, in a tenth of the memory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.runs.plan import Parts, Plan, Sample, build_plan, gathered
from clinometer.runs.samples import REPORTED, SAMPLE_FIELDS, SHARED
from clinometer.suites import PromptSpec

TEXT = st.sampled_from(["", "a", "an image of a nurse", "é"])
SAMPLES = st.lists(
    st.builds(
        Sample, id=st.text("0123abc", min_size=1), part=st.integers(0, 3), prompt=TEXT, concept=TEXT, role=TEXT,
        group=TEXT, category=TEXT, seed=st.integers(0, 2**63 - 1), file=TEXT, source=TEXT, strength=st.floats(0, 9),
    ),
    max_size=9, unique_by=lambda sample: sample.id,
)  # fmt: skip


@given(SAMPLES, st.slices(9))
def test_a_plan_is_the_list_of_its_samples(samples, cut):
    plan = Plan.of(samples)
    assert list(plan) == samples == plan
    assert len(plan) == len(samples)
    assert plan[cut] == samples[cut]
    assert [plan[at] for at in range(-len(samples), len(samples))] == samples + samples
    assert Plan.joined([plan[:3], plan[3:]]) == plan == Plan(plan.table())
    assert list(plan.rows("id", "seed")) == [(sample.id, sample.seed) for sample in samples]
    assert plan.shifted(2) == [replace(sample, part=sample.part + 2) for sample in samples]
    assert plan != [*samples, Sample("z", 0, "", "", "", "", "", 0)]
    assert plan.asks_the_same(plan.shifted(1))
    for changed in (replace(sample, seed=sample.seed // 2) for sample in samples if sample.seed):
        assert not plan.asks_the_same(Plan.of([*(s for s in samples if s.id != changed.id), changed]))
    with pytest.raises(IndexError):
        plan[len(samples)]


@given(SAMPLES)
def test_samples_are_found_by_their_ids(samples):
    plan = Plan.of(samples)
    assert [plan.find(sample.id) for sample in samples] == samples
    assert plan.parts_of([sample.id for sample in samples]) == [sample.part for sample in samples]
    for find in (plan.find, lambda identifier: plan.parts_of([identifier])):
        with pytest.raises(KeyError, match="no such"):
            find("no such")


@given(SAMPLES)
def test_parts_hold_their_samples_in_the_order_of_the_plan(samples):
    parts = Parts(Plan.of(samples))
    assert list(parts) == list(dict.fromkeys(sample.part for sample in samples))
    for part, held in parts.items():
        assert held == [sample for sample in samples if sample.part == part]


def test_a_plan_takes_little_memory():
    """Of an image the id, the seed, the part, the strength and six numbers of texts; a million are some 70 MB."""
    questions = [PromptSpec(f"an image of the profession {n}", "target", f"p {n}", images=2000) for n in range(10)]
    before = pa.total_allocated_bytes()
    plan = build_plan(questions, seed=0, model_fingerprint="m", part_size=64)
    assert pa.total_allocated_bytes() - before < 90 * len(plan)


def test_the_samples_of_a_report_take_little_memory():
    """Each text once, and of a million images no more than 100 MB, whatever the number of parts."""
    n, parts = 64, 300
    schema = pa.schema({name: SAMPLE_FIELDS[name] for name in REPORTED})

    def part(number):
        texts = dict.fromkeys(SHARED, ["a text that many an image of a run has in common"] * n)
        numbers = {"seed": [number] * n, "strength": [0.0] * n, "seconds": [0.1] * n, "flagged": [False] * n}
        ids = {"id": [f"{number:08}{k:08}" for k in range(n)], "batch": [str(number)] * n}
        return pa.table(ids | texts | numbers, schema=schema)

    table = gathered(map(part, range(parts)), schema, SHARED)
    frame = table.to_pandas()
    assert table.nbytes < 100 * len(table)
    assert isinstance(frame.prompt.dtype, pd.CategoricalDtype)
    assert frame.id.tolist() == [f"{number:08}{k:08}" for number in range(parts) for k in range(n)]
    plain = gathered(map(part, range(parts)), schema).to_pandas()
    assert all(np.array_equal(frame[name].to_numpy(object), plain[name].to_numpy(object)) for name in REPORTED)
