"""Sensitivity to the encoder: agreement of orders, and what an encoder cannot give."""

from dataclasses import replace

import numpy as np
import pytest

from tests.studies.leaning.studies import design, embeddings, one, study


def found(rows, setting, component="mcas", encoder="mean"):
    return one(rows, "sensitivity", component, setting=setting, encoder=encoder)


def test_two_encoders_that_see_the_same_agree_wholly():
    rows = study(embeddings("a"), embeddings("b"))
    for component in ("ii", "itp", "ita", "tt", "mcas"):
        assert found(rows, "spread", component).value == pytest.approx(0, abs=1e-12)
        assert found(rows, "agreement", component, "a").value == pytest.approx(1)
        sizes = [found(rows, "size", component, encoder).value for encoder in ("a", "b")]
        assert sizes[0] == pytest.approx(sizes[1])


def test_size_spread_and_order_are_those_of_the_rows():
    encoders = [embeddings(name, seed=seed) for name, seed in (("a", 0), ("b", 1), ("c", 2))]
    rows = study(*encoders)
    scores = {
        name: [row.value for row in rows if (row.metric, row.component, row.encoder) == ("mcas", "ita", name)]
        for name in "abc"
    }
    assert found(rows, "size", "ita", "b").value == pytest.approx(np.abs(scores["b"]).mean())
    assert found(rows, "spread", "ita").value == pytest.approx(np.std(list(scores.values()), axis=0, ddof=1).mean())
    backwards = study(*encoders[::-1])
    for setting, encoder in (("size", "a"), ("agreement", "c")):
        assert found(rows, setting, "ii", encoder) == found(backwards, setting, "ii", encoder)


def test_an_encoder_that_turns_everything_round_disagrees():
    first = embeddings("a")
    turned = {"man": first.group_images["woman"], "woman": first.group_images["man"]}
    words = {"man": first.group_words["woman"], "woman": first.group_words["man"]}
    second = replace(
        first, encoder="b", group_images=dict(first.group_images) | turned, group_words=dict(first.group_words) | words
    )
    of = design(pairs={}, prompts={})
    even = {"man": first.group_words["man"], "woman": first.group_words["woman"][:4]}
    first = replace(first, group_words=dict(first.group_words) | even)
    second = replace(second, group_words=dict(second.group_words) | {"man": even["woman"], "woman": even["man"]})
    rows = study(first, second, of=of)
    assert found(rows, "agreement", "ii", "a").value == pytest.approx(-1)


def test_what_an_encoder_cannot_give_is_nan_with_a_reason_and_spoils_no_other():
    blind = embeddings("blind", target_texts=None, group_words=None, group_texts=None)
    rows = study(embeddings("a"), embeddings("b", seed=1), blind)
    missing = found(rows, "size", "tt", "blind")
    assert np.isnan(missing.value)
    assert missing.reason == "the encoder does not give it"
    assert np.isnan(found(rows, "agreement", "tt", "blind").value)
    assert np.isfinite(found(rows, "size", "ii", "blind").value)
    alone = study(embeddings("a"), embeddings("b", seed=1))
    assert found(rows, "agreement", "tt", "a") == found(alone, "agreement", "tt", "a")


def test_a_single_encoder_has_no_others():
    assert not [row for row in study(embeddings()) if row.metric == "sensitivity"]
