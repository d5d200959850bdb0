"""Association: algebra first, then an independent slow oracle, then what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from clinometer.errors import Code, InvalidInputError
from clinometer.stats import association
from clinometer.stats.association import (
    as_numpy,
    association_direction,
    association_scores,
    project_rows,
    rounding_of,
    unit_vectors,
)
from tests.raising import raises

DIM = 5


def vectors(rows: int) -> st.SearchStrategy[np.ndarray]:
    """Rows that are no zero vectors."""
    elements = st.floats(-10, 10, allow_nan=False)
    return arrays(np.float64, (rows, DIM), elements=elements).filter(
        lambda x: bool((np.abs(x).max(axis=1) > 1e-3).all())
    )


def pairwise(w: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The definition, by all |w| (|A| + |B|) cosines, from another library."""
    return (1 - cdist(w, a, "cosine")).mean(axis=1) - (1 - cdist(w, b, "cosine")).mean(axis=1)


@given(vectors(4), vectors(3), vectors(6))
def test_one_direction_is_the_mean_of_all_cosines(w, a, b):
    np.testing.assert_allclose(association_scores(w, a, b), pairwise(w, a, b), atol=1e-12)


@given(vectors(4), vectors(3), vectors(6))
def test_swapping_the_attribute_sets_negates(w, a, b):
    np.testing.assert_allclose(association_scores(w, a, b), -association_scores(w, b, a), atol=1e-14)


@given(vectors(4), vectors(3), vectors(6), st.integers(0, 2**32 - 1))
def test_rotation_changes_nothing(w, a, b, seed):
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(DIM, DIM)))[0]
    np.testing.assert_allclose(
        association_scores(w @ rotation, a @ rotation, b @ rotation), association_scores(w, a, b), atol=1e-10
    )


@given(vectors(4), vectors(3), vectors(6), arrays(np.float64, (13, 1), elements=st.floats(1e-6, 1e6)))
def test_positive_rescaling_of_any_vector_changes_nothing(w, a, b, scale):
    scaled = association_scores(w * scale[:4], a * scale[4:7], b * scale[7:])
    np.testing.assert_allclose(scaled, association_scores(w, a, b), atol=1e-10)


@given(vectors(4), vectors(3), vectors(6))
def test_order_within_sets_is_irrelevant_and_targets_are_scored_alone(w, a, b):
    scores = association_scores(w, a[::-1], b[::-1])
    np.testing.assert_allclose(scores, association_scores(w, a, b), atol=1e-14)
    np.testing.assert_array_equal(association_scores(w[::-1], a, b), association_scores(w, a, b)[::-1])


def test_range_is_reached():
    e = np.eye(2)
    np.testing.assert_allclose(association_scores(e[:1], e[:1], -e[:1]), [2.0])


def test_means_of_unit_vectors_are_not_normalised_again():
    """Two attributes at a right angle: their mean has length 1/√2, and stays so."""
    a, b = np.eye(3)[:2], np.array([[0.0, 0.0, 7.0]])
    np.testing.assert_allclose(association_direction(a, b), [0.5, 0.5, -1.0])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_precision_follows_the_targets(kind):
    rng = np.random.default_rng(0)
    w, a, b = (np.round(rng.normal(size=(n, 8)) * 9 + 0.5).astype(kind) for n in (7, 3, 4))
    scores = association_scores(w, a, b)
    assert scores.dtype == {np.float16: np.float32, np.int64: np.float64}.get(kind, kind)
    np.testing.assert_allclose(scores, pairwise(*(x.astype(float) for x in (w, a, b))), atol=2e-6)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-19, 1e18, 1e25, 1e38])
def test_lengths_that_overflow_or_underflow_when_squared(scale):
    rng = np.random.default_rng(0)
    w, a, b = (rng.normal(size=(n, 16)) for n in (5, 3, 4))
    scaled = (w * scale).astype(np.float32) if scale < 1e38 else (w / np.abs(w).max() * scale).astype(np.float32)
    exact = pairwise(scaled.astype(float) / scale, a, b)
    np.testing.assert_allclose(association_scores(scaled, a, b), exact, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("chunk", [1, 64, 1000, 5000])
def test_threads_and_chunks_do_not_change_a_bit(monkeypatch, threads, chunk):
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(3001, 33)).astype(np.float32), rng.normal(size=33)
    expected = project_rows(x, d, threads=1)
    monkeypatch.setattr(association, "_CHUNK_ROWS", chunk)
    np.testing.assert_array_equal(project_rows(x, d, threads=threads), expected)


def test_memory_layout_does_not_matter():
    rng = np.random.default_rng(0)
    w, a, b = (rng.normal(size=(n, 6)) for n in (9, 3, 4))
    expected = association_scores(w, a, b)
    np.testing.assert_array_equal(association_scores(np.asfortranarray(w), a, b), expected)
    np.testing.assert_array_equal(association_scores(np.repeat(w, 2, axis=0)[::2], a, b), expected)


def test_torch_value_and_gradient():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, a, b = (rng.normal(size=(n, 6)) for n in (5, 3, 4))
    tensor = torch.tensor(w, requires_grad=True)
    scores = association_scores(tensor, torch.tensor(a), torch.tensor(b))
    np.testing.assert_allclose(scores.detach().numpy(), association_scores(w, a, b), atol=1e-14)
    scores.sum().backward()
    d, step = association_direction(a, b), 1e-6
    numeric = np.zeros_like(w)
    for i, j in np.ndindex(*w.shape):
        moved = w.copy()
        moved[i, j] += step
        numeric[i, j] = (project_rows(moved, d) - project_rows(w, d)).sum() / step
    np.testing.assert_allclose(tensor.grad.numpy(), numeric, atol=1e-5)


def test_torch_half_precision_and_refusals():
    torch = pytest.importorskip("torch")
    w = torch.ones(2, 3)
    with raises(InvalidInputError, code=Code.NOT_FINITE, field="targets", match="targets: row 1 holds a zero vector"):
        association_scores(torch.stack([w[0], 0 * w[0]]), w, w)
    with raises(InvalidInputError, code=Code.NOT_FINITE, field="a", match="a: row 0 holds NaN or infinity"):
        association_scores(w, w * float("nan"), w)


@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float16", "bfloat16"), ("int64", "float32")])
def test_torch_promotes_what_numpy_promotes(kinds):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, a, b = (np.round(9 * rng.normal(size=(n, 6))) for n in (5, 3, 4))
    first, second = (getattr(torch, kind) for kind in kinds)
    found = [
        association_scores(*(torch.tensor(x).to(kind) for x, kind in zip((w, a, b), each, strict=True)))
        for each in ((first, second, second), (second, first, second))
    ]
    for scores in found:
        np.testing.assert_allclose(scores.double().numpy(), association_scores(w, a, b), atol=0.05)


def test_arrays_of_two_libraries_are_refused():
    torch = pytest.importorskip("torch")
    x = np.ones((2, 3))
    for arguments in ((x, torch.ones(2, 3), torch.ones(2, 3)), (torch.ones(2, 3), x, torch.ones(2, 3))):
        with raises(
            InvalidInputError, code=Code.MISMATCH, field=("targets", "a", "b"), match="numpy on cpu, torch on cpu"
        ):
            association_scores(*arguments)
    with raises(
        InvalidInputError, code=Code.MISMATCH, field=("targets", "a", "b"), match="torch on cpu, torch on meta"
    ):
        association_scores(*[torch.ones(2, 3)] * 2, torch.ones(2, 3, device="meta"))


@pytest.mark.parametrize("kind", ["complex64", "bool"])
def test_torch_takes_real_numbers_only_as_numpy_does(kind):
    torch = pytest.importorskip("torch")
    for make in (torch.ones, np.ones):
        library = torch if make is torch.ones else np
        with raises(InvalidInputError, code=Code.WRONG_TYPE, field="targets"):
            association_scores(make((2, 3), dtype=getattr(library, kind)), *[make((2, 3))] * 2)


def test_nested_lists_and_data_frames_are_read_as_arrays():
    rng = np.random.default_rng(0)
    w, a, b = (rng.normal(size=(n, 6)) for n in (5, 3, 4))
    expected = association_scores(w, a, b)
    np.testing.assert_array_equal(association_scores(w.tolist(), a.tolist(), b), expected)
    pandas = pytest.importorskip("pandas")
    np.testing.assert_allclose(association_scores(*map(pandas.DataFrame, (w, a, b))), expected, rtol=1e-14)
    with raises(InvalidInputError, code=Code.WRONG_TYPE, field="targets", match="object"):
        association_scores(pandas.DataFrame({"word": ["cook"], "x": [1.0]}), a, b)


def test_embeddings_leave_their_library_without_gradient_or_lost_precision():
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.0, 0.5]])
    for tensor in (x.requires_grad_(), x.to(torch.bfloat16), x.half()):
        np.testing.assert_array_equal(as_numpy(tensor), [[1.0, 0.5]])
    assert as_numpy(x.half()).dtype == np.float16


def test_what_counts_as_the_same_follows_the_coarsest_embeddings():
    torch = pytest.importorskip("torch")
    wide, whole = np.ones((2, 100)), np.ones((2, 100), int)
    assert rounding_of([wide, whole]) == 1e-12
    assert rounding_of([wide, wide.astype(np.float32)]) == pytest.approx(0.4 * 2.0**-23)
    assert rounding_of([torch.ones(2, 100, dtype=torch.bfloat16)]) == pytest.approx(0.4 * 2.0**-7)


GOOD = np.ones((2, 3))


@pytest.mark.parametrize("name", ["targets", "a", "b"])
@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (np.array([[1.0, 2, 3], [1, np.nan, 3]]), Code.NOT_FINITE, "row 1 .*NaN or infinity"),
        (np.array([[1.0, 2, 3], [1, -np.inf, 3]]), Code.NOT_FINITE, "row 1 .*NaN or infinity"),
        (np.array([[0.0, 0, 0], [1, 2, 3]]), Code.NOT_FINITE, "row 0 .*zero"),
        (np.ones(3), Code.WRONG_SHAPE, "found 1 "),
        (np.ones((1, 2, 3)), Code.WRONG_SHAPE, "found 3 "),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], Code.WRONG_SHAPE, "found list"),
        ("three", Code.WRONG_SHAPE, "found str"),
        (None, Code.WRONG_SHAPE, "found NoneType"),
        (np.ones((0, 3)), Code.TOO_FEW, r"\(0, 3\)"),
        (np.ones((2, 0)), Code.TOO_FEW, r"\(2, 0\)"),
        (np.ones((2, 3), complex), Code.WRONG_TYPE, "complex128"),
        (np.full((2, 3), "x"), Code.WRONG_TYPE, "<U1"),
        (np.ones((2, 4)), Code.WRONG_SHAPE, "4 dimensions|has 4"),
    ],
)
def test_refuses(name, bad, code, words):
    field = "b" if words == "4 dimensions|has 4" and name == "a" else name  # of two sets that do not fit, the second
    with raises(InvalidInputError, code=code, field=field, match=words) as caught:
        association_scores(**({"targets": GOOD, "a": GOOD, "b": GOOD} | {name: bad}))
    assert str(caught.value).startswith(f"{field}: ")


@given(vectors(3))
@settings(max_examples=30)
def test_unit_vectors_have_length_one(x):
    np.testing.assert_allclose(np.linalg.norm(unit_vectors(x), axis=1), 1, atol=1e-14)
