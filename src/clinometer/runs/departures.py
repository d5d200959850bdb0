"""Where a run departs from the protocol of its suite's paper, and what was changed since it was registered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites import Protocol, Suite, load_suite, suite_from_mapping, suite_names

PAPER: Final = "paper"
OF_PORTRAITS: Final = ("steps", "guidance_scale")
"""Settings by which portraits are drawn: they mean nothing where portraits are given."""


@dataclass(frozen=True)
class Departure:
    """One option in which a run is not what its paper prescribes.

    Attributes
    ----------
    option : the option, by its Python name.
    paper, run : the paper's value and the run's.
    reason : why, or what it means; empty where the two values say it all.
    """

    option: str
    paper: str
    run: str
    reason: str = ""

    @property
    def sentence(self) -> str:
        """In one line.

        >>> Departure("steps", "50", "20").sentence
        'steps: the paper 50, this run 20'
        """
        more = f" ({self.reason})" if self.reason else ""
        return f"{self.option}: the paper {self.paper}, this run {self.run}{more}"


def suite_under(protocol: str | None, suite: Suite) -> Suite:
    """Return the suite as its paper asks it, where ``protocol`` says so.

    Raises
    ------
    InvalidInputError
        No such protocol.
    SuiteError
        The suite has none; the message lists those that have.
    """
    if protocol is None:
        return suite
    if protocol != PAPER:
        raise InvalidInputError.unknown_name(f"found {protocol!r}, expected {PAPER!r} or none", field="protocol")
    if suite.protocol is None:
        names = ", ".join(name for name in suite_names() if load_suite(name).protocol is not None)
        raise SuiteError.unsupported(f"suite {suite.name} has none; those that have one: {names}", field="protocol")
    return suite.as_in_the_paper()


def protocol_record(record: Mapping[str, Any], encoders: Sequence[str], typed: Sequence[Departure]) -> dict[str, Any]:
    """Return what run.json says of the protocol.

    Parameters
    ----------
    record : the run's record.
    encoders : names of the run's encoders.
    typed : departures that only the caller knows of; they are kept when the others are found again.
    """
    all_departures = [*typed, *departures(record, encoders)]
    return {
        "name": PAPER,
        "departures": [asdict(departure) for departure in all_departures],
        "typed": [asdict(departure) for departure in typed],
    }


def portrait_departures(protocol: Protocol | None, images: int | None, expression: str) -> list[Departure]:
    """Return where given portraits depart from the protocol: fewer of a group, or another expression."""
    differences = []
    if protocol is not None and protocol.portraits == "all" and images is not None:
        differences.append(Departure("images (group)", "all portraits", f"at most {images}"))
    if protocol is not None and expression.upper() != "N":
        differences.append(Departure("expression", "N (neutral)", expression.upper()))
    return differences


def recorded_departures(record: Mapping[str, Any]) -> list[Departure] | None:
    """Return the departures that a record names; None of a run without a protocol."""
    protocol = record.get("protocol")
    return None if protocol is None else [Departure(**fields) for fields in protocol["departures"]]


def departures(record: Mapping[str, Any], encoders: Sequence[str]) -> list[Departure]:
    """Return where a run departs from its suite's protocol, option by option."""
    suite = suite_from_mapping(record["suite"], source="run.json")
    protocol, card = suite.protocol, record["model"]
    if protocol is None:
        return []
    departures_so_far, settings = [], card["settings"]
    # as far as a name, a LoRA and a mitigation tell the models that the paper audited
    changed = [f" with a {what}" for key, what in (("lora", "LoRA"), ("mitigation", "mitigation")) if settings.get(key)]
    if changed or not any(model.is_called(str(card["name"])) for model in protocol.models):
        labels = " or ".join(model.label for model in protocol.models)
        departures_so_far.append(Departure("model", labels, f"{card['name']}{''.join(changed)}"))
    if settings.get("negative_prompt"):
        departures_so_far.append(Departure("negative_prompt", "none", repr(settings["negative_prompt"])))
    width, cross, height = str(settings.get("size", "")).partition("x")  # 512x768, as servers name a width and a height
    if cross and width.isdigit() and height.isdigit():
        settings = {"width": int(width), "height": int(height)} | dict(settings)
    for key, paper_setting in protocol.sampling.items():
        if "portraits" in settings and key in OF_PORTRAITS:
            continue
        if settings.get(key) is None:
            reason = "the model has no such setting, or its card names none"
            departures_so_far.append(Departure(key, f"{paper_setting:g}", "not set", reason))
        elif settings[key] != paper_setting:
            departures_so_far.append(Departure(key, f"{paper_setting:g}", f"{settings[key]:g}"))
    if protocol.encoders and set(encoders) != set(protocol.encoders):
        reason = "the paper does not say which" if protocol.leaves_open("encoder") else ""
        departures_so_far.append(
            Departure("encoder", ", ".join(protocol.encoders), ", ".join(encoders) or "none", reason)
        )
    return [*departures_so_far, *_of_questions(suite, protocol, record)]


def _of_questions(suite: Suite, protocol: Protocol, record: Mapping[str, Any]) -> Iterator[Departure]:
    text_targets = getattr(suite, "text_targets", None)
    if protocol.text_targets not in (None, text_targets):
        yield Departure("text_targets", str(protocol.text_targets), str(text_targets))
    if "portraits" not in record["model"]["settings"]:  # of given ones there are as many as there are
        images = record["suite"]["images"]
        for name, paper_count in protocol.images.items():
            if images[name] != paper_count:
                yield Departure(f"images ({name})", str(paper_count), str(images[name]))
    if (concepts := record.get("options", {}).get("concepts")) is not None:
        concepts_in_words = (
            f"the first {concepts} of each category" if isinstance(concepts, int) else ", ".join(concepts)
        )
        yield Departure("concepts", "all", concepts_in_words)
    if record.get("until") is not None:
        yield Departure("until", "images fixed beforehand", "images drawn in rounds")


# --- A run that was registered before it was drawn: what was changed afterwards --------------------------------------


def registration_changes(record: Mapping[str, Any]) -> list[str]:
    """Return what of a run differs from its registration, a phrase each; nothing for a run without a registration.

    What was asked of the images themselves cannot differ: images of another model, suite, seed or setting are another
    run. Encoders, readers, ratings and settings of scoring can be changed after the images were seen.
    """
    options = record.get("options", {})
    registered, changes = options.get("registration"), list[str]()
    if registered is None:
        return []
    if datetime.fromisoformat(record["created"]) < datetime.fromisoformat(registered["registered"]):
        changes.append(f"the run was begun on {record['created']}, before it was registered")
    for kind in ("encoder", "reader"):
        names, specs = list(record.get(f"{kind}s", {})), registered[f"{kind}s"]
        changes += [
            f"{kind} {name} was added: its numbers, and averages that it is part of, are exploratory"
            for name in names
            if not any(_is_called(name, spec) for spec in specs)
        ]
        changes += [
            f"{kind} {spec} is not there: its numbers were left out"
            for spec in specs
            if not any(_is_called(name, spec) for name in names)
        ]
    changes += [
        f"the declared standard is another since {change['since']}"
        if change["option"] == "reference"
        else f"{change['option']} is {change['new']} since {change['since']}, it was {change['old']}"
        for change in record.get("suite_options", [])
    ]
    for name in ("resamples", "verdict_reader"):
        default = registered[name]
        if (now := options.get(name, None if name == "verdict_reader" else default)) != default:
            changes.append(f"{name} is {now}, registered was {default}")
    if record.get("trace") and not registered["trace"]:
        changes.append("images were traced while they were drawn again: numbers of the trace are exploratory")
    if any(name.startswith("ratings/") for name in record.get("files", {})):
        changes.append("ratings by people were added: their numbers are exploratory")
    return changes


def registration_in_words(record: Mapping[str, Any]) -> str:
    """Return a line on when a run was registered and what was changed since; empty for a run without a registration."""
    registered = record.get("options", {}).get("registration")
    if registered is None:
        return ""
    changes = "; ".join(registration_changes(record))
    day, checksum = registered["registered"][:10], registered["checksum"][:8]
    told = f"Registered on {day} ({checksum}…), attempt {registered['attempt']}"
    return f"{told}; {f'changed since: {changes}' if changes else 'nothing was changed since'}"


def _is_called(name: str, spec: str) -> bool:
    """Return whether the card of a model that was asked for by a spec has a name: of a path it has the last part."""
    plain = spec.partition("@")[0]
    return name in (spec, plain, plain.rstrip("/").rpartition("/")[2], plain.partition(":")[2])
