"""Compare finished runs of one suite: which images are pairs, and whether the runs can be compared at all."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from clinometer._cores import one_thread
from clinometer.errors import RunMismatchError
from clinometer.metrics.verdict import Evidence
from clinometer.pipeline.results import compute_scores, resamples_of
from clinometer.readings.fit import withhold_unfit
from clinometer.report.view import scores_table
from clinometer.runs.encoding import require_drawn
from clinometer.runs.plan import Sample
from clinometer.runs.record import COUNTED
from clinometer.runs.run import Run
from clinometer.runs.several import Comparison, NarrowedRun, shared_encoders
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import compared_refusals
from clinometer.studies.study import Pairing


def compare_runs(first: Run, second: Run) -> Comparison:
    """Compare the second run with the first.

    Two runs of one suite and one seed start every image from the noise that the other's starts from. Their images are
    then compared in pairs, and an image without a partner counts in neither. Portraits that were given are pairs where
    both runs were given the same.

    Of runs that were drawn until decided, the pairs are the images that both have drawn, and only what holds at any
    number of images is told.

    Raises
    ------
    RunMismatchError
        Another suite, study or encoder; the message names what differs.
    RunNotFoundError
        Images of a run are still to be drawn, or an encoder has not finished.
    """
    pairing, unpaired, drawn = _pair(first, second)
    both = drawn[0].keys() & drawn[1].keys()
    with one_thread():
        rows = study_of(first.suite).compare(pairing)
    scores = withhold_unfit(scores_table(rows), first, second, encoders=pairing.encoders)
    if not _is_until_decided(first, second):  # rates over numbers of images that the images have set are not tested
        refusals = compared_refusals(first, second, paired=not unpaired)
        scores = pd.concat([scores, scores_table(refusals)], ignore_index=True) if refusals else scores
    return Comparison(
        first=first,
        second=second,
        unpaired=unpaired,
        pairs=len(both),
        dropped=len(drawn[0].keys() ^ drawn[1].keys()),
        identical=sum(drawn[0][start] == drawn[1][start] for start in both),
        scores=scores,
    )


def split_runs(at_one: Run, guided: Run) -> pd.DataFrame:
    """Split the leaning of a run into that at guidance 1, which another run has, and what guidance adds.

    Returns
    -------
    Rows of metric ``split``; none in a study whose numbers are not split so.

    Raises
    ------
    RunMismatchError, RunNotFoundError
        As of :func:`compare_runs`; and the runs cannot be compared in pairs, or were drawn until decided.
    SuiteError
        The suite compares no one pair of groups.
    """
    pairing, unpaired, _ = _pair(at_one, guided)
    if unpaired:
        raise RunMismatchError(f"{at_one.url}, {guided.url}: {unpaired}, and guidance is split by pairs of images")
    if _is_until_decided(at_one, guided):
        raise RunMismatchError.unsupported(
            f"{at_one.url}: its images were drawn until decided, and the split by guidance has intervals for a number "
            "fixed beforehand; draw without --until"
        )
    study = study_of(at_one.suite)
    with one_thread():
        return scores_table(study.split(pairing) if study.overrides("split") else [])


def _pair(first: Run, second: Run) -> tuple[Pairing, str, list[dict[Start, str]]]:
    """Check two runs, and return what of them is compared, what keeps them from being paired, and what was drawn."""
    encoders = _comparable(first, second)
    for run in (first, second):
        with run.directory.listed_once():
            require_drawn(run)
    unpaired = _explain_unpaired(first, second)
    _require_pairs_until_decided(first, second, unpaired)
    drawn = _drawn_of_both(first, second) if not unpaired else [{}, {}]
    seeds = None if unpaired else _pairs(drawn)
    return Pairing((first, second), encoders, seeds, resamples_of(first, second)), unpaired, drawn


def _pairs(drawn: Sequence[dict[Start, str]]) -> frozenset[int]:
    """Return seeds of the pairs; a noise that wordings of a concept share is left out where one lacks its partner."""
    alone = {seed for seed, _, strength in drawn[0].keys() ^ drawn[1].keys() if not strength}
    return frozenset(seed for seed, *_ in drawn[0].keys() & drawn[1].keys()) - alone


def evidence_between(first: Run, second: Run) -> dict[str, Evidence]:
    """Return what the pairs of images that both runs have tell so far of each concept's difference, second minus first.

    Raises
    ------
    RunMismatchError, InvalidInputError
        The runs cannot be compared in pairs; or the attribute images do not allow it.
    """
    encoders, unpaired = _comparable(first, second), _explain_unpaired(first, second)
    _require_pairs_until_decided(first, second, unpaired)
    drawn = _drawn_of_both(first, second)
    seeds = frozenset(seed for seed, *_ in drawn[0].keys() & drawn[1].keys())
    pairing = Pairing((first, second), encoders, seeds, resamples_of(first, second))
    with one_thread():
        return dict(study_of(first.suite).paired_evidence_of(pairing))


def _is_until_decided(*runs: Run) -> bool:
    return any(run.record.get("until") is not None for run in runs)


def _require_pairs_until_decided(first: Run, second: Run, unpaired: str) -> None:
    if unpaired and _is_until_decided(first, second):
        raise RunMismatchError(
            f"{first.url}, {second.url}: {unpaired}, and images that were drawn until decided are compared in pairs; "
            "draw them with one seed, or without --until"
        )


Start = tuple[int, str, float]


def _explain_unpaired(first: Run, second: Run) -> str:
    """Explain what keeps images from being paired; empty where they start from the same noise, or portraits."""
    runs = (first, second)
    if COUNTED in [run.record["origin"] for run in runs]:
        return "the runs hold counts, so no image shares its noise with another"
    imported = [run.record["origin"] != "generated" for run in runs]
    if any(imported):
        which = "both runs were" if all(imported) else f"the {'first' if imported[0] else 'second'} run was"
        return f"{which} imported, so no image shares its noise with another"
    portraits = [run.model_card["settings"].get("portraits", {}).get("sha256", "") for run in runs]
    if portraits[0] != portraits[1]:
        return "the runs were given other portraits" if all(portraits) else "only one of the runs was given portraits"
    starts = [Counter(map(_start, run.plan)) for run in runs]
    alike = starts[0] == starts[1] and starts[0].total() == len(starts[0])
    if _is_until_decided(*runs):
        alike = _begin_alike(*starts)
    return "" if alike else _other_plans(first, second)


def _begin_alike(first: Counter[Start], second: Counter[Start]) -> bool:
    """Return whether of each prompt the run with fewer images has none that the other lacks."""
    seeds = [defaultdict[tuple[str, float], set[int]](set) for _ in range(2)]
    for prompts, starts in zip(seeds, (first, second), strict=True):
        for seed, prompt, strength in starts:
            prompts[prompt, strength].add(seed)
    shared = seeds[0].keys() & seeds[1].keys()
    return all(
        seeds[0][question] <= seeds[1][question] or seeds[1][question] <= seeds[0][question] for question in shared
    )


def _other_plans(first: Run, second: Run) -> str:
    """Explain how the plans of two runs differ: in seeds, in numbers of images or, where in neither, in noise."""
    seeds = [run.record["seed"] for run in (first, second)]
    images = [run.suite.images_in_words() for run in (first, second)]
    causes = [f"different seeds ({seeds[0]} and {seeds[1]})"] if seeds[0] != seeds[1] else []
    causes += [f"different numbers of images ({images[0]}; {images[1]})"] if images[0] != images[1] else []
    return f"the runs have {' and '.join(causes)}" if causes else "images of the runs start from other noise"


def _start(sample: Sample) -> Start:
    """Return what an image starts from: its noise, what is asked, and how strongly where it is an edit."""
    if sample.concept:  # in whichever wording, but apart where prompts of a concept name groups
        return sample.seed, f"{sample.concept}\0{sample.group}", sample.strength
    return sample.seed, sample.prompt, sample.strength


def _drawn_of_both(first: Run, second: Run) -> list[dict[Start, str]]:
    """Hash each run's images that are there, by what they start from; until decided, those that both have come to."""
    drawn = []
    for run in (first, second):
        scored = run.samples[(run.samples.status == "ok") & ~run.samples.id.isin(run.left_out())]
        images = dict(zip(scored.id, scored.sha256, strict=True))
        drawn.append({_start(sample): images[sample.id] for sample in run.plan if sample.id in images})
    if not _is_until_decided(first, second):
        return drawn
    planned = set(map(_start, first.plan)) & set(map(_start, second.plan))
    return [{start: image for start, image in images.items() if start in planned} for images in drawn]


def _comparable(first: Run, second: Run) -> list[str]:
    """Return the encoders that both runs share, where the study needs any; refuse runs of different questions."""
    if first.directory.place == second.directory.place:
        raise RunMismatchError.duplicate(f"{first.url}: it cannot be compared with itself; name two runs")
    study = study_of(first.suite)
    if _is_until_decided(first, second) and not study.overrides("paired_evidence_of"):
        raise RunMismatchError.unsupported(
            f"{first.url}: its images were drawn until decided, and intervals of a difference need a number fixed "
            "beforehand; compare runs without --until"
        )
    _require_same_suite(first, second)
    if not study_of(first.suite).encoders_needed:
        return []
    shared = shared_encoders((first, second))
    named = [name for name in first.encoder_cards if name in second.encoder_cards]
    if named and not shared:
        raise RunMismatchError(
            f"encoder {named[0]!r}: {first.url} and {second.url} hold embeddings of different encoders of that name; "
            f"add one that is the same to both: clinometer score RUN --encoder NAME"
        )
    if not shared:
        names = [", ".join(run.encoder_cards) or "none" for run in (first, second)]
        raise RunMismatchError(
            f"no encoder has seen both runs: {first.url} has {names[0]}, {second.url} has {names[1]}; "
            "give: clinometer score RUN --encoder NAME"
        )
    return shared


def _require_same_suite(first: Run, second: Run) -> None:
    """Refuse runs that were asked different things, or whose scores are made with other settings."""
    ours, theirs = first.suite.content, second.suite.content
    different = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    if not different:
        return
    if not second.suite.scoring_options.issuperset(different):
        raise RunMismatchError(
            f"{second.url}: suite {second.suite.name!r} asks other things than suite {first.suite.name!r} of "
            f"{first.url}; only runs of one suite can be compared"
        )
    name = min(different)
    values = ["none" if value is None else value for value in (ours[name], theirs[name])]
    raise RunMismatchError(
        f"{second.url}: its scores take {name} {values[1]}, and those of {first.url} {values[0]}; give both the same: "
        f"clinometer score {second.url} --suite-option {name}={json.dumps(ours[name])}"
    )


def first_against_rest(runs: Sequence[Run]) -> list[Comparison]:
    """Compare every further run with the first, by the concepts that all of them asked for."""
    if len(runs) < 2:
        raise RunMismatchError.too_few(f"compare: found {len(runs)} run, expected two or more")
    runs, left_out = _narrowed(runs)
    return [replace(compare_runs(runs[0], run), left_out=left_out) for run in runs[1:]]


def _narrowed(runs: Sequence[Run]) -> tuple[Sequence[Run], tuple[str, ...]]:
    """Narrow runs that differ in nothing but their concepts to those that all have; return the others' names, too."""
    suites = [run.suite for run in runs]
    asked = [
        list(dict.fromkeys(spec.concept for spec in suite.every_prompt_spec() if spec.role == "target"))
        for suite in suites
    ]
    if all(suite.content == suites[0].content for suite in suites):
        return runs, ()
    shared = suites[0].shared_concepts(suites[1:])
    if not shared:
        return runs, ()
    narrowed = [
        run if len(own) == len(shared) else NarrowedRun(run, run.suite.with_options(concepts=shared), _scores_of_some)
        for run, own in zip(runs, asked, strict=True)
    ]
    return narrowed, tuple(dict.fromkeys(name for own in asked for name in own if name and name not in shared))


def _scores_of_some(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    scored = compute_scores(run, resamples_of(run))
    return scored.scores, scored.curves
