"""The plan: what makes an image the same image."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clinometer.runs.plan import Parts, Plan, build_plan
from clinometer.suites import PromptSpec, load_suite
from tests.toys import toy_suite

QUESTIONS = st.lists(
    st.builds(PromptSpec, prompt=st.sampled_from("abcd"), role=st.just("target"), images=st.integers(1, 5)),
    max_size=6,
)


def plan_of(questions, *, seed=0, model="m", part_size=4):
    return build_plan(questions, seed=seed, model_fingerprint=model, part_size=part_size)


@given(QUESTIONS, st.integers(1, 7))
def test_ids_are_unique_and_do_not_depend_on_the_parts(questions, part_size):
    plan = plan_of(questions, part_size=part_size)
    ids = [sample.id for sample in plan]
    assert len(set(ids)) == len(ids) == sum(question.images for question in questions)
    assert ids == [sample.id for sample in plan_of(questions)]
    assert all(len(samples) <= part_size for samples in Parts(plan).values())


@given(QUESTIONS)
def test_the_plan_reads_back_as_written(questions):
    plan = plan_of(questions)
    assert Plan(plan.table()) == plan


def test_more_images_keep_the_first_ones():
    few, many = (plan_of([PromptSpec("a", "target", images=n)]) for n in (3, 8))
    assert [s.id for s in few] == [s.id for s in many][:3]


def test_another_seed_is_other_noise_and_another_model_the_same_noise():
    plain, reseeded, other = (
        plan_of([PromptSpec("a", "target", images=10)], **change) for change in ({}, {"seed": 1}, {"model": "n"})
    )
    assert not {s.seed for s in plain} & {s.seed for s in reseeded}
    assert [s.seed for s in plain] == [s.seed for s in other]  # so that two models can be compared in pairs
    for plan in (reseeded, other):
        assert not {s.id for s in plain} & {s.id for s in plan}


def test_a_prompt_shared_by_two_questions_is_never_drawn_twice_alike():
    plan = plan_of([PromptSpec("a", "target", "a", images=4), PromptSpec("a", "attribute", group="g", images=4)])
    assert len({sample.seed for sample in plan}) == 8


def test_seeds_fit_what_stores_and_torch_hold():
    seeds = np.array([s.seed for s in plan_of(load_suite("xmcas").prompt_specs())], dtype=object)
    assert min(seeds) >= 0
    assert max(seeds) < 2**63
    assert len(set(seeds)) == 560 + 192


def test_a_suite_asks_for_targets_and_groups():
    suite = toy_suite(target=6, attribute=5)
    questions = list(suite.prompt_specs())
    assert sum(q.images for q in questions if q.role == "target") == 4 * 6
    assert sum(q.images for q in questions if q.role == "attribute") == 6 * 5
    assert {q.group for q in questions if q.role == "attribute"} == {"man", "woman", "other"}
