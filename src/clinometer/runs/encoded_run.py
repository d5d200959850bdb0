"""The embeddings of a run: which encoders have begun and finished, and the vectors of images and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.models.protocols import Card
from clinometer.runs.drawn_run import DrawnRun
from clinometer.runs.places import embeddings_name, same_place, vectors_name
from clinometer.runs.record import card_record, difference_between
from clinometer.runs.storage import REDO


class EncodedRun(DrawnRun):
    """A run directory with its samples and their embeddings."""

    def begin_encoder(self, card: Card) -> None:
        """Record whose embeddings are about to be written, or check that it is the one recorded under that name.

        It counts as an encoder of the run once it has finished: one that fails, or that nobody waits for, must not keep
        the others from being scored.
        """
        self.require_encoder(card)
        if self.encoder_cards.get(card.name, {}).get("fingerprint") != card.fingerprint:
            finished = {name: record for name, record in self.encoder_cards.items() if name != card.name}
            begun = self.begun_encoder_cards | {card.name: card_record(card)}
            dropped = {name: record for name, record in self.dropped_encoder_cards.items() if name != card.name}
            self._update_record(encoders=finished, begun_encoders=begun, dropped_encoders=dropped)

    def finish_encoder(self, card: Card) -> None:
        """Record that an encoder has embedded the whole run, and list what it wrote."""
        begun = self.begun_encoder_cards
        record = begun.pop(card.name, None)
        with self.ledger.together():
            if record is not None:
                self._update_record(encoders=self.encoder_cards | {card.name: record}, begun_encoders=begun)
            self.end_stage()

    def drop_encoders(self, names: Sequence[str]) -> None:
        """Take encoders out of what scores are made of; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        cards = self.encoder_cards
        for name in names:
            if name not in cards:
                raise RunNotFoundError(
                    f"drop_encoder: {self.url} has no scores of {name!r}; it has those of {', '.join(cards) or 'none'}"
                )
        if not names:
            return
        rest = {name: card for name, card in cards.items() if name not in names}
        if not rest:
            raise RunNotFoundError(
                f"drop_encoder: {', '.join(cards)} is all that {self.url} is scored with; add another first: "
                f"clinometer score {self.url} --encoder NAME"
            )
        dropped = self.dropped_encoder_cards | {name: cards[name] for name in names}
        self._update_record(encoders=rest, dropped_encoders=dropped)

    def forget_encoder(self, name: str) -> None:
        """Remove an encoder and what it embedded."""
        # Files first: without its card they would be taken for those of the next encoder of that name.
        files = self.directory.names(embeddings_name(name), ".parquet")
        self.ledger.unlist(files)
        for file in files:
            self.ledger.remove(file)
        finished, begun = self.encoder_cards, self.begun_encoder_cards
        finished.pop(name, None)
        begun.pop(name, None)
        self._update_record(encoders=finished, begun_encoders=begun)

    def require_encoder(self, card: Card) -> None:
        """Refuse an encoder whose embeddings would mix with those of another: of its name, or in its folder.

        Raises
        ------
        RunMismatchError
            The message says what differs.
        """
        record = (self.encoder_cards | self.begun_encoder_cards | self.dropped_encoder_cards).get(card.name)
        is_used = bool(self.directory.names(embeddings_name(card.name), ".parquet"))
        if record is not None and record["fingerprint"] != card.fingerprint and is_used:
            raise RunMismatchError(
                f"{self.url}: holds embeddings of another encoder named {card.name!r} "
                f"({difference_between(record, card_record(card))}); give another --out, or delete "
                f"{embeddings_name(card.name)}"
            )
        cards = self._all_encoder_cards()
        for name in cards if card.name not in cards else ():
            if same_place(name, card.name):
                raise RunMismatchError(
                    f"{self.url}: encoder {card.name!r} would share {embeddings_name(name)} with encoder {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )

    def add_own_encoder(self, card: Card) -> None:
        """Record a text encoder or the prior of the model itself; the model's card already tells two of them apart."""
        if card.name not in self.own_encoder_cards:
            self._update_record(own_encoders={**self.own_encoder_cards, card.name: card_record(card)})

    def has_embeddings(self, encoder: str, part: int) -> bool:
        """Whether a part's images are embedded."""
        return self.directory.exists(vectors_name(encoder, part))

    def write_embeddings(self, encoder: str, part: int, ids: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of a part's images."""
        self.ledger.write_table(vectors_name(encoder, part), _vector_table("id", ids, vectors))

    def embeddings(self, encoder: str) -> dict[str, np.ndarray]:
        """Every image vector of an encoder, by sample id."""
        return {key: vector for _, vectors in self.embedding_parts(encoder) for key, vector in vectors.items()}

    def embedding_parts(
        self, encoder: str, parts: Collection[int] | None = None, width: int = 0
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The same part by part, of those that are embedded.

        ``parts`` : those that are looked at, all by default; ``width`` : of vectors that were read before, if any.
        """
        part_numbers = self.parts if parts is None else parts
        self.ledger.require_there(vectors_name(encoder, part) for part in part_numbers)
        for part in self.embedded_parts(encoder, part_numbers):
            vectors = self.part_vectors(encoder, part)
            part_width = next(map(len, vectors.values()), width)
            width = width or part_width
            if part_width != width:
                name = self.directory.path(vectors_name(encoder, part))
                raise RunCorruptError(
                    f"{name}: its vectors have {part_width} numbers, those of other parts {width}. {REDO}"
                )
            yield part, vectors

    def embedded_parts(self, encoder: str, parts: Collection[int] | None = None) -> list[int]:
        """The parts whose images are embedded; of ``parts``, where those are given."""
        with self.directory.listed_once():
            return [part for part in (self.parts if parts is None else parts) if self.has_embeddings(encoder, part)]

    def part_vectors(self, encoder: str, part: int) -> dict[str, np.ndarray]:
        """The image vectors of one part, by sample id."""
        return self._vectors(vectors_name(encoder, part), "id")

    def require_embedded(self, encoder: str, vectors: Collection[str], parts: Iterable[int] | None = None) -> None:
        """Refuse embeddings of an encoder that lack an image: without it a score would be one of fewer, unseen.

        ``parts`` : those that are looked at; all by default.

        Raises
        ------
        RunCorruptError
            The message names the file.
        """
        for part in self.parts if parts is None else parts:
            for row in self._part(part, ["id", "status"]).to_pylist():
                if row["status"] == "ok" and row["id"] not in vectors:
                    name = self.directory.path(vectors_name(encoder, part))
                    raise RunCorruptError(f"{name}: it has no vector of image {row['id']}. {REDO}")

    def has_texts(self, encoder: str) -> bool:
        """Whether the suite's texts are embedded (or known to have no embedding)."""
        return self.directory.exists(f"{embeddings_name(encoder)}/texts.parquet")

    def write_texts(self, encoder: str, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of texts."""
        self.ledger.write_table(f"{embeddings_name(encoder)}/texts.parquet", _vector_table("text", texts, vectors))

    def texts(self, encoder: str) -> dict[str, np.ndarray]:
        """Every text vector of an encoder, by text; none of one that reads no text."""
        name = f"{embeddings_name(encoder)}/texts.parquet"
        vectors = self._vectors(name, "text")
        lost = [text for text in self.suite.texts() if text.strip() and text not in vectors]
        if vectors and lost:
            raise RunCorruptError(f"{self.directory.path(name)}: it has no vector of {lost[0]!r}. {REDO}")
        return vectors

    def _vectors(self, name: str, key: str) -> dict[str, np.ndarray]:
        table = self.ledger.read_table(name, [key, "vector"])
        column = table["vector"].combine_chunks()
        fault = "no lists of one length"
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_floating(column.type.value_type):
            vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(-1, column.type.list_size)
            if len(vectors) == len(table) and np.isfinite(vectors).all():
                return dict(zip(table[key].to_pylist(), vectors, strict=True))
            fault = "NaN or infinity"
        raise RunCorruptError(f"{self.directory.path(name)}: its vectors hold {fault}, expected finite numbers. {REDO}")


def _vector_table(key: str, keys: Sequence[str], vectors: np.ndarray) -> pa.Table:
    width = vectors.shape[1]
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    return pa.table({key: pa.array(keys, pa.string()), "vector": pa.FixedSizeListArray.from_arrays(values, width)})
