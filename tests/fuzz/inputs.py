"""Everything that clinometer reads from others, changed at random: suites, manifests, run.json, images, answers.

    python -m tests.fuzz.inputs --seed 1 --minutes 10

Whatever is read, it is taken or refused: by an error of clinometer's own, of one or two short lines, soon, and within
a few gigabytes. What does otherwise is kept in ``build/fuzz`` and counted; the exit status says whether there was any.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

import clinometer as cm
from clinometer.errors import ClinometerError
from clinometer.models import Card, GenerationRequest
from clinometer.models.files import read_manifest
from clinometer.models.images import MAX_PIXELS, decode_image, encode_png
from clinometer.suites import load_suite
from tests.toys import Eye, Painter, toy_suite

SECONDS: Final = 20.0
"""What a single input may take, on a loaded machine."""

MEMORY: Final = 6 * 2**30
LONGEST: Final = 2000
KEPT: Final = Path("build/fuzz")
TOKENS: Final = (
    b"[", b"{", b"&a ", b"*a", b"<<: *a\n", b"? ", b": ", b"\n", b"- ", b"\t", b"\"", b"'", b",", b"\x00", b"\xff\xfe",
    b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x1b[31m", b"9" * 400, b"1e12", b"-1", b".nan", b".inf", b"null", b"!!x ",
    b"2024-13-45", b"images", b"target", b"=cmd()", b"../", b"/etc/passwd", b"%s", b"{stimulus}", b"NaN", b"1e400",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """One thing that is read: examples of it, and what reads it. ``read`` gets bytes and an empty folder."""

    samples: Callable[[], Sequence[bytes]]
    read: Callable[[bytes, Path], object]


def mutated(chance: random.Random, content: bytes) -> bytes:
    """Change bytes at some places: flip, cut, repeat, insert what is known to matter."""
    held = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at, to = sorted(chance.randrange(len(held) + 1) for _ in range(2))
        match chance.randrange(6):
            case 0 if at < len(held):
                held[at] ^= 1 << chance.randrange(8)
            case 1:
                del held[at : min(to, at + 64)]
            case 2:
                held[at:at] = held[at : min(to, at + 256)] * chance.choice((1, 2, 200))
            case 3:
                held[at:at] = chance.choice(TOKENS) * chance.choice((1, 1, 3, 300))
            case 4:
                del held[to:]
            case _:
                held[at : at + 4] = chance.randbytes(4)
        del held[2_000_000:]
    return bytes(held)


def outcome(target: Target, content: bytes, folder: Path) -> str:
    """What became of an input: ``"taken"``, ``"refused"``, or what was wrong."""
    started = time.perf_counter()
    try:
        target.read(content, folder)
        found = "taken"
    except ClinometerError as error:
        message = str(error)
        found = (
            "refused" if len(message) < LONGEST and message.count("\n") < 13 else f"a long message: {message[:200]!r}"
        )
    except Exception:
        found = f"an exception: {traceback.format_exc()}"
    seconds = time.perf_counter() - started
    return found if seconds < SECONDS else f"{seconds:.0f} seconds, and then {found[:200]}"


def _suites() -> list[bytes]:
    folder = Path(cm.__file__).parent / "suites" / "data"
    names = ("reference.yaml", "downstream/editing.yaml", "downstream/classification.yaml")
    return [(folder / name).read_bytes() for name in names] + [
        b"a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}\nname: n\ntitle: t\ndescription: d\n"
    ]


def _read_suite(content: bytes, folder: Path) -> None:
    (folder / "suite.yaml").write_bytes(content)
    suite = load_suite(folder / "suite.yaml")
    assert suite.image_count <= 1_000_000
    assert suite.fingerprint
    assert suite.sheets()


def _csv() -> list[bytes]:
    return [b'file,concept,group,role,prompt\na.png,firefighter,,,\nb.png,,man,attribute,"a, b"\n']


def _json_lines() -> list[bytes]:
    return [b'{"file": "a.png", "concept": "nurse"}\n{"file": "b.png", "group": "man", "extra": [1, {"a": null}]}\n']


def _read_manifest(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, folder: Path) -> None:
        for image in ("a.png", "b.png"):
            (folder / image).touch()
        (folder / name).write_bytes(content)
        assert len(read_manifest(folder)) > 0

    return read


def _records() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        cm.audit(Painter(), toy_suite(target=2, attribute=2, concepts=2), f"{folder}/run", encoder=Eye())
        return [Path(f"{folder}/run/run.json").read_bytes()]


def _read_record(content: bytes, folder: Path) -> None:
    (folder / "run.json").write_bytes(content)
    run = cm.open_run(folder)
    assert run.record
    assert run.suite.sheets()
    assert run.model_card["name"] is not None


def _images() -> Iterator[bytes]:
    for kind, mode in (("PNG", "RGB"), ("PNG", "RGBA"), ("JPEG", "CMYK"), ("GIF", "P"), ("TIFF", "F"), ("WEBP", "RGB"),
                       ("BMP", "RGB"), ("TGA", "RGB"), ("PPM", "RGB"), ("JPEG2000", "RGB"), ("ICO", "RGBA"),
                       ("AVIF", "RGB"), ("QOI", "RGB")):  # fmt: skip
        buffer = io.BytesIO()
        Image.effect_noise((40, 30), 50).convert(mode).save(buffer, kind)
        yield buffer.getvalue()


def _read_image(content: bytes, folder: Path) -> None:
    for source in (content, folder / "image"):
        (folder / "image").write_bytes(content)
        found = decode_image(source)
        assert (found.image is None) == (found.status == "failed")
        if found.image is not None:
            assert found.image.mode == "RGB"
            assert found.image.width * found.image.height <= MAX_PIXELS
        assert len(found.reason or "") < LONGEST


def _answers() -> list[bytes]:
    coded = base64.b64encode(encode_png(Image.effect_noise((16, 16), 50).convert("RGB"))).decode()
    bodies = (
        {"created": 1, "data": [{"b64_json": coded, "revised_prompt": "a nurse"}]},
        {"data": [{"url": f"data:image/png;base64,{coded}"}]},
        {"data": [{"url": "http://10.0.0.1/a.png"}]},
        {"error": {"message": "rejected by the safety system", "type": "x", "code": "moderation_blocked"}},
    )
    return [bytes([status]) + json.dumps(body).encode() for status in (0, 1, 2) for body in bodies]


def _read_answer(content: bytes, folder: Path) -> None:
    """The first byte chooses the status, the rest is the body."""
    import openai

    from clinometer.models.openai import http_library
    from clinometer.models.openai.images import OpenAIImages

    library = http_library()
    status, body = (200, 400, 500, 307)[(content or b"\0")[0] % 4], content[1:]
    kind = {"Content-Type": "application/json"}
    transport = library.MockTransport(lambda request: library.Response(status, content=body, headers=kind))
    client = openai.OpenAI(
        api_key="k", base_url="http://localhost:1/v1", max_retries=0, http_client=library.Client(transport=transport)
    )
    card = Card(kind="generator", name="m", family="f", settings={"server": "s"})
    generator = OpenAIImages(client, card, fetch=lambda url: b"", arguments={"model": "m"}, price_per_image=0)
    (result,) = generator.generate([GenerationRequest("1", "a nurse", 0)])
    assert (result.image is None) == (result.status in ("failed", "refused"))


TARGETS: Final = {
    "suite": Target(_suites, _read_suite),
    "manifest.csv": Target(_csv, _read_manifest("manifest.csv")),
    "manifest.jsonl": Target(_json_lines, _read_manifest("manifest.jsonl")),
    "run.json": Target(_records, _read_record),
    "image": Target(lambda: list(_images()), _read_image),
    "answer": Target(_answers, _read_answer),
}


def attack(name: str, samples: Sequence[bytes], chance: random.Random) -> tuple[bytes, str]:
    """Change an example and see what becomes of it: the input and its outcome."""
    content = mutated(chance, chance.choice(samples))
    with tempfile.TemporaryDirectory() as folder:
        return content, outcome(TARGETS[name], content, Path(folder))


def main() -> int:
    """Attack for some minutes; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=10.0)
    asked = parser.parse_args()
    _limit_memory()
    chance, counts = random.Random(asked.seed), Counter[tuple[str, str]]()
    samples = {name: list(target.samples()) for name, target in TARGETS.items()}
    shutil.rmtree(KEPT, ignore_errors=True)
    ends = time.monotonic() + 60 * asked.minutes
    while time.monotonic() < ends:
        name = chance.choice(list(TARGETS))
        content, found = attack(name, samples[name], chance)
        right = found in ("taken", "refused")
        counts[name, found if right else "wrong"] += 1
        if not right:
            KEPT.mkdir(parents=True, exist_ok=True)
            place = KEPT / f"{name}-{sum(counts.values())}"
            place.write_bytes(content)
            print(f"{place}: {found}", file=sys.stderr)
    print(f"seed {asked.seed}: " + ", ".join(f"{name} {what} {n}" for (name, what), n in sorted(counts.items())))
    return int(any(what == "wrong" for _, what in counts))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    sys.exit(main())
