"""What a run was asked: its record and its plan, and the refusal of anything else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final

import yaml

from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError, SuiteError
from clinometer.runs.ledger import UNCHECKED, Ledger, always, samples_name
from clinometer.runs.plan import PLAN_SCHEMA, Plan, Sample, parts_of, plan_to_table, table_to_plan
from clinometer.runs.record import difference_between, is_checked, question_of
from clinometer.runs.storage import Directory
from clinometer.suites import Suite, suite_from_mapping

PLAN_LOST = "Restore it, or start a new run: the images depend on it"
OPTION: Final = "--suite-option"
_PART: Final = re.compile(r"samples/part-\d{5,}\.parquet")


class AskedRun:
    """A run directory as far as its record and its plan go."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.directory = Directory(url)
        self.ledger = Ledger(self.directory)
        if not self.directory.exists("run.json"):
            raise RunNotFoundError(
                f"{self.directory.url}: not a run directory, it has no run.json; give the --out of an audit"
            )

    @property
    def is_whole(self) -> bool:
        """Whether it shows all its parts."""
        return True

    @property
    def url(self) -> str:
        """Where the run is."""
        return self.directory.url

    @property
    def record(self) -> dict[str, Any]:
        """The contents of run.json."""
        return self.ledger.record

    @property
    def unchecked(self) -> str:
        """What is said first of a run without checksums; empty of every other."""
        return "" if is_checked(self.record) else UNCHECKED

    @cached_property
    def suite(self) -> Suite:
        """The suite that was asked, with what was changed since for the scores."""
        suite = suite_from_mapping(self.record["suite"], source=self.directory.path("run.json"))
        return _with_changes(suite, self.record.get("suite_options") or [])

    @property
    def model_card(self) -> dict[str, Any]:
        """The card of the model audited."""
        return dict(self.record["model"])

    @property
    def encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the encoders that have finished once, by name: those that scores are made of."""
        return dict(self.record["encoders"])

    @property
    def begun_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of encoders that may have left embeddings and have never finished, by name."""
        return dict(self.record.get("begun_encoders", {}))

    @property
    def dropped_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of encoders that were taken out of the scores and whose embeddings are kept, by name."""
        return dict(self.record.get("dropped_encoders", {}))

    @property
    def own_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return dict(self.record.get("own_encoders", {}))

    def _all_encoder_cards(self) -> dict[str, dict[str, Any]]:
        dropped = self.dropped_encoder_cards
        return self.encoder_cards | self.begun_encoder_cards | dropped | self.own_encoder_cards

    @cached_property
    def plan(self) -> Plan:
        """Every planned sample, in order."""
        plan = table_to_plan(
            self.ledger.read_table("plan.parquet", PLAN_SCHEMA.names, way_out=PLAN_LOST, like=always(PLAN_SCHEMA))
        )
        self._require_all_planned(plan)
        return plan

    def _require_all_planned(self, plan: Plan) -> None:
        """Refuse a plan without some images that are there: scores would be of fewer, unseen. A seal tells it, too."""
        if not plan:
            raise RunCorruptError(f"{self.directory.path('plan.parquet')}: it plans no image. {PLAN_LOST}")
        if is_checked(self.record):
            return
        parts = set(map(samples_name, parts_of(plan)))
        for name in self.directory.names("samples", ".parquet"):
            if _PART.fullmatch(name) and name not in parts:
                raise RunCorruptError(
                    f"{self.directory.path('plan.parquet')}: it does not plan the images of {name}. {PLAN_LOST}"
                )

    def extend_plan(self, samples: Sequence[Sample]) -> None:
        """Plan more samples, in parts of their own. No encoder has embedded the whole run any more."""
        self._update_record(encoders={}, begun_encoders=self.begun_encoder_cards | self.encoder_cards)
        plan = Plan.joined([self.plan, Plan.of(samples)])
        self.ledger.write_table("plan.parquet", plan_to_table(plan))
        self.__dict__["plan"] = plan
        self.__dict__.pop("_all_parts", None)

    @property
    def parts(self) -> Mapping[int, Plan]:
        """The samples of each part."""
        return self._all_parts

    @cached_property
    def _all_parts(self) -> Mapping[int, Plan]:
        return parts_of(self.plan)

    def sample(self, identifier: str) -> Sample:
        """The planned sample of an id."""
        return self.plan.find(identifier)

    def record_batch_size(self, batch_size: int) -> None:
        """Record how many images the model draws at once from now on."""
        self._update_record(batch_size=batch_size)

    def record_options(self, options: Mapping[str, Any]) -> None:
        """Record what is asked from now on of what may change while the images stay."""
        if self.record.get("options", {}) != options:
            self._update_record(options=dict(options))

    def record_protocol(self, protocol: Mapping[str, Any]) -> None:
        """Record under which protocol the run stands, and where it departs from it."""
        if self.record.get("protocol") != protocol:
            self._update_record(protocol=dict(protocol))

    def _update_record(self, **changes: Any) -> None:
        self.ledger.update(lambda record: changes)

    def change_suite(self, options: Sequence[str]) -> None:
        """Have the suite's settings that scoring alone reads be others from now on, and note what they were.

        ``options`` as a user types them, ``margin=0.2``.

        Raises
        ------
        SuiteError
            The suite's study has no such setting, or does not take the value; or the images hang on it.
        """
        changed = _changes_of(self.suite, options, until=self.record.get("until") is not None)
        if changed:
            self._update_record(suite_options=[*(self.record.get("suite_options") or []), *changed])
            self.__dict__.pop("suite", None)

    def end_stage(self) -> None:
        """List what a stage has written, with its checksums."""
        self.ledger.list_files()

    def require_same_question(self, record: Mapping[str, Any]) -> None:
        """Refuse, by name, to go on with a run that was asked something else."""
        ours, theirs = question_of(self.record), question_of(record)
        for field, words in ours.items():
            if words != theirs[field]:
                detail = ""
                if field == "model":
                    detail = f" ({difference_between(self.model_card, record['model'])})"
                raise RunMismatchError(
                    f"{self.url}: run.json is of a run of {field} {words}, not of {field} {theirs[field]}{detail}; "
                    "give another --out, or delete that directory"
                )

    def require_same_plan(self, plan: Sequence[Sample]) -> None:
        """Refuse a plan that does not begin with these samples: of a mended manifest, whose images are the same.

        Raises
        ------
        RunMismatchError, RunCorruptError
            The message says what differs.
        """
        first = self.plan[: len(plan)]
        if first.asks_the_same(Plan.of(plan)):
            return
        for ours, theirs in zip_longest(first, plan):
            if ours and theirs and replace(ours, part=theirs.part) == theirs:
                continue
            if not (theirs or ours).file:
                raise RunCorruptError(
                    f"{self.directory.path('plan.parquet')}: not the plan of what run.json asks. {PLAN_LOST}"
                )
            detail = "in another order"
            if ours and theirs and ours.file == theirs.file:
                one, other = asdict(ours), asdict(theirs)
                field = next(name for name in one if name != "part" and one[name] != other[name])
                detail = f"{theirs.file} with the {field} {one[field] or '(none)'!r}, not {other[field] or '(none)'!r}"
            raise RunMismatchError(
                f"{self.url}: holds a run of another manifest ({detail}); give another --out, or delete that directory"
            )


# Settings of a suite that scoring alone reads may change after drawing: images were drawn, and rounds stopped, by the
# rest. run.json keeps the suite as it was asked, and beside it each change: the old value, the new one and the date.


def _with_changes(suite: Suite, changes: Iterable[Mapping[str, Any]]) -> Suite:
    """A suite with the changes that a run has recorded, the last of each setting."""
    new = {change["option"]: change["new"] for change in changes}
    if not new:
        return suite
    return suite_from_mapping(suite.model_dump() | new, source=f"{OPTION} {', '.join(new)}")


def _changes_of(suite: Suite, options: Sequence[str], *, until: bool) -> list[dict[str, Any]]:
    """What ``margin=0.2`` and its like change in a suite, as run.json records it; nothing where that is so already.

    Parameters
    ----------
    until : whether the run was drawn until decided, by the suite as it is.

    Raises
    ------
    SuiteError
        The message names the setting, and those there are.
    """
    if options and until:
        raise SuiteError(
            f"{OPTION} {options[0]}: the run's images were drawn until decided by the suite as it was; start a new run "
            "with another suite"
        )
    changed = _with_changes(suite, [_read_change(option, suite) for option in options])
    since = datetime.now(UTC).isoformat("T", "seconds")
    return [
        {"option": name, "old": getattr(suite, name), "new": getattr(changed, name), "since": since}
        for name in sorted(suite.scoring_options)
        if getattr(suite, name) != getattr(changed, name)
    ]


def _read_change(option: str, suite: Suite) -> dict[str, Any]:
    """A change as it is typed: a name and a value in YAML."""
    name, separator, value = option.partition("=")
    name = name.strip()
    if not separator or name not in suite.scoring_options:
        settings = ", ".join(f"{setting}=…" for setting in sorted(suite.scoring_options)) or "none"
        raise SuiteError(
            f"{OPTION} {option}: not a setting that can change after drawing; of suite {suite.name}, study "
            f"{suite.study!r}, these are: {settings}"
        )
    try:
        return {"option": name, "new": yaml.safe_load(value)}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SuiteError(f"{OPTION} {option}: its value is not YAML, expected such as {name}=0.2") from error
