"""A leaning run as the metrics see it: its suite's design, what each encoder saw, and what the model itself embeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from clinometer._scratch import VectorFile
from clinometer.errors import ModelError, RunNotFoundError
from clinometer.metrics.records import Score
from clinometer.models.protocols import DrawsInTwoStages, Generator, ShowsPipeline, offers
from clinometer.readings.fit import unfit
from clinometer.runs.drawing import requests_of
from clinometer.runs.embeddings import require_vectors
from clinometer.runs.plan import Plan
from clinometer.runs.progress import Progress, naming_errors
from clinometer.runs.run import Run
from clinometer.stats.association import unit_vectors
from clinometer.stats.blocks import Blocks
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.design import TwoRuns
from clinometer.studies.leaning.scores.differences import MissingPictures
from clinometer.studies.study import Pairing, suite_of
from clinometer.suites import Group, LeaningSuite
from clinometer.suites.leaning import BLANK_PROMPT


def design_of_suite(suite: LeaningSuite) -> Design:
    """Describe the suite as the metrics see it: names and matches."""
    axes = {name: tuple(axis.levels) for name, axis in (suite.axes or {}).items()}
    pair = suite.axis.model_dump() if suite.axis else {}  # a, b and third
    return Design(
        targets=tuple(
            TargetDesign(name=target.name, category=category, stereotype=target.stereotype)
            for category, target in suite.categorised_targets()
        ),
        groups=tuple(suite.groups),
        **pair,
        axes=axes,
        cells={name: tuple(group.cell[axis] for axis in axes) for name, group in suite.groups.items() if group.cell},
        prompts={name: tuple(p.prompt for p in group.prompts) for name, group in suite.groups.items()},
        pairs={name: tuple(p.pair for p in group.prompts) for name, group in suite.groups.items()},
        margin=suite.margin,
    )


def with_missing(design: Design, run: Run) -> Design:
    """Add to a design how many images of each target and of each group were asked for and are missing."""
    lost = _lost(run)
    of_targets, of_groups = Counter(concept for concept, *_ in lost), Counter(group for _, group, _ in lost if group)
    targets = tuple(replace(t, missing=of_targets[t.name]) for t in design.targets)
    return replace(design, targets=targets, missing_attributes=of_groups)


def _lost(run: Run, seeds: Collection[int] | None = None) -> list[tuple[str, str, int]]:
    """List concept, group and seed of what was asked for and is not there; with ``seeds``, of these alone."""
    rows, left_out = run.drawn.each(["id", "concept", "group", "seed", "status"]), run.left_out()
    return [
        (concept, group, seed)
        for key, concept, group, seed, status in rows
        if (status != "ok" or key in left_out) and (seeds is None or seed in seeds)
    ]


def missing_pictures(pairing: Pairing, suite: LeaningSuite) -> MissingPictures | None:
    """Find the images that two runs should share and do not."""
    runs, seeds = pairing.runs, pairing.seeds
    both = None
    if seeds is not None:
        first_seeds, second_seeds = (frozenset(run.plan.column("seed").to_pylist()) for run in runs)
        both = first_seeds & second_seeds
    lost = [_lost(run, both) for run in runs]
    if not any(lost):
        return None
    of_targets = [Counter(concept for concept, *_ in of_run) for of_run in lost]
    first, second = ([of_run[target.name] for target in suite.targets] for of_run in of_targets)
    if seeds is None or both is None:
        of_first, of_second = (Counter(group for _, group, _ in of_run if group) for of_run in lost)
        return MissingPictures((first, second), attributes=(of_first, of_second))
    # a pair of which one picture of a group is there takes no part: what the other run drew of it is not looked at
    pairs = Counter(group for group, _ in {(group, seed) for of_run in lost for _, group, seed in of_run if group})
    alone = embeddings_of_two(replace(pairing, seeds=both - seeds))
    return MissingPictures((first, second), alone, (pairs, pairs))


def encoder_embeddings(
    run: Run, suite: LeaningSuite, encoder: str, keep: Collection[int] | None = None
) -> EncoderEmbeddings:
    """Read one encoder's vectors as the metrics see them, once; with ``keep``, those of images with these seeds alone.

    Vectors of targets wait in a file.

    Raises
    ------
    RunCorruptError
        A file is damaged, or lacks an image.
    """
    run.vectors.require_finished(encoder)
    repeats = run.drawn.repeats() if keep is None else {}  # of partners both count, or none: see ``pairs_counted_once``
    targets, groups = VectorFile(), dict[tuple[str, str], list[np.ndarray]]()
    names = dict.fromkeys(target.name for target in suite.targets)
    for _, rows, vectors in _read_parts(run, encoder, left_out={*repeats, *run.left_out()}):
        kept = [row for row in rows if keep is None or row.seed in keep]
        _add_groups(groups, kept, vectors)
        of_targets = [row for row in kept if row.concept in names]
        if of_targets:
            targets.add([row.concept for row in of_targets], np.stack([vectors[row.id] for row in of_targets]))
    embeddings = _embeddings(run, suite, encoder, groups, targets.width, lambda width: targets.blocks(names, width))
    return replace(
        embeddings,
        target_copies=drawn_counts(run, suite, repeats),
        target_batches=drawn_batches(run, suite, repeats, keep),
    )


def embeddings_of_two(pairing: Pairing) -> TwoRuns:
    """Read the encoders' vectors of two runs; of paired runs, those of the images that are pairs alone."""
    first, second = (
        [encoder_embeddings(run, suite_of(run, LeaningSuite), name, pairing.seeds) for name in pairing.encoders]
        for run in pairing.runs
    )
    return first, second


def lazy_embeddings(
    run: Run, suite: LeaningSuite, encoders: Sequence[str], sizes: Sequence[int]
) -> list[EncoderEmbeddings]:
    """Read some encoders' embeddings, the vectors of targets only when needed; ``sizes`` counts each target's images.

    Only parts with an image of a group are read at once.
    """
    repeats, group_parts = run.drawn.repeats(), dict[int, None]()
    left_out = {*repeats, *run.left_out()}
    target_parts = {target.name: dict[int, None]() for target in suite.targets}
    for part, concept, group in run.plan.rows("part", "concept", "group"):
        if group:
            group_parts[part] = None
        if concept in target_parts:
            target_parts[concept][part] = None
    parts, copies = {name: tuple(numbers) for name, numbers in target_parts.items()}, drawn_counts(run, suite, repeats)
    batches = drawn_batches(run, suite, repeats)

    def embeddings(encoder: str) -> EncoderEmbeddings:
        def targets(width: int) -> Sequence[np.ndarray]:
            return TargetVectors(run, encoder, parts, sizes, width, left_out).blocks

        groups = dict[tuple[str, str], list[np.ndarray]]()
        for _, rows, vectors in _read_parts(run, encoder, tuple(group_parts), left_out=left_out):
            _add_groups(groups, rows, vectors)
        embeddings = _embeddings(run, suite, encoder, groups, 0, targets)
        return replace(embeddings, target_copies=copies, target_batches=batches)

    return [embeddings(encoder) for encoder in encoders]


class TargetVectors:
    """The vectors of targets' images, whose parts are read when one of their targets is first asked for.

    Parameters
    ----------
    parts : which parts of the run hold images of each target, by name.
    sizes : how many images each target has, in the suite's order, without those of ``left_out`` (ids).
    width : of a vector.
    """

    def __init__(
        self,
        run: Run,
        encoder: str,
        parts: Mapping[str, Sequence[int]],
        sizes: Sequence[int],
        width: int,
        left_out: Collection[str] = (),
    ) -> None:
        self._run, self._encoder, self._parts, self._width = run, encoder, parts, width
        self._left_out, self._names = left_out, list(parts)
        self._file, self._parts_read = VectorFile(), set[int]()
        self.blocks: Final = Blocks(sizes, self._target, self._target)

    def _target(self, position: int, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Return the vectors of a target, or those from one position to another."""
        name = self._names[position]
        unread = [part for part in self._parts[name] if part not in self._parts_read]
        for part, rows, vectors in _read_parts(self._run, self._encoder, unread, self._file.width, self._left_out):
            of_targets = [row for row in rows if row.concept in self._parts]
            if of_targets:
                self._file.add(
                    [(row.concept, part) for row in of_targets], np.stack([vectors[row.id] for row in of_targets])
                )
            self._parts_read.add(part)
        return self._file.rows([(name, part) for part in self._parts[name]], self._width, first, stop)


def _counted(run: Run, suite: LeaningSuite, repeats: Collection[str], *columns: str) -> dict[str, list[Any]]:
    """Read columns of each target's finished images, without those of ``repeats`` (ids): tuples in the plan's order."""
    without, rows = {*repeats, *run.left_out()}, {target.name: list[Any]() for target in suite.targets}
    for key, concept, status, *values in run.drawn.each(["id", "concept", "status", *columns]):
        if concept in rows and status == "ok" and key not in without:
            rows[concept].append((key, *values))
    return rows


def target_sizes(run: Run, suite: LeaningSuite, repeats: Collection[str]) -> tuple[int, ...]:
    """Count each target's finished images, without those of ``repeats`` (ids)."""
    return tuple(map(len, _counted(run, suite, repeats).values()))


def drawn_counts(run: Run, suite: LeaningSuite, repeats: Mapping[str, str]) -> tuple[np.ndarray, ...] | None:
    """Count how often each image of each target was drawn, in the plan's order; None if each was drawn once."""
    if not repeats:
        return None
    extra = Counter(repeats.values())
    by_target = _counted(run, suite, repeats).values()
    return tuple(np.array([1 + extra[key] for (key,) in rows], int) for rows in by_target)


def names_of_copies(run: Run, suite: LeaningSuite, embeddings: EncoderEmbeddings) -> list[Score]:
    """Name the pictures of each target that are one by their vectors: rows ``copies`` of metric ``pictures``.

    ``value`` is how far saving a picture again moves its vector, which they are closer than, and ``setting`` has their
    files, or their ids: ``a.png = b.png``, one after the other. Files that are the same byte for byte are not among
    them: what counts once for its bytes has no vector here.
    """
    if not any(embeddings.joined):
        return []
    files, counted = dict(run.plan.rows("id", "file")), _counted(run, suite, run.drawn.repeats())
    rows = []
    for (category, target), clusters in zip(suite.categorised_targets(), embeddings.joined, strict=True):
        pictures = [files[key] or key for (key,) in counted[target.name]]
        words = [" = ".join(pictures[at] for at in cluster[:NAMED_AT_MOST]) for cluster in clusters[:NAMED_AT_MOST]]
        again = sum(map(len, clusters)) - len(clusters)
        if words:
            rows.append(Score(
                metric="pictures", component="copies", concept=target.name, category=category, encoder="",
                value=embeddings.saved_again, n_target=len(pictures) - again, n_repeated=again,
                setting=", ".join(words), reason="a threshold: nothing is estimated",
            ))  # fmt: skip
    return rows


def drawn_batches(
    run: Run, suite: LeaningSuite, repeats: Collection[str], keep: Collection[int] | None = None
) -> tuple[np.ndarray, ...] | None:
    """Number the batch of each image of each target, in the plan's order; None if batches are not known.

    That is known where samples have a batch, and two of a target have the same; of these an image without one came by
    itself. What a model draws from seeds has none, and is independent. Finished images without batches may be anything,
    and so may what a server draws: one request each does not say what goes on behind it.
    """
    labels = [
        [batch or "" for _, seed, batch in rows if keep is None or seed in keep]
        for rows in _counted(run, suite, repeats, "seed", "batch").values()
    ]
    named = [[label for label in of_target if label] for of_target in labels]
    if any(len(set(known)) < len(known) for known in named):
        alone = [[label or f"\0{i}" for i, label in enumerate(of_target)] for of_target in labels]
        return tuple(np.unique(x, return_inverse=True)[1] if x else np.zeros(0, int) for x in alone)
    if run.record["origin"] == "generated" and not any(named):
        return tuple(np.arange(len(of_target)) for of_target in labels)
    return None


NAMED_AT_MOST: Final = 20
"""Pictures that are one, and such groups of a target, that a row names."""


class _Row(NamedTuple):
    """The sample that a vector belongs to."""

    id: str
    seed: int
    concept: str
    group: str
    prompt: str


def _read_parts(
    run: Run, encoder: str, parts: Sequence[int] | None = None, width: int = 0, left_out: Collection[str] = ()
) -> Iterator[tuple[int, list[_Row], Mapping[str, np.ndarray]]]:
    """Yield each part, its images that have a vector and are not in ``left_out``, and the vectors."""
    for part, vectors in run.vectors.each_part(encoder, parts, width):
        run.vectors.require(encoder, vectors, [part])
        rows = (_Row(*cells) for cells in run.parts[part].rows(*_Row._fields))
        yield part, [row for row in rows if row.id in vectors and row.id not in left_out], vectors


def _add_groups(
    groups: dict[tuple[str, str], list[np.ndarray]], rows: Sequence[_Row], vectors: Mapping[str, np.ndarray]
) -> None:
    for row in rows:
        if row.group:
            groups.setdefault((row.group, row.prompt), []).append(vectors[row.id].copy())


def _embeddings(
    run: Run,
    suite: LeaningSuite,
    encoder: str,
    groups: Mapping[tuple[str, str], Sequence[np.ndarray]],
    width: int,
    targets: Callable[[int], Sequence[np.ndarray]],
) -> EncoderEmbeddings:
    """Assemble an encoder's embeddings from the vectors that were read.

    ``width`` : of the targets' vectors, 0 where none is read yet; ``targets`` : makes them, with the width of all.
    """
    texts = run.texts(encoder)
    blank = texts.get(BLANK_PROMPT)
    width = width or len(next(chain(chain.from_iterable(groups.values()), texts.values()), np.zeros(1)))
    return EncoderEmbeddings(
        encoder=encoder,
        target_images=targets(width),
        target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]) if texts else None,
        group_images=_stacked_groups(suite, groups, width),
        group_words=texts_by_group(suite, texts, lambda group: group.words),
        group_texts=texts_by_group(suite, texts, lambda group: [p.prompt for p in group.prompts]),
        blank_text=blank if blank is not None and blank.any() else None,  # no cosine takes a zero vector
        unfit=unfit(run.encoder_cards[encoder], run.model_card, suite) if encoder in run.encoder_cards else {},
        saved_again=run.vectors.saved_again(encoder),
    )


def texts_by_group(
    suite: LeaningSuite, texts: Mapping[str, np.ndarray], chosen: Callable[[Group], Sequence[str]]
) -> dict[str, np.ndarray] | None:
    """Stack the vectors of a few texts of each group; None from an encoder that reads none."""
    if not texts:
        return None
    return {name: np.stack([texts[text] for text in chosen(group)]) for name, group in suite.groups.items()}


def traced_seeds(run: Run, encoders: Sequence[str]) -> set[int]:
    """Find the seeds of the images that were traced by some encoders; none where one of them lacks a part."""
    steps = run.traces.record.get("steps")
    if not steps or not encoders or run.traces.missing(encoders):
        return set()
    seeds = dict(run.plan.rows("id", "seed"))
    return {seeds[key] for key in run.traces.at(encoders[0], steps[0])}


def traced_embeddings(
    run: Run, suite: LeaningSuite, seen: Sequence[EncoderEmbeddings], keep: Collection[int] | None = None
) -> tuple[list[EncoderEmbeddings], dict[int, Callable[[], list[EncoderEmbeddings]]]]:
    """Read what the images were taken for on the way, by step when it is asked for; first the finished images.

    ``seen`` : the encoders' embeddings of the run, for their texts. All are of the images that were traced, without
    those that repeat another; with ``keep``, of those with these seeds. Nothing where the run has no trace by
    any of these encoders.
    """
    names, steps = {embeddings.encoder: embeddings for embeddings in seen}, run.traces.record.get("steps")
    kept = {name: whole for name, whole in names.items() if steps and not run.traces.missing([name])}
    if not kept or not steps:
        return [], {}
    ids = set(run.traces.at(next(iter(kept)), steps[0]))
    if keep is None:
        ids -= set(run.drawn.repeats())
    else:
        ids &= {key for key, seed in run.plan.rows("id", "seed") if seed in keep}

    def embeddings_by(read: Callable[[str], Mapping[str, np.ndarray]]) -> list[EncoderEmbeddings]:
        embeddings = []
        for name, whole in kept.items():
            vectors = {key: vector for key, vector in read(name).items() if key in ids}
            targets, groups = stacked_images(run.plan, suite, vectors)
            embeddings.append(
                replace(
                    whole,
                    target_images=targets,
                    group_images=groups,
                    target_copies=None,
                    target_batches=None,
                    all_differ=True,
                )
            )
        return embeddings

    at_steps: dict[int, Callable[[], list[EncoderEmbeddings]]] = {
        step: partial(embeddings_by, partial(run.traces.at, step=step)) for step in steps
    }
    return embeddings_by(run.embeddings), at_steps


def stacked_images(
    plan: Plan, suite: LeaningSuite, vectors: Mapping[str, np.ndarray]
) -> tuple[tuple[np.ndarray, ...], dict[str, tuple[np.ndarray, ...]]]:
    """Stack the vectors that are there (by sample id): of each target, and of each attribute prompt of each group.

    In the plan's order, each (n, d); n may be 0.
    """
    width = len(next(iter(vectors.values()), ())) or 1
    by_concept, by_prompt = dict[str, list[np.ndarray]](), dict[tuple[str, str], list[np.ndarray]]()
    for identifier, concept, group, prompt in plan.rows("id", "concept", "group", "prompt"):
        if identifier in vectors:
            by_concept.setdefault(concept, []).append(vectors[identifier])
            by_prompt.setdefault((group, prompt), []).append(vectors[identifier])
    targets = tuple(_stack(by_concept.get(target.name, ()), width) for target in suite.targets)
    return targets, _stacked_groups(suite, by_prompt, width)


def _stack(vectors: Sequence[np.ndarray], width: int) -> np.ndarray:
    return np.stack(vectors) if len(vectors) else np.zeros((0, width), np.float32)


def _stacked_groups(
    suite: LeaningSuite, vectors: Mapping[tuple[str, str], Sequence[np.ndarray]], width: int
) -> dict[str, tuple[np.ndarray, ...]]:
    return {
        name: tuple(_stack(vectors.get((name, p.prompt), ()), width) for p in group.prompts)
        for name, group in suite.groups.items()
    }


def readings_of_wordings(run: Run, suite: LeaningSuite, encoder: str, direction: np.ndarray) -> dict[str, np.ndarray]:
    """Read the image part of every image of a concept with wordings, (wordings × noises); NaN where there is none.

    An image that repeats another counts here: from one noise two wordings may give the same.
    """
    place: dict[str, tuple[str, int]] = {
        target: (concept, order)
        for concept, by_wording in suite.wordings.items()
        for order, target in enumerate(by_wording.values())
    }
    noises: dict[str, dict[int, int]] = {concept: {} for concept in suite.wordings}
    for concept, seed in run.plan.rows("concept", "seed"):
        if concept in place:
            of_concept = noises[place[concept][0]]
            of_concept.setdefault(seed, len(of_concept))
    readings = {
        concept: np.full((len(by_wording), len(noises[concept])), np.nan)
        for concept, by_wording in suite.wordings.items()
    }
    for part, vectors in run.vectors.each_part(encoder):
        rows = [row for row in run.parts[part].rows("id", "concept", "seed") if row[0] in vectors and row[1] in place]
        if rows:
            scores = unit_vectors(np.stack([vectors[identifier] for identifier, *_ in rows])) @ direction
            for (_, target, seed), score in zip(rows, scores.tolist(), strict=True):
                concept, order = place[target]
                readings[concept][order, noises[concept][seed]] = score
    return readings


def embeddings_of_ablations(
    run: Run, suite: LeaningSuite
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings], list[int]]:
    """Read the images of every whole prompt and of it without each word, in pairs that start from one noise.

    Targets are those of ``suite.of_ablations()``. A noise is left out for a whole concept if any of its
    images is missing, so that all words are compared on the same pictures. The last part counts, for each
    target, the noises that are missing.
    """
    words = suite.of_ablations()
    place = {target.name: at for at, target in enumerate(suite.targets)}
    concepts = [name for name, left_out in suite.ablations.items() for _ in left_out]
    owner = dict(zip((target.name for target in words.targets), concepts, strict=True)) | {name: name for name in place}
    lost = {(owner[concept], seed) for concept, _, seed in _lost(run) if concept in owner}
    gone = {seed for _, seed in lost}
    keep = set(run.plan.column("seed").to_pylist()) - gone  # a noise is of one prompt
    whole, without = [], []
    for name in run.encoder_cards:
        with_word, without_word = (encoder_embeddings(run, each, name, keep) for each in (suite, words))
        chosen = [place[concept] for concept in concepts]
        batches, texts = with_word.target_batches, with_word.target_texts
        whole.append(replace(
            with_word, target_images=[with_word.target_images[at] for at in chosen],
            target_texts=None if texts is None else texts[chosen],
            target_batches=None if batches is None else tuple(batches[at] for at in chosen), unfit=without_word.unfit,
        ))  # fmt: skip
        without.append(without_word)
    counts = Counter(concept for concept, _ in lost)
    return whole, without, [counts[concept] for concept in concepts]


# --- what images are conditioned on ----------------------------------------------------------------------------------

if TYPE_CHECKING:
    from clinometer.models.diffusers.conditioning import DiffusersPrior
    from clinometer.models.encoders.own_text import OwnTextEncoder


def parts_without_prior(run: Run, generator: Generator) -> list[int] | None:
    """List the parts that lack what the model's prior makes of their prompts; None where it has no prior."""
    prior = _prior_of(generator)
    if prior is None:
        return None
    run.encoders.add_own(prior.card)
    return [part for part in run.parts if not run.vectors.has(prior.card.name, part)]


def _prior_of(generator: Generator) -> DiffusersPrior | None:
    if not offers(generator, DrawsInTwoStages):
        return None
    from clinometer.models.diffusers.conditioning import prior_of  # and with it diffusers, which takes seconds

    return prior_of(generator)


def draw_prior_embeddings(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the missing parts of what the model's prior makes of the plan's prompts; nothing where it has no prior.

    A sample's embedding takes the noise of the sample's image, so it is the one that the image was drawn from. It is
    there for an image that was refused, too: nothing was decoded yet. Batches never cross a part.
    """
    prior, missing = _prior_of(generator), parts_without_prior(run, generator)
    if prior is None or missing is None:
        return
    name, parts = prior.card.name, run.parts
    progress.start("the prior's embeddings", len(run.plan), len(run.plan) - sum(len(parts[part]) for part in missing))
    reasons: list[str | None] = []
    for part in missing:
        with naming_errors("prior", name):
            drawn = list(prior.embed(requests_of(parts[part])))
        by_id = {embedding.id: embedding.vector for embedding in drawn if embedding.vector is not None}
        vectors = np.stack(list(by_id.values())) if by_id else np.zeros((0, 1), np.float32)
        run.vectors.write(name, part, list(by_id), vectors)
        reasons += [embedding.reason for embedding in drawn if embedding.vector is None]
        progress.advance(len(parts[part]))
    progress.finish()
    if reasons:
        progress.note(f"{len(reasons)} embeddings of the prior could not be drawn, the first because: {reasons[0]}")


def prior_embeddings(run: Run, suite: LeaningSuite) -> list[EncoderEmbeddings]:
    """Return what the model's prior drew, in the place of images; nothing where it did not draw the whole plan."""
    names = [name for name in run.own_encoder_cards if all(run.vectors.has(name, part) for part in run.parts)]
    stacked = {name: stacked_images(run.plan, suite, run.embeddings(name)) for name in names}
    return [
        EncoderEmbeddings(encoder=name, target_images=targets, target_texts=None, group_images=groups)
        for name, (targets, groups) in stacked.items()
    ]


def lacks_own_texts(run: Run, generator: Generator) -> bool:
    """Return whether a text encoder of the model has not embedded the suite's texts."""
    return any(not _has_texts(run, encoder.name) for encoder in _own_encoders(generator))


def embed_own_texts(run: Run, generator: Generator, progress: Progress) -> None:
    """Embed the suite's texts with each text encoder of the model that is not done; nothing where it shows none.

    One that cannot be asked, or gives no vectors, is left out with a note: no other number depends on it.
    """
    texts = [text for text in run.suite.texts() if text.strip()]  # an empty text may have no token at all
    for encoder in _own_encoders(generator):
        if _has_texts(run, encoder.name):
            continue
        progress.start(f"texts in {encoder.name}", len(texts), 0)
        try:
            with naming_errors("encoder", encoder.name):
                card, vectors = encoder.card, require_vectors(encoder.encode_texts(texts), encoder.name, texts)
        except ModelError as error:
            progress.note(f"its rows are left out, and nothing else depends on them: {error}")
        else:
            run.encoders.add_own(card)
            run.vectors.write_texts(encoder.name, texts, vectors)
        progress.advance(len(texts))
        progress.finish()


def _own_encoders(generator: Generator) -> Iterator[OwnTextEncoder]:
    if not offers(generator, ShowsPipeline):
        return
    from clinometer.models.encoders.own_text import own_text_encoders  # and with it PyTorch, which takes seconds

    yield from own_text_encoders(generator)


def _has_texts(run: Run, name: str) -> bool:
    """Return whether they exist and are recorded: a killed command may not have recorded what a worker wrote."""
    return run.vectors.has_texts(name) and name in run.own_encoder_cards


def own_embeddings(run: Run, suite: LeaningSuite) -> list[EncoderEmbeddings]:
    """Read the texts as the model's own encoders embed them, with no image anywhere.

    Raises
    ------
    RunNotFoundError
        What one of them, or the prior, embedded is not complete.
    """
    for name in run.own_encoder_cards:
        if not (run.vectors.has_texts(name) or all(run.vectors.has(name, part) for part in run.parts)):
            raise RunNotFoundError.incomplete(
                f"{run.url}: what {name} embedded is not complete; give the command that began the run again"
            )
    embeddings = []
    for name in run.own_encoder_cards:
        if run.vectors.has_texts(name):
            texts = run.texts(name)
            nothing = np.zeros((0, len(next(iter(texts.values())))), np.float32)
            embeddings.append(
                EncoderEmbeddings(
                    encoder=name,
                    target_images=(nothing,) * len(suite.targets),
                    target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]),
                    group_images={group: (nothing,) * len(suite.groups[group].prompts) for group in suite.groups},
                    group_words=texts_by_group(suite, texts, lambda group: group.words),
                )
            )
    return embeddings
