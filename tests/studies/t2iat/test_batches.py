"""Pictures of a T2IAT study that came in batches: a batch is one draw, and no value hangs on it."""

from dataclasses import replace

import numpy as np
import pytest

from clinometer.metrics.prompt_sets import bilinear_mean, prompt_set
from clinometer.metrics.records import BATCHES_KNOWN
from clinometer.metrics.verdict import Verdict
from clinometer.report.view import Scores
from clinometer.studies.reporting import batches_in_words
from clinometer.studies.t2iat import t2iat_study
from clinometer.studies.t2iat.scores.stimuli import stimulus_cosines
from tests import quick
from tests.studies.t2iat.designs import DESIGN, embeddings
from tests.toys import Eye, Painter, toy_t2iat_suite

NAMES = [name for stimuli in DESIGN.concepts.values() for name in stimuli]
OWNERS = [(name, group) for name in NAMES for group in ("", "man", "woman")]


def in_batches(size, n=12, **options):
    return replace(embeddings(n=n, **options), batches={owner: np.arange(n) // size for owner in OWNERS})


def rows(seen):
    return t2iat_study([seen], DESIGN, n_resamples=200, seed=0).scores


def test_batches_change_no_value_and_widen_what_scatters_by_them():
    plain, batched = (
        {(r.metric, r.component, r.concept, r.category, r.encoder): r for r in rows(seen) if r.metric != "pictures"}
        for seen in (embeddings(), in_batches(3))
    )
    assert plain.keys() == batched.keys()
    for key, row in plain.items():
        assert batched[key].value == pytest.approx(row.value, abs=1e-9, nan_ok=True), key
        assert batched[key].p == pytest.approx(row.p, nan_ok=True) or row.metric != "t2iat"
    of_stimuli = [key for key in plain if key[:2] == ("association", "mean") and key[2]]
    assert {batched[key].n_batches for key in of_stimuli} == {4}
    assert {batched[key].verdict for key in of_stimuli} == {Verdict.TOO_FEW}
    assert {plain[key].n_batches for key in of_stimuli} == {0}


def test_batches_of_one_are_none():
    assert list(map(repr, rows(in_batches(1)))) == list(map(repr, rows(embeddings())))


def test_batches_of_equal_pictures_are_a_sample_of_their_pictures():
    """Each picture twice, as one batch, is sampled as the pictures once: by stimulus, and in a set of prompts."""
    once, groups = embeddings(), ("man", "woman")
    again = replace(
        once,
        neutral={name: np.repeat(x, 2, axis=0) for name, x in once.neutral.items()},
        attribute={key: np.repeat(x, 2, axis=0) for key, x in once.attribute.items()},
        batches={owner: np.arange(24) // 2 for owner in OWNERS},
    )
    ours, theirs = (stimulus_cosines(each, "r1", *groups) for each in (again, once))
    np.testing.assert_allclose(ours.units.image_a, theirs.image_a)
    estimates = [bilinear_mean(each.units.image_a, each.units.image_b, "nab") for each in (ours, theirs)]
    assert estimates[0].variances == pytest.approx(estimates[1].variances)
    assert estimates[0].freedoms == estimates[1].freedoms
    sets = [
        prompt_set(
            [each.neutral[name] for name in NAMES[:3]],
            *([each.attribute[name, group] for name in NAMES[:3]] for group in groups),
            name="red",
            batches=[[each.batches.get((name, group)) for group in ("", *groups)] for name in NAMES[:3]],
        )
        for each in (again, once)
    ]
    assert not sets[1].batches
    np.testing.assert_allclose(sets[0].units.cosines_b, sets[1].cosines_b)
    assert sets[0].units.sizes == sets[1].sizes


class InPairs(Painter):
    """Draws two pictures a request, and says so."""

    def generate(self, requests):
        for result in super().generate(requests):
            yield replace(result, batch=f"request {(self.drawn - 1) // 2}")


def test_the_batches_that_a_source_names_reach_the_scores_and_the_report():
    suite = toy_t2iat_suite(neutral=24, attribute=6, stimuli=2, tests=False)
    run, plain = (quick.finished(painter, suite, encoder=Eye()) for painter in (InPairs(batch_size=8), Painter()))
    names = ["metric", "component", "concept", "encoder"]
    ours, theirs = (each.scores.query("metric == 'association' and component == 'mean'") for each in (run, plain))
    ours, theirs = (each[each.concept != ""].set_index(names) for each in (ours, theirs))
    assert (ours.n_batches >= 11).all()  # a picture that is another one again is in none
    assert (theirs.n_batches == 0).all()
    np.testing.assert_allclose(ours.value, theirs.value)
    told = next(row for row in run.scores.to_dict("records") if row["metric"] == "pictures" and row["flag"])
    assert told["flag"] == BATCHES_KNOWN
    (words,) = batches_in_words(Scores.from_frame(run.scores))
    assert "which count as one draw each" in words


def test_a_row_says_that_batches_are_known_and_how_alike_their_pictures_are():
    n = 24
    alike = in_batches(2, n)
    rng = np.random.default_rng(1)
    moved = {
        name: x + np.repeat(rng.normal(size=(n // 2, 1)), 2, axis=0) * np.eye(5)[0] for name, x in alike.neutral.items()
    }
    (row,) = (r for r in rows(replace(alike, neutral=moved)) if r.metric == "pictures")
    assert (row.component, row.flag, row.n_batches, row.n_target) == ("batches", BATCHES_KNOWN, 6 * n // 2, 6 * n)
    assert row.value > 0.5
    assert not [r for r in rows(embeddings()) if r.metric == "pictures"]
