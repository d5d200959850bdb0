"""Samples are sorted and counted by columns as they would be one by one."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from clinometer.report.view import Samples, by_owner, text_of

CELLS = st.sampled_from(["", "ok", "refused", None, np.nan, "a"])
ROWS = st.lists(st.fixed_dictionaries({name: CELLS for name in ("status", "role", "concept", "group")}), max_size=12)
ROLES = st.sampled_from(["target", "attribute"])


def frame_of(rows, kind):
    return pd.DataFrame(rows, columns=["status", "role", "concept", "group"], dtype=object).astype(kind)


@given(ROWS, st.sampled_from([object, "category"]))
def test_rows_are_sorted_and_counted_by_their_texts(rows, kind):
    samples = Samples(frame_of(rows, kind))
    assert len(samples) == len(rows)
    held = defaultdict(list)
    for place, row in enumerate(rows):
        held[text_of(row["concept"]), text_of(row["status"])].append(place)
    found = samples.by("concept", "status")
    assert list(found) == list(held)
    assert {key: each._rows.tolist() for key, each in found.items()} == held
    counts = Counter(text_of(row["status"]) for row in rows)
    assert list(samples.counts("status").items()) == list(counts.items())
    assert [text_of(sample.get("role")) for sample in samples[::2]] == [text_of(row["role"]) for row in rows[::2]]
    assert list(samples.counts("no such column").items()) == ([("", len(rows))] if rows else [])


@given(ROWS, st.lists(ROLES, min_size=12, max_size=12), st.sampled_from([object, "category"]))
def test_an_image_is_its_concepts_or_its_groups(rows, roles, kind):
    rows = [row | {"role": role} for row, role in zip(rows, roles, strict=False)]
    held = defaultdict(list)
    for place, row in enumerate(rows):
        owner = row["concept"] if row["role"] == "target" or not text_of(row["group"]) else row["group"]
        held[row["role"], text_of(owner), text_of(row["status"])].append(place)
    found = by_owner(Samples(frame_of(rows, kind)), "status")
    assert list(found) == list(held)
    assert {key: each._rows.tolist() for key, each in found.items()} == held
