"""The walls between the rooms, and the names on the doors."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

import clinometer
import clinometer.metrics
from clinometer.studies import leaning
from clinometer.suites import Suite

SOURCE = Path(clinometer.__file__).parent


def test_the_public_names():
    assert set(clinometer.__all__) == {
        "Run",
        "Sweep",
        "association_test",
        "audit",
        "compare",
        "export",
        "gate",
        "import_counts",
        "import_images",
        "mitigate",
        "model_card",
        "open_answers",
        "open_run",
        "paper_table",
        "plan",
        "push",
        "read_images",
        "read_run",
        "register",
        "reproduce",
        "score_run",
        "sweep",
        "trace_run",
        "write_benchmark",
        "write_questions",
    }
    for name in clinometer.__all__:
        assert getattr(clinometer, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'adit'"):
        _ = clinometer.adit


def test_the_public_metrics():
    assert {"association_scores", "mcas", "xmcas", "weat", "Score"} <= set(clinometer.metrics.__all__)


def test_whole_studies_are_found_where_they_stood_before():
    with pytest.deprecated_call(match="is clinometer.studies.leaning.mcas_study now"):
        assert clinometer.metrics.mcas_study is leaning.mcas_study
    with pytest.raises(AttributeError, match="no attribute 'mcas_studdy'"):
        _ = clinometer.metrics.mcas_studdy


def test_the_walls_hold():
    result = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_no_circle_of_imports():
    """Not even one that type checkers alone see: each module can be read after those that it rests on."""
    graph = grimp.build_graph("clinometer", exclude_type_checking_imports=False)
    waiting = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    while read := {name for name, imported in waiting.items() if not imported & waiting.keys()}:
        waiting = {name: imported for name, imported in waiting.items() if name not in read}
    circles = sorted(name for name in waiting if name in set().union(*map(graph.find_upstream_modules, waiting[name])))
    assert circles == []


def test_runs_know_no_study():
    """No module of ``runs`` names a study, or a suite's class: they ask the record of the study."""
    shapes = {shape.__name__ for shape in Suite.__subclasses__()}
    rooms = {shape.__module__ for shape in Suite.__subclasses__()}
    named = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path, tree in modules().items()
        if path.is_relative_to(SOURCE / "runs")
        for node in ast.walk(tree)
        for name in names_in(node)
        if name in shapes | rooms or name.startswith("clinometer.studies")
    ]
    assert len(shapes) >= 4
    assert named == []


def names_in(node: ast.AST) -> list[str]:
    """What an import, a name or an attribute names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(alias.name for alias in node.names)]
    return [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []


def test_what_is_pure_opens_no_file():
    """Neither ``stats`` nor ``metrics`` opens, writes or makes a file."""
    doors = {
        "open",
        "tempfile",
        "shutil",
        "mmap",
        "memmap",
        "tofile",
        "save",
        "savez",
        "savetxt",
        "SpooledTemporaryFile",
    }
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path, tree in modules().items()
        if path.relative_to(SOURCE).parts[0] in ("stats", "metrics")
        for node in ast.walk(tree)
        for name in names_in(node)
        if name in doors
    ]
    assert found == []


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in Path(clinometer.__file__).parent.rglob("*.py")}


def test_no_module_takes_anothers_private_names():
    taken = [
        f"{path.name}: {alias.name}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "clinometer"
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert taken == []


def changed_from_outside(tree: ast.Module) -> set[str]:
    """What a module assigns to in imported modules of others, such as ``transformers.PreTrainedModel.x``."""
    nodes = list(ast.walk(tree))
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    names = [ast.unparse(target) for target in targets if isinstance(target, ast.Attribute)]
    return {name for name in names if name.partition(".")[0] in imported - sys.stdlib_module_names}


def test_other_libraries_are_changed_in_one_place():
    changed = {path.name: found for path, tree in modules().items() if (found := changed_from_outside(tree))}
    assert changed == {"_torch.py": {"transformers.PreTrainedModel.from_pretrained"}}


BESIDE = ("benchmarks", "docs", "reference")
"""What has tests besides the package."""


def test_tests_lie_as_the_rooms_do():
    root = Path(__file__).parent
    folders = {path.parent.relative_to(root) for path in root.rglob("test_*.py")} - {Path()}
    assert [str(each) for each in sorted(folders) if each.parts[0] not in BESIDE and not (SOURCE / each).is_dir()] == []
    studies = {path.parent.name for path in SOURCE.glob("studies/*/__init__.py")}
    assert studies <= {path.parent.name for path in root.glob("studies/*/test_*.py")}


def test_no_test_imports_another():
    """What tests share stands in a module of its own: an import would collect, and set up, what it does not need."""
    root = Path(__file__).parent
    taken = [
        f"{path.relative_to(root)}: {name}"
        for path in root.rglob("*.py")
        for name in re.findall(
            r"(?:from|import) +(tests(?:\.\w+)*\.test_\w+|\.+test_\w+)", path.read_text(encoding="utf-8")
        )
        + re.findall(r"from +tests(?:\.\w+)* +import +(?:\w+, +)*(test_\w+)", path.read_text(encoding="utf-8"))
    ]
    assert taken == []


HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {blocked!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import numpy as np
import clinometer.metrics as metrics
rng = np.random.default_rng(0)
a, b, w = (rng.standard_normal((5, 8)) for _ in range(3))
assert metrics.association_scores(w, a, b).shape == (5,)
assert metrics.weat(w, a, a, b, rng=rng).p_value > 0
"""


def test_the_metrics_need_numpy_and_scipy_only():
    blocked = (
        "torch",
        "pandas",
        "pyarrow",
        "pydantic",
        "diffusers",
        "transformers",
        "PIL",
        "matplotlib",
        "yaml",
        "rich",
    )
    subprocess.run([sys.executable, "-c", HIDDEN.format(blocked=blocked)], check=True)
