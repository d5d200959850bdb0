"""A grid holds every cell once, and what is no grid is refused in a line."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, SweepError
from clinometer.report.view import Row
from clinometer.sweeps import AXES, Cell, Grid, load_sweep, sweep_from_mapping
from clinometer.sweeps.page import COLUMNS, written
from tests.raising import raises

GUIDANCE = st.lists(st.floats(0, 30).map(lambda x: round(x, 2)), min_size=1, max_size=4, unique=True)
SEEDS = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)


@given(GUIDANCE, SEEDS, st.lists(st.sampled_from(["a", "b/c", "d e", "B/c"]), min_size=1, max_size=3, unique=True))
def test_a_grid_is_the_product_of_its_axes_and_every_cell_has_a_folder_of_its_own(guidance, seeds, models):
    grid = Grid({"model": tuple(models), "guidance": tuple(guidance), "seed": tuple(seeds)})
    assert len(grid) == len(guidance) * len(seeds) * len(models) == len(set(grid))
    assert len({cell.name.lower() for cell in grid}) == len(grid)
    assert all(cell.name.strip("./") == cell.name and "/" not in cell.name for cell in grid)
    assert grid.baseline_of(next(iter(grid))) in set(grid)


@given(GUIDANCE, SEEDS)
def test_what_a_cell_is_called_does_not_hang_on_the_rest_of_the_grid(guidance, seeds):
    small = Grid({"guidance": tuple(guidance), "seed": tuple(seeds)})
    large = Grid({"guidance": (*guidance, 99.0), "seed": (*seeds, 10), "steps": (None, 5), "model": ("x", "reference")})
    assert {cell.name for cell in small} < {cell.name for cell in large}


def test_the_order_of_the_axes_does_not_matter():
    axes = {"guidance": (1.0, 3.0), "steps": (5, 10), "seed": (0, 1)}
    for order in permutations(axes):
        assert list(Grid({name: axes[name] for name in order})) == list(Grid(axes))


def test_the_baseline_is_of_the_same_suite_and_seed():
    grid = Grid({"suite": ("s", "t"), "guidance": (1.0, 3.0), "seed": (0, 1)}, {"guidance": 3.0})
    cell = Cell.of(suite="t", guidance=1.0, seed=1)
    assert grid.baseline_of(cell) == cell.at(guidance=3.0)
    assert grid.baseline_of(grid.baseline_of(cell)) == grid.baseline_of(cell)


def test_without_a_lora_there_is_none_to_scale():
    grid = Grid({"lora": (None, "a.safetensors"), "lora_scale": (0.5, 1.0)})
    assert [(cell["lora"], cell["lora_scale"]) for cell in grid] == [
        (None, None),
        ("a.safetensors", 0.5),
        ("a.safetensors", 1.0),
    ]


def test_a_value_alone_is_an_axis_of_one():
    asked = sweep_from_mapping({"axes": {"model": "a", "lora": ["none", "b"], "seed": 3}})
    assert [(cell["model"], cell["lora"], cell["seed"]) for cell in asked.grid] == [("a", None, 3), ("a", "b", 3)]
    assert asked.grid.varied == ("lora",)
    assert set(AXES) == set(type(asked.axes).model_fields)


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"axs": {}}, Code.UNKNOWN_NAME, "sweep: axs: unknown key"),
        ({"axes": {"guidence": [1]}}, Code.UNKNOWN_NAME, r"axes\.guidence: "),
        ({"axes": {"guidance": []}}, Code.TOO_FEW, r"axes\.guidance: it is empty"),
        ({"axes": {"guidance": [3, 3.0]}}, Code.DUPLICATE, r"axes\.guidance: 3 "),
        ({"axes": {"model": ["a", "A"]}}, Code.DUPLICATE, "two cells would lie in one folder"),
        ({"axes": {"seed": [-1]}}, Code.OUT_OF_RANGE, "expected at least 0, found -1"),
        ({"axes": {"steps": [2.5]}}, Code.WRONG_TYPE, "found 2.5"),
        ({"axes": {"seed": [0, True]}}, Code.WRONG_TYPE, "found True"),
        ({"axes": {"guidance": ["high"]}}, Code.WRONG_TYPE, "found 'high'"),
        ({"axes": {"guidance": [float("nan")]}}, Code.NOT_FINITE, "axes.guidance.0: .*finite"),
        ({"axes": {"seed": list(range(20_000))}}, Code.TOO_MANY, "20,000 cells, more than 10,000"),
        ({"baseline": {"guidance": 3}}, Code.UNKNOWN_NAME, r"baseline\.guidance: found 3, .*of the model"),
        (
            {"axes": {"guidance": [1, 3]}, "baseline": {"guidance": 2}},
            Code.UNKNOWN_NAME,
            "found 2, and the axis has 1, 3",
        ),
        ({"baseline": {"seed": 0}}, Code.CONFLICT, "each seed has its own baseline"),
        ({"baseline": {"guidence": 1}}, Code.UNKNOWN_NAME, "baseline: unknown axis 'guidence'"),
        ({"images": 0}, Code.OUT_OF_RANGE, "images: .*found 0"),
        ({"until": "soon"}, Code.MALFORMED, "until"),
        ({"until": True}, Code.MALFORMED, "until.*found True"),
        ({"images": True}, Code.WRONG_TYPE, "sweep: images: .*found true"),
        ({"budget": True}, Code.WRONG_TYPE, "sweep: budget: .*found true"),
        ({"axes": {"guidance": [3, True]}}, Code.WRONG_TYPE, r"axes\.guidance\.1: .*found true"),
    ],
)
def test_what_is_no_grid_is_refused_in_a_line(asked, code, said):
    with raises(SweepError, code=code, match=said) as error:
        sweep_from_mapping(asked)
    assert "\n" not in str(error.value)


def test_files_that_are_none_are_named(tmp_path):
    for name, content, code, words in (
        ("missing.yaml", None, Code.NOT_FOUND, "a YAML file with axes"),
        ("list.yaml", "- 1", Code.WRONG_TYPE, "list"),
        ("twice.yaml", "axes: {seed: 0, seed: 1}", Code.DUPLICATE, "seed"),
        ("no.yaml", "axes: [", Code.MALFORMED, "line 2"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        with raises(SweepError, code=code, match=words) as error:
            load_sweep(tmp_path / name)
        assert str(tmp_path / name) in str(error.value)


def test_a_setting_says_that_its_number_is_unstable():
    row = Row(value=2.0, low=1.0, high=3.0, flag="unstable")
    assert written(row) == "2.00 [1.00, 3.00] (unstable)"
    assert "flag" in COLUMNS
