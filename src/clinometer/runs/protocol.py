"""A run under its paper's protocol: where it departs from it. All of it follows from what run.json records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from clinometer.errors import InvalidInputError, SuiteError
from clinometer.runs.store import Run
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
    """The suite as its paper asks it, where ``protocol`` says so.

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
        raise InvalidInputError(f"found {protocol!r}, expected {PAPER!r} or none", field="protocol")
    if suite.protocol is None:
        names = ", ".join(name for name in suite_names() if load_suite(name).protocol is not None)
        raise SuiteError(f"suite {suite.name} has none; those that have one: {names}", field="protocol")
    return suite.as_in_the_paper()


def protocol_record(record: Mapping[str, Any], encoders: Sequence[str], typed: Sequence[Departure]) -> dict[str, Any]:
    """What run.json says of the protocol.

    Parameters
    ----------
    record : the run's record.
    encoders : names of the run's encoders.
    typed : departures that only the caller knows of; they are kept when the others are found anew.
    """
    all_departures = [*typed, *departures(record, encoders)]
    return {
        "name": PAPER,
        "departures": [asdict(departure) for departure in all_departures],
        "typed": [asdict(departure) for departure in typed],
    }


def refresh_protocol(run: Run) -> None:
    """Find the departures anew, for a run that may have gained encoders."""
    protocol = run.record.get("protocol")
    if protocol is not None:
        typed = [Departure(**fields) for fields in protocol["typed"]]
        run.record_protocol(protocol_record(run.record, list(run.encoder_cards), typed))


def portrait_departures(protocol: Protocol | None, images: int | None, expression: str) -> list[Departure]:
    """Where given portraits are not what the protocol takes: fewer of a group, or another expression."""
    differences = []
    if protocol is not None and protocol.portraits == "all" and images is not None:
        differences.append(Departure("images (group)", "all portraits", f"at most {images}"))
    if protocol is not None and expression.upper() != "N":
        differences.append(Departure("expression", "N (neutral)", expression.upper()))
    return differences


def recorded_departures(record: Mapping[str, Any]) -> list[Departure] | None:
    """The departures that a record names; None of a run without a protocol."""
    protocol = record.get("protocol")
    return None if protocol is None else [Departure(**fields) for fields in protocol["departures"]]


def is_papers_model(protocol: Protocol, card: Mapping[str, Any]) -> bool:
    """Whether a model is one that the paper audited, as far as its name, a LoRA and a mitigation tell."""
    named = any(model.is_called(str(card["name"])) for model in protocol.models)
    return named and not (card["settings"].get("lora") or card["settings"].get("mitigation"))


def departures(record: Mapping[str, Any], encoders: Sequence[str]) -> list[Departure]:
    """Where a run is not what its suite's protocol says, option by option."""
    suite = suite_from_mapping(record["suite"], source="run.json")
    if suite.protocol is None:
        return []
    return [
        *_of_model(suite.protocol, record["model"]),
        *_of_sampling(suite.protocol, record["model"]["settings"]),
        *_of_encoders(suite.protocol, encoders),
        *_of_questions(suite, suite.protocol, record),
    ]


def _of_model(protocol: Protocol, card: Mapping[str, Any]) -> Iterator[Departure]:
    if not is_papers_model(protocol, card):
        with_lora = " with a LoRA" if card["settings"].get("lora") else ""
        with_lora += " with a mitigation" if card["settings"].get("mitigation") else ""
        yield Departure("model", " or ".join(m.label for m in protocol.models), f"{card['name']}{with_lora}")
    if card["settings"].get("negative_prompt"):
        yield Departure("negative_prompt", "none", repr(card["settings"]["negative_prompt"]))


def _of_sampling(protocol: Protocol, settings: Mapping[str, Any]) -> Iterator[Departure]:
    run_settings = _with_sides(settings)
    for key, paper_setting in protocol.sampling.items():
        if "portraits" in run_settings and key in OF_PORTRAITS:
            continue
        if run_settings.get(key) is None:
            yield Departure(
                key, f"{paper_setting:g}", "not set", "the model has no such setting, or its card names none"
            )
        elif run_settings[key] != paper_setting:
            yield Departure(key, f"{paper_setting:g}", f"{run_settings[key]:g}")


def _with_sides(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A card's settings; a size such as ``512x768``, as servers name it, is a width and a height."""
    width, cross, height = str(settings.get("size", "")).partition("x")
    sides = {"width": int(width), "height": int(height)} if cross and width.isdigit() and height.isdigit() else {}
    return sides | dict(settings)


def _of_encoders(protocol: Protocol, encoders: Sequence[str]) -> Iterator[Departure]:
    if protocol.encoders and set(encoders) != set(protocol.encoders):
        reason = "the paper does not say which" if protocol.leaves_open("encoder") else ""
        yield Departure("encoder", ", ".join(protocol.encoders), ", ".join(encoders) or "none", reason)


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
        told = f"the first {concepts} of each category" if isinstance(concepts, int) else ", ".join(concepts)
        yield Departure("concepts", "all", told)
    if record.get("until") is not None:
        yield Departure("until", "images fixed beforehand", "images drawn in rounds")
