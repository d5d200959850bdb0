"""Metrics for training loops: the numbers of whole audits, in any batches, in any order, over processes."""

import socket

import numpy as np
import pytest

from clinometer._torch import torch  # before torchmetrics, which imports torchvision
from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import differential_association, mcas
from clinometer.stats.proportion import exact_share
from clinometer.training import McasMetric, ShareMetric, T2iatMetric
from tests.raising import raises

DIM = 12
RNG = np.random.default_rng(3)
IMAGES = {"target": RNG.standard_normal((17, DIM)) * 1e6, "a": RNG.standard_normal((9, DIM)),
          "b": RNG.standard_normal((11, DIM))}  # fmt: skip
TEXTS = {name: RNG.standard_normal((rows, DIM)) for name, rows in (("target_texts", 1), ("texts_a", 4), ("texts_b", 3))}
PROMPTS = {"x": 3, "y": 2}


def t2iat_images(concept, prompt, drawn):
    return np.random.default_rng([ord(concept), prompt, len(drawn)]).standard_normal((3 + prompt, DIM))


def tensors(arrays):
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def batches():
    """Every update that the three metrics are given, a few images at a time."""
    for role, rows in IMAGES.items():
        for start in range(0, len(rows), 4):
            yield "mcas", (torch.from_numpy(rows[start : start + 4]), role)
    for start in range(0, 17, 5):
        yield "share", (torch.from_numpy(IMAGES["target"][start : start + 5]),)
    for concept, prompts in PROMPTS.items():
        for drawn in ("neutral", "a", "b"):
            for prompt in range(prompts):
                rows = torch.from_numpy(t2iat_images(concept, prompt, drawn))
                yield "t2iat", (rows, torch.full((len(rows),), prompt), concept, drawn)


def metrics():
    words = tensors({name: TEXTS[name] for name in ("texts_a", "texts_b")})
    return {
        "mcas": McasMetric(DIM, **tensors(TEXTS)),
        "share": ShareMetric(words["texts_a"], words["texts_b"]),
        "t2iat": T2iatMetric(DIM, prompts_x=PROMPTS["x"], prompts_y=PROMPTS["y"]),
    }


def expected():
    whole = mcas(target_images=IMAGES["target"], images_a=IMAGES["a"], images_b=IMAGES["b"], **TEXTS)
    read = mcas(
        target_images=IMAGES["target"][:, None, :], images_a=None, images_b=None, **TEXTS | {"target_texts": None}
    )
    share = exact_share(int((read.ita > 0).sum()), 17)
    sets = {
        f"{concept}{'' if drawn == 'neutral' else f'_{drawn}'}": [
            t2iat_images(concept, p, drawn) for p in range(PROMPTS[concept])
        ]
        for concept in PROMPTS
        for drawn in ("neutral", "a", "b")
    }
    test = differential_association(**sets, resamples=0, permutations=1)
    return {
        "mcas": {name: getattr(whole, name) for name in ("ii", "itp", "ita", "tt", "mcas")}
        | {"image_part": whole.ii + whole.ita},
        "share": {"share": share.value, "low": share.low, "high": share.high, "n": 17},
        "t2iat": {name: getattr(test, name) for name in ("statistic", "association_x", "association_y")},
    }


def numbers(made):
    return {name: {key: float(value) for key, value in metric.compute().items()} for name, metric in made.items()}


def assert_same(found, wanted=None):
    for name, values in (wanted or expected()).items():
        assert found[name] == pytest.approx(values, abs=1e-12, rel=1e-12), name


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "the last first"])
def test_a_stream_of_batches_gives_the_numbers_of_all_images_at_once(order):
    made = metrics()
    for name, update in list(batches())[::order]:
        made[name].update(*update)
    assert_same(numbers(made))


def test_a_metric_that_is_reset_begins_anew():
    made = metrics()
    for _ in range(2):
        for metric in made.values():
            metric.reset()
        for name, update in batches():
            made[name].update(*update)
    assert_same(numbers(made))


def test_halves_in_half_precision_are_summed_in_double():
    metric, rows = McasMetric(DIM), {role: torch.from_numpy(x / 1e7).to(torch.float16) for role, x in IMAGES.items()}
    for role, x in rows.items():
        metric.update(x, role)
    whole = mcas(
        target_images=rows["target"].double().numpy(), images_a=rows["a"].double().numpy(),
        images_b=rows["b"].double().numpy(), target_texts=None, texts_a=None, texts_b=None,
    )  # fmt: skip
    found = metric.compute()
    assert float(found["ii"]) == pytest.approx(whole.ii, abs=1e-12)
    assert all(np.isnan(float(found[name])) for name in ("itp", "ita", "tt", "image_part", "mcas"))


def test_what_is_missing_is_nan_and_what_is_wrong_is_refused():
    made = metrics()
    assert np.isnan([value for found in numbers(made).values() for key, value in found.items()
                     if key not in ("n", "tt")]).all()  # fmt: skip
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="role", match="target, a, b, found 'man'"):
        made["mcas"].update(torch.ones(2, DIM), "man")
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="embeddings", match=r"12\), .*\(2, 3\)"):
        made["share"].update(torch.ones(2, 3))
    for wrong in (torch.nan, torch.inf, 0.0):
        rows = torch.ones(3, DIM)
        rows[1] = wrong
        with raises(InvalidInputError, code=Code.NOT_FINITE, field="embeddings", match="row 1"):
            made["mcas"].update(rows, "a")
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="prompts"):
        made["t2iat"].update(torch.ones(2, DIM), torch.tensor([0, 2]), "y", "neutral")
    assert float(made["mcas"].images_count.sum()) == 0  # nothing of a wrong batch was counted


def test_a_prompt_without_one_of_its_kinds_is_left_out():
    made, whole = metrics()["t2iat"], T2iatMetric(DIM, prompts_x=2, prompts_y=2)
    for name, update in batches():
        if name == "t2iat" and not (update[2] == "x" and int(update[1][0]) == 2):
            whole.update(*update)
            made.update(*update)
    made.update(torch.from_numpy(t2iat_images("x", 2, "a")), torch.full((5,), 2), "x", "a")
    assert_same(numbers({"": made}), numbers({"": whole}))


def work(rank, port, results):
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    made = metrics()
    for at, (name, update) in enumerate(batches()):
        if at % 2 == rank:
            made[name].update(*update)
    results.put(numbers(made))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.thorough
def test_two_processes_reduce_to_the_same_numbers():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = torch.multiprocessing.get_context("spawn").Queue()
    other = torch.multiprocessing.get_context("spawn").Process(target=work, args=(1, port, results), daemon=True)
    other.start()
    work(0, port, results)
    found = [results.get(timeout=120) for _ in range(2)]
    other.join(60)
    assert other.exitcode == 0
    for each in found:
        assert_same(each)
