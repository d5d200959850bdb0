"""The answers of a run's readers, part by part.

A part of readings holds the answers of one reader about one part's images, a row an image and question, with the hash
of the image that was read. An answer counts as long as the image is that one; an image drawn again is read again.
What failed is asked again the next time, `MOST_TRIES` times in all; a refusal, and words that are none of the options,
are answers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer.errors import RunCorruptError
from clinometer.models.protocols import Card
from clinometer.models.readers import Answer, Question
from clinometer.runs.ledger import Ledger, always, readings_name
from clinometer.runs.plan import StoredPlan
from clinometer.suites import Suite
from clinometer.suites.question import QuestionSpec

if TYPE_CHECKING:
    from clinometer.runs.samples import Samples

FAILED: Final = "failed: "
"""How a reason begins that another try may do away with."""

MOST_TRIES: Final = 3
"""Commands that ask for an answer which fails each time; then it stays without one, and nobody pays for it again."""

READ_AGAIN: Final = "Delete the file and give the command that read the images again: only this part is read again"

ANSWERED: Final = {
    "question": pa.string(), "answer": pa.string(), "probabilities": pa.list_(pa.float64()), "words": pa.string(),
    "reason": pa.string(), "prompt_sha256": pa.string(), "size": pa.float64(),
}  # fmt: skip
READINGS_SCHEMA: Final = pa.schema({"id": pa.string(), "sha256": pa.string(), **ANSWERED})
KINDS: Final = ("model", "concept")
"""The respects in which labelled pictures may be of several kinds: errors vary from kind to kind."""
KNOWN_SCHEMA: Final = pa.schema(
    {"file": pa.string(), "sha256": pa.string(), **ANSWERED, "truth": pa.string(), **dict.fromkeys(KINDS, pa.string()),
     "encoder": pa.string(), "vector": pa.list_(pa.float32())}
)  # fmt: skip
"""``vector`` is of the encoder with that fingerprint; both are null where none has seen the labelled pictures."""
ADDED: Final = pa.schema([READINGS_SCHEMA.field("prompt_sha256"), READINGS_SCHEMA.field("size")])
"""Columns that earlier versions did not write."""

_SHAPE: Final = always(READINGS_SCHEMA, empty=("answer", "probabilities", "words", "reason", *ADDED.names))

SHOWN_ROLES: Final = ("attribute", "portrait")
"""Roles of images that were drawn to show their group."""

ASKED_FOR: Final = ("id", "concept", "category", "role", "group", "prompt")
"""What the table of readings says of an image beside the answer."""


def reader_question(spec: QuestionSpec) -> Question:
    """Turn a question of a suite or a file into one that readers take."""
    answers = tuple(Answer(group, answer.text, answer.labels) for group, answer in spec.answers.items())
    return Question(spec.name, spec.text, answers)


KNOWN: Final = "known.parquet"
"""Beside a reader's answers, those about labelled pictures of a folder."""

CLUSTERS: Final = "clusters.parquet"
"""Beside a reader's answers, which answers to its open questions were put together."""

AGAIN: Final = "again.parquet"
"""Beside a reader's answers, those that it gave when it was asked the same again, before further parts."""

AT_END: Final = -1
"""The ``part`` of a round that was asked after all parts."""

BESIDE: Final = {
    KNOWN: KNOWN_SCHEMA,
    AGAIN: pa.schema(
        {
            "round": pa.int32(),
            "part": pa.int32(),
            "id": pa.string(),
            "sha256": pa.string(),
            "question": pa.string(),
            "answer": pa.string(),
            "reason": pa.string(),
        }
    ),
    CLUSTERS: pa.schema(dict.fromkeys(("question", "answer", "cluster", "by"), pa.string())),
}


_ADDED_BESIDE: Final = {KNOWN: pa.schema([KNOWN_SCHEMA.field(name) for name in (*KINDS, "encoder", "vector")])}


def failed(row: Mapping[str, Any]) -> bool:
    """Return whether an answer failed, so that another try may bring one."""
    return (row["reason"] or "").startswith(FAILED)


@dataclass(frozen=True)
class Clusters:
    """Answers to an open question that were put together: the cluster of each normalised answer, and ``by`` what."""

    of: Mapping[str, str]
    by: str


class Answers:
    """The answers of a run's readers, part by part: ``run.answers``."""

    def __init__(self, ledger: Ledger, planned: StoredPlan, drawn: Samples) -> None:
        self._ledger, self._directory, self._planned, self._drawn = ledger, ledger.directory, planned, drawn

    def of_part(self, reader: Mapping[str, Any], part: int) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the rows of a part whose images are still those that were read, by image and question.

        Each says, beside what a reader answered, how many commands asked for it: its ``tries``.

        ``reader`` : its record in run.json.

        Raises
        ------
        RunCorruptError
            The part is not what was written, or of another reader.
        """
        name = readings_name(reader["name"], part)
        if not self._directory.exists(name):
            self._ledger.require_there([name])
            return {}
        table = self._ledger.read_table(name, way_out=READ_AGAIN, like=_SHAPE, added=ADDED)
        metadata = table.schema.metadata or {}
        fingerprint = metadata.get(b"reader", b"").decode()
        if fingerprint != reader["fingerprint"]:
            raise RunCorruptError(
                f"{self._directory.path(name)}: its answers are of a reader with fingerprint {fingerprint or 'none'}, "
                f"expected {reader['fingerprint']} of {reader['name']}. {READ_AGAIN}"
            )
        hashes = self.hashes(part)
        tries = json.loads(metadata.get(b"tries", b"{}"))
        return {
            (row["id"], row["question"]): row | {"tries": tries.get(f"{row['id']} {row['question']}", 1)}
            for row in table.to_pylist()
            if hashes.get(row["id"]) == row["sha256"]
        }

    def missing(self, reader: Mapping[str, Any], part: int, questions: Collection[str]) -> dict[str, list[str]]:
        """Return a part's images by question that is still to be asked, or asked again; none where all are answered."""
        hashes = self.hashes(part)
        kept = self.of_part(reader, part)
        done = {key for key, row in kept.items() if not failed(row) or row["tries"] >= MOST_TRIES}
        ids_by_question = {name: [each for each in hashes if (each, name) not in done] for name in questions}
        return {name: ids for name, ids in ids_by_question.items() if ids}

    def has_answer(self, reader: Mapping[str, Any]) -> bool:
        """Return whether a reader has answered at all, so that what fails is not its settings' fault."""
        return any(not failed(row) for part in self._read_parts() for row in self.of_part(reader, part).values())

    def failures(self, reader: Mapping[str, Any], questions: Collection[str]) -> int:
        """Count the answers that failed, whether or not they are asked for again."""
        rows = (row for part in self._read_parts() for row in self.of_part(reader, part).values())
        return sum(failed(row) and row["question"] in questions for row in rows)

    def forget_failures(self, reader: Mapping[str, Any]) -> int:
        """Forget the answers that failed, so that they are asked for as at first. Returns their number."""
        forgotten = 0
        for part in self._read_parts():
            rows = list(self.of_part(reader, part).values())
            if n_failed := sum(map(failed, rows)):
                forgotten += n_failed
                self._write(reader, part, [row for row in rows if not failed(row)], {})
        return forgotten

    def _read_parts(self) -> list[int]:
        return [part for part in self._planned.parts if self._drawn.has(part)]

    def write(self, card: Card, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the answers of a part, with whose they are; a worker's replace those that were there."""
        name, worker = readings_name(card.name, part), self._ledger.worker
        if worker is not None and self._directory.exists(name):
            worker.replaced.add(name)
        record = {"name": card.name, "fingerprint": card.fingerprint}
        self._write(record, part, rows, {"card": json.dumps(asdict(card))})

    def _write(
        self, reader: Mapping[str, Any], part: int, rows: Sequence[Mapping[str, Any]], more: Mapping[str, str]
    ) -> None:
        tries = {f"{row['id']} {row['question']}": row["tries"] for row in rows if row.get("tries", 1) > 1}
        metadata = {"reader": reader["fingerprint"], **more} | ({"tries": json.dumps(tries)} if tries else {})
        schema = READINGS_SCHEMA.with_metadata(metadata)
        self._ledger.write_table(readings_name(reader["name"], part), pa.Table.from_pylist(list(rows), schema))

    def write_clusters(self, card: Card, question: str, clusters: Clusters) -> None:
        """Write which answers to an open question were put together, in place of what was before."""
        rows = [
            {"question": question, "answer": answer, "cluster": cluster, "by": clusters.by}
            for answer, cluster in clusters.of.items()
        ]
        self.write_beside(CLUSTERS, card, question, rows)

    def clusters(self, reader: Mapping[str, Any]) -> dict[str, Clusters]:
        """Return what was put together of a reader's answers, by open question."""
        clusters: dict[str, Clusters] = {}
        for row in self.beside(CLUSTERS, reader):
            before = clusters.get(row["question"], Clusters({}, row["by"]))
            clusters[row["question"]] = Clusters({**before.of, row["answer"]: row["cluster"]}, row["by"])
        return clusters

    def write_beside(self, file: str, card: Card, question: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write what belongs to a reader's answers to a question, beside what there is of other questions."""
        record = {"name": card.name, "fingerprint": card.fingerprint}
        others = [row for row in self.beside(file, record) if row["question"] != question]
        table = pa.Table.from_pylist([*others, *rows], BESIDE[file].with_metadata({"reader": card.fingerprint}))
        self._ledger.write_table(f"{readings_name(card.name)}/{file}", table)

    def beside(self, file: str, reader: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Read a table beside a reader's answers, such as `KNOWN` for labelled pictures; empty where none is there."""
        name = f"{readings_name(reader['name'])}/{file}"
        if not self._directory.exists(name):
            self._ledger.require_there([name])
            return []
        table = self._ledger.read_table(name, way_out=READ_AGAIN, added=_ADDED_BESIDE.get(file))
        is_own = (table.schema.metadata or {}).get(b"reader") == reader["fingerprint"].encode()
        return table.to_pylist() if is_own else []

    def differing(self, reader: Mapping[str, Any]) -> tuple[np.ndarray, list[int]]:
        """Return which repeated answers differed from the first: rounds × units, and the part before each round.

        A unit is a picture and a question; NaN where the answer failed, or the picture was drawn again since. Before
        which part a round was asked is `AT_END` after all.
        """
        rows = [row for row in self.beside(AGAIN, reader) if not failed(row)]
        wanted = {row["id"] for row in rows}
        homes = dict.fromkeys(part for key, part in self._planned.plan.rows("id", "part") if key in wanted)
        first = {key: row for part in homes for key, row in self.of_part(reader, part).items() if not failed(row)}
        rows = [row for row in rows if first.get((row["id"], row["question"]), {}).get("sha256") == row["sha256"]]
        units = {key: at for at, key in enumerate(dict.fromkeys((row["id"], row["question"]) for row in rows))}
        parts = {row["round"]: row["part"] for row in sorted(rows, key=lambda row: row["round"])}
        differs = np.full((len(parts), len(units)), np.nan)
        place = {number: at for at, number in enumerate(parts)}
        for row in rows:
            key = row["id"], row["question"]
            differs[place[row["round"]], units[key]] = row["answer"] != first[key]["answer"]
        return differs, list(parts.values())

    def table(self, reader: Mapping[str, Any], questions: Mapping[str, QuestionSpec], suite: Suite) -> pd.DataFrame:
        """Return every answer of a reader, beside what its image was drawn for; see ``Run.readings``."""
        names = suite.group_names()
        truths = {name: dict(spec.meanings(names)) for name, spec in questions.items()}
        rows = []
        with self._directory.listed_once():
            for part in self._planned.parts:
                about_by_id = {row[0]: row for row in self._planned.all_parts[part].rows(*ASKED_FOR)}
                for (identifier, question), row in self.of_part(reader, part).items():
                    about = dict(zip(ASKED_FOR, about_by_id[identifier], strict=True))
                    shown = about["role"] in SHOWN_ROLES
                    known = truths.get(question, {}).get(about["group"]) if shown else None
                    rows.append(about | {name: row[name] for name in ("sha256", *ANSWERED)} | {"truth": known})
        return pd.DataFrame(rows, columns=[*ASKED_FOR, "sha256", *ANSWERED, "truth"])

    def hashes(self, part: int) -> dict[str, str]:
        """Return the hash of every image of a part that is there, by id."""
        rows = self._drawn.part(part, ["id", "status", "sha256"]).to_pylist()
        return {row["id"]: row["sha256"] for row in rows if row["status"] == "ok"}
