"""Rounds: a run that draws a few images of every concept at a time, and no more of one that has enough of them.

The plan grows by a round when the one before it is embedded. Which concepts go on follows from the run directory
alone, so a run that was stopped goes on as it would have; and because an image follows from its prompt and how often
that came before, the images are the first ones of a run that draws them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from clinometer._cores import one_blas_thread
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.metrics.stopping import StoppingRule
from clinometer.models.protocols import Generator
from clinometer.runs.plan import build_plan
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.studies import study_named, study_names, study_of
from clinometer.suites import PromptSpec, Suite

FIRST_ROUND = 10
"""Hardly anything is decided by fewer."""
LATER_ROUND = 5
DEFAULT_MOST = 10
"""Times the suite's images a target, drawn at most where the user does not say."""


@dataclass(frozen=True)
class Rounds:
    """How a run is drawn that may stop early: what decides, and the suite with as many images as there may be."""

    rule: StoppingRule
    suite: Suite

    def __post_init__(self) -> None:
        if study_of(self.suite).open_concepts is None:
            able = ", ".join(name for name in study_names() if study_named(name).open_concepts is not None)
            raise SuiteError(
                f"suite {self.suite.name}: study {self.suite.study!r} is drawn in one go and takes no --until; "
                f"studies that do: {able}"
            )
        check = study_of(self.suite).check_rounds
        if check is not None:
            check(self.suite)

    @property
    def record(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return asdict(self.rule)

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """The suite's questions, with the first round's images of each concept."""
        for question in self.suite.prompt_specs():
            first = min(FIRST_ROUND, question.images)
            yield replace(question, images=first) if question.concept else question

    def extend(
        self, run: Run, generator: Generator, encoders: Sequence[str], part_size: int, progress: Progress
    ) -> bool:
        """Plan the next round of a run that is drawn and embedded so far; False where none is needed."""
        open_concepts = study_of(self.suite).open_concepts
        assert open_concepts is not None  # __post_init__
        with one_blas_thread():
            still_open = set(open_concepts(run, self.rule, encoders))
        planned = Counter(sample.concept for sample in run.plan if sample.concept)
        more = [
            replace(question, images=min(LATER_ROUND, question.images - planned[question.concept]))
            for question in self.suite.prompt_specs()
            if question.concept in still_open and planned[question.concept] < question.images
        ]
        enough = len(planned) - len(still_open)
        progress.note(f"{enough} of {len(planned)} concepts have images enough; {len(run.plan)} planned so far")
        return self._planned(more, run, generator, part_size)

    @staticmethod
    def _planned(more: Sequence[PromptSpec], run: Run, generator: Generator, part_size: int) -> bool:
        if not more:
            return False
        seed, fingerprint = run.record["seed"], generator.card.fingerprint
        run.extend_plan(build_plan(more, seed=seed, model_fingerprint=fingerprint, part_size=part_size, after=run.plan))
        return True


@dataclass(frozen=True)
class SteeredRounds(Rounds):
    """Rounds of a run that is one of several: what decides is how it differs from another.

    ``targets`` : how many images each concept is to have by now; the first round's where it names none.
    """

    targets: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if study_of(self.suite).paired_evidence_of is None:
            raise SuiteError(
                f"suite {self.suite.name}: study {self.suite.study!r} cannot tell differences round by round; give a "
                "sweep without until"
            )

    @property
    def record(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return super().record | {"of": "differences"}

    def extend(
        self, run: Run, generator: Generator, encoders: Sequence[str], part_size: int, progress: Progress
    ) -> bool:
        """Plan a round's images of each concept that has fewer than its target; False where none has."""
        planned = Counter(sample.concept for sample in run.plan if sample.concept)
        more = [
            replace(question, images=min(LATER_ROUND, most - planned[question.concept]))
            for question in self.suite.prompt_specs()
            if question.concept
            and planned[question.concept] < (most := min(self.targets.get(question.concept, 0), question.images))
        ]
        return self._planned(more, run, generator, part_size)


def rounds_of(suite: Suite, until: str | float, images: int | None) -> Rounds:
    """Read the rule as a user gives it: ``"decided"``, or a precision; ``images`` is the most a concept gets.

    Raises
    ------
    SuiteError
        The suite's study is drawn in one go.
    InvalidInputError
        Not a stopping rule.
    """
    try:
        if isinstance(until, bool):
            raise ValueError("it would pass for the number 1")
        rule = StoppingRule() if until == "decided" else StoppingRule(float(until))
    except (ValueError, InvalidInputError) as error:
        raise InvalidInputError(
            f"expected 'decided' or a positive precision, found {until!r}", field="until"
        ) from error
    rounds = Rounds(rule, suite)
    if images is not None:
        return rounds
    most = max((question.images for question in suite.prompt_specs() if question.concept), default=1)
    return replace(rounds, suite=suite.with_options(images=DEFAULT_MOST * most))
