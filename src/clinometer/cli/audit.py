"""``clinometer audit``: one audit, or a sweep where several values are given."""

from __future__ import annotations

from typing import Any

from clinometer.cli.options import given_options, with_options_of_an_audit
from clinometer.cli.sweep import audit_grid, numbers
from clinometer.pipeline.request import AuditRequest, CellOptions, flag_of


@with_options_of_an_audit
def audit(asked: dict[str, Any], model_options: dict[str, Any]) -> None:
    """Audit a model, or several as a sweep: draw, embed, score, report. Stopped, the same command goes on."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    lora, out = model_options.pop("lora", None) or (), asked.pop("out")
    asked["encoder"] = asked["encoder"] or None
    axes: dict[str, list[Any]] = {"lora": [None if name == "none" else name for name in lora]}
    one = dict(asked)
    for name, field in AuditRequest.model_fields.items():
        if (kind := flag_of(field).several) is not None:
            axis = flag_of(field).name.removeprefix("--") or name
            values = list(asked[name] or ()) if kind is str else numbers(axis, asked[name], kind)
            axes[axis] = values or [field.default]
            one[name] = axes[axis][0]
    if any(len(values) > 1 for values in axes.values()):
        grid = {axis: values for axis, values in axes.items() if values not in ([], [None])}
        common = {name: asked[name] for name in (*CellOptions.model_fields, "encoder")}
        run = {name: asked[name] for name in ("retry_failed", "engine", "workers")}
        audit_grid(grid, out, common | {"options": model_options}, **run)
        return
    options = model_options | given_options(lora=next(iter(axes["lora"]), None))
    with LiveProgress() as progress:
        audited = api.audit(one.pop("model"), one.pop("suite"), out, **one, model_options=options, progress=progress)
    print_summary(audited)
