"""The columns of a part of samples, with the images as the Hugging Face Image struct."""

from __future__ import annotations

import json

import pyarrow as pa

from clinometer.runs.ledger import always
from clinometer.runs.plan import PLAN_SCHEMA

IMAGE_TYPE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
SAMPLE_FIELDS = {
    **{field.name: field.type for field in PLAN_SCHEMA if field.name not in ("part", "file")},
    "status": pa.string(),
    "reason": pa.string(),
    "image": IMAGE_TYPE,
    "sha256": pa.string(),
    "seconds": pa.float32(),
    "flagged": pa.bool_(),
}
WITHOUT_PIXELS = [name for name in SAMPLE_FIELDS if name != "image"]
REPORTED = [name for name in WITHOUT_PIXELS if name != "sha256"]
"""What a report is told of each sample."""
SHARED = ("prompt", "concept", "role", "group", "category", "source", "status", "reason")
"""Columns of texts that many samples have in common."""
_FEATURES = {name: {"dtype": str(kind), "_type": "Value"} for name, kind in SAMPLE_FIELDS.items() if name != "image"}
_FEATURES["seconds"]["dtype"] = "float32"  # Arrow calls it float
SAMPLE_SCHEMA = pa.schema(
    SAMPLE_FIELDS,
    # `datasets` reads this and shows the column as images
    metadata={"huggingface": json.dumps({"info": {"features": _FEATURES | {"image": {"_type": "Image"}}}})},
)
SAMPLE_SHAPE = always(SAMPLE_SCHEMA, empty=("reason", "image", "sha256", "seconds", "flagged"))
ADDED = pa.schema([SAMPLE_SCHEMA.field("flagged")], metadata={})
"""Columns that earlier versions did not write: of their runs these are empty."""
