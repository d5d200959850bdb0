"""Names that Python 3.12 and 3.13 mix up."""

import ast
from pathlib import Path

import clinometer

MODULES = sorted(Path(clinometer.__file__).parent.rglob("*.py"))


def own_names(tree: ast.Module) -> set[str]:
    """What a module defines or imports at its top."""
    names = set()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def running_names(tree: ast.AST) -> set[str]:
    """The variables of comprehensions."""
    return {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }


def confused(source: str) -> set[str]:
    tree = ast.parse(source)
    return own_names(tree) & running_names(tree)


def test_no_comprehension_takes_a_name_of_its_module():
    """A later comprehension of the same function that uses the module's name fails: UnboundLocalError."""
    found = {str(module): confused(module.read_text(encoding="utf-8")) for module in MODULES}
    assert {module: names for module, names in found.items() if names} == {}


def test_what_failed_would_be_noticed():
    source = "def rate(x): return x\ndef f(): return [rate(x) for x in {rate: 1 for rate in 'ab'}]"
    assert confused(source) == {"rate"}
