"""II of a prior's embeddings: the same number as II of images, from embeddings that stand in their place."""

from dataclasses import fields, replace

import numpy as np
import pytest

from clinometer.studies.leaning import prior_rows
from tests.studies.leaning.studies import design, embeddings, one, slow_component, study

QUICK = {"n_resamples": 400, "n_permutations": 199, "seed": 1}


def without_texts(given):
    return replace(given, target_texts=None, group_words=None, group_texts=None)


def test_the_prior_is_measured_as_images_are():
    given = embeddings("own:prior")
    rows = prior_rows([without_texts(given)], design(), **QUICK)
    expected = study(without_texts(given))
    for t, row in enumerate(rows):
        twin = one(expected, "mcas", "ii", concept=f"target {t}", encoder="own:prior")
        assert row.value == pytest.approx(slow_component(given, t, "ii"), abs=1e-12)
        assert row.family == "prior: ii over 6 targets"
        assert row.test == "Gaffke's test over prior embeddings, two-sided"
        assert (row.metric, row.reason) == ("prior", "")
        told = {"metric", "family", "test"}
        assert all(str(getattr(row, f.name)) == str(getattr(twin, f.name)) for f in fields(row) if f.name not in told)


def test_swapping_the_groups_negates():
    given = [without_texts(embeddings("own:prior"))]
    rows = prior_rows(given, design(), **QUICK)
    swapped = prior_rows(given, design(a="woman", b="man"), **QUICK)
    np.testing.assert_allclose([row.value for row in swapped], [-row.value for row in rows])
    np.testing.assert_allclose([row.low for row in swapped], [-row.high for row in rows], atol=1e-6)


def test_what_is_missing_has_its_reason():
    given = without_texts(embeddings("own:prior"))
    empty, single = np.zeros((0, 24)), given.target_images[1][:1]
    rows = prior_rows([replace(given, target_images=(empty, single, *given.target_images[2:]))], design(), **QUICK)
    assert np.isnan(rows[0].value)
    assert rows[0].reason == "no prior embedding of the target"
    assert rows[1].reason == "no interval from one prior embedding of the target"


def test_no_prior_no_row():
    assert prior_rows([], design()) == []
