"""The keys that a suite may have, as its page lists them."""

from __future__ import annotations

from pydantic import BaseModel


def keys(model: type[BaseModel], prefix: str = "") -> set[str]:
    found = set()
    for name, field in model.model_fields.items():
        found.add(prefix + name)
        kind = str(field.annotation)
        dots = f"{name}.NAME." if "dict" in kind else f"{name}[]." if "tuple" in kind else f"{name}."
        for inner in _models(field.annotation):
            found |= keys(inner, prefix + dots)
    return found


def _models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models(part)]
