"""Who embedded a run and who read it: the cards of its encoders and of its readers, as run.json holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clinometer.errors import RunMismatchError, RunNotFoundError
from clinometer.models.protocols import Card
from clinometer.runs.ledger import Ledger, embeddings_name, folder_name, readings_name
from clinometer.runs.record import card_record, difference_between
from clinometer.suites.question import QuestionSpec


class ModelCards:
    """The cards of a run's encoders, or of its readers, as run.json holds them, each by its name."""

    kind: ClassVar = "encoder"
    leaves: ClassVar = "embeddings"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._directory, self._url = ledger, ledger.directory, ledger.directory.url

    @staticmethod
    def place(name: str) -> str:
        """Return the folder of what a model leaves."""
        return embeddings_name(name)

    def _read_cards(self, which: str = "") -> dict[str, dict[str, Any]]:
        return dict(self._ledger.record.get(f"{which}{self.kind}s", {}))

    @property
    def cards(self) -> dict[str, dict[str, Any]]:
        """The cards of those that have finished once, by name: those that scores are made of."""
        return self._read_cards()

    @property
    def begun(self) -> dict[str, dict[str, Any]]:
        """The cards of those that may have left something and have never finished, by name."""
        return self._read_cards("begun_")

    @property
    def dropped(self) -> dict[str, dict[str, Any]]:
        """The cards of those that were taken out of the scores and whose files are kept, by name."""
        return self._read_cards("dropped_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left something."""
        return self.cards | self.begun | self.dropped

    def begin_anew(self) -> None:
        """Record that none has seen the whole run: more is about to be drawn."""
        self._update("", {}, begun=self.begun | self.cards)

    def _update(self, which: str, records: Mapping[str, Any], **others: Mapping[str, Any]) -> None:
        keys = {f"{which}{self.kind}s": records} | {f"{name}_{self.kind}s": other for name, other in others.items()}
        self._ledger.update(lambda record: keys)

    def begin(self, card: Card, **asked: Any) -> None:
        """Record who is about to leave something, or check that it is the one recorded under that name.

        It counts as one of the run once it has finished: one that fails, or that nobody waits for, must not keep the
        others from being scored. ``asked`` : what else its record says; where that changes, it has to finish again.
        """
        if self._ledger.worker is not None:  # the driver has recorded it
            return
        self.require(card)
        record = card_record(card) | asked
        known = self.cards.get(card.name, {})
        if known.get("fingerprint") != card.fingerprint or any(known.get(key) != value for key, value in asked.items()):
            finished = {name: other for name, other in self.cards.items() if name != card.name}
            dropped = {name: other for name, other in self.dropped.items() if name != card.name}
            self._update("", finished, begun=self.begun | {card.name: record}, dropped=dropped)

    def finish(self, card: Card) -> None:
        """Record that one has seen the whole run, and list what it wrote; a worker leaves that to the driver."""
        if self._ledger.worker is not None:
            return
        begun = self.begun
        record = begun.pop(card.name, None)
        with self._ledger.together():
            if record is not None:
                self._update("", self.cards | {card.name: record | {"notes": card.notes}}, begun=begun)
            self._ledger.list_files()

    def forget(self, name: str) -> None:
        """Remove one and what it left."""
        # Files first: without its card they would be taken for those of the next one of that name.
        files = self._directory.names(self.place(name), ".parquet")
        self._ledger.unlist(files)
        for file in files:
            self._ledger.remove(file)
        finished, begun = self.cards, self.begun
        finished.pop(name, None)
        begun.pop(name, None)
        self._update("", finished, begun=begun)

    def require(self, card: Card) -> None:
        """Refuse one whose files would mix with those of another: of its name, or in its folder.

        Raises
        ------
        RunMismatchError
            The message says what differs.
        """
        record = (self.cards | self.begun | self.dropped).get(card.name)
        is_used = bool(self._directory.names(self.place(card.name), ".parquet"))
        if record is not None and record["fingerprint"] != card.fingerprint and is_used:
            new_record = card_record(card)
            difference = difference_between({key: record.get(key) for key in new_record}, new_record)
            raise RunMismatchError(
                f"{self._url}: holds {self.leaves} of another {self.kind} named {card.name!r} ({difference}); give "
                f"another --out, or delete {self.place(card.name)}"
            )
        cards = self.all_cards()
        for name in cards if card.name not in cards else ():
            if folder_name(name).lower() == folder_name(card.name).lower():  # one folder on many systems
                raise RunMismatchError(
                    f"{self._url}: {self.kind} {card.name!r} would share {self.place(name)} with {self.kind} {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )


class EncoderCards(ModelCards):
    """The cards of a run's encoders: ``run.encoders``."""

    @property
    def own(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return self._read_cards("own_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left embeddings."""
        return super().all_cards() | self.own

    def drop(self, names: Sequence[str]) -> None:
        """Drop encoders from the scores; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        cards = self.cards
        for name in names:
            if name not in cards:
                raise RunNotFoundError.unknown_name(
                    f"{self._url} has no scores of {name!r}; it has those of {', '.join(cards) or 'none'}",
                    field="drop_encoder",
                )
        if not names:
            return
        rest = {name: card for name, card in cards.items() if name not in names}
        if not rest:
            raise RunNotFoundError.too_few(
                f"{', '.join(cards)} is all that {self._url} is scored with; add another first: "
                f"clinometer score {self._url} --encoder NAME",
                field="drop_encoder",
            )
        self._update("", rest, dropped=self.dropped | {name: cards[name] for name in names})

    def add_own(self, card: Card) -> None:
        """Record a text encoder or the prior of the model itself; the model's card already distinguishes two of them.

        A worker reports it to the driver.
        """
        if self._ledger.worker is not None:
            self._ledger.worker.own_encoders.append(card)
        elif card.name not in self.own:
            self._update("own_", {**self.own, card.name: card_record(card)})


class ReaderCards(ModelCards):
    """The cards of a run's readers, each with the questions that it was asked: ``run.readers``."""

    kind: ClassVar = "reader"
    leaves: ClassVar = "answers"

    @staticmethod
    def place(name: str) -> str:
        """Return the folder of a reader's answers."""
        return readings_name(name)

    def questions(self, reader: str) -> dict[str, QuestionSpec]:
        """Return the questions that a reader was asked, by name."""
        record = (self.cards | self.begun).get(reader, {})
        return {name: QuestionSpec.model_validate(asked) for name, asked in record.get("questions", {}).items()}

    def begin_reading(self, card: Card, asked: Sequence[QuestionSpec], *, again: int = 0) -> None:
        """Record which questions a reader is asked, beside those that it answered before.

        ``again`` : of how many pictures it is asked again before each part; 0 leaves that as it was.

        Raises
        ------
        RunMismatchError
            Another reader of that name answered, or a question of that name in other words, by whichever reader.
        """
        every = self.cards | self.begun
        for spec in asked:
            for name in every:
                known = self.questions(name).get(spec.name, spec)
                if known != spec:
                    raise RunMismatchError(
                        f"{self._url}: {name} was asked question {spec.name!r} in other words ({known.text!r}, now "
                        f"{spec.text!r}); give the other one a name of its own, or delete {readings_name(name)}"
                    )
        questions = self.questions(card.name) | {spec.name: spec for spec in asked}
        before = (self.cards | self.begun).get(card.name, {}).get("again", 0)
        more = {"again": again or before} if again or before else {}
        self.begin(card, questions={name: spec.model_dump(mode="json") for name, spec in questions.items()}, **more)

    def has_finished(self, card: Card, asked: Sequence[QuestionSpec]) -> bool:
        """Return whether a reader has answered all of it, and nothing failed."""
        record = self.cards.get(card.name, {})
        if record.get("fingerprint") != card.fingerprint or record.get("failed"):
            return False
        known = self.questions(card.name)
        return all(known.get(spec.name) == spec for spec in asked)

    def finish(self, card: Card, *, failed: int = 0) -> None:
        """Record that a reader has seen the whole run, and how many of its answers failed."""
        super().finish(card)
        record = self.cards[card.name]
        if record.get("failed", 0) != failed:
            self._update("", self.cards | {card.name: record | {"failed": failed}})
