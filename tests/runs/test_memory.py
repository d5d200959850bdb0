"""What a run holds in memory is bounded in bytes, whatever images it is given."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from clinometer._cores import WeightGate
from clinometer.errors import Code, ModelError
from clinometer.runs.plan import PART_BYTES, build_plan
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.runs.storage import Directory
from clinometer.suites import PromptSpec
from tests import quick
from tests.raising import raises
from tests.runs.memory_suite import SUITE
from tests.toys import Eye


def planned(sizes, part_size=4):
    questions = [PromptSpec(f"prompt {number}", "target", images=1) for number in range(len(sizes))]
    held = dict(zip([question.prompt for question in questions], sizes, strict=True))
    plan = build_plan(
        questions, seed=0, model_fingerprint="m", part_size=part_size, bytes_of=lambda question: held[question.prompt]
    )
    return [sample.part for sample in plan]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([0] * 6, [0, 0, 0, 0, 1, 1]),
        ([PART_BYTES] * 3, [0, 1, 2]),
        ([PART_BYTES * 3, 1, 1], [0, 1, 1]),
        ([PART_BYTES // 2] * 5, [0, 0, 1, 1, 2]),
        ([1, PART_BYTES, 1], [0, 1, 2]),
    ],
)
def test_parts_hold_so_many_bytes(sizes, parts):
    assert planned(sizes) == parts


def test_what_waits_is_weighed():
    room, lock, held, most = WeightGate(10), threading.Lock(), [0], [0]

    def task(weight):
        with lock:
            held[0] += weight
            most[0] = max(most[0], held[0])
        time.sleep(0.005)
        with lock:
            held[0] -= weight
        if weight == 3:
            raise ValueError("what fails gives its room back")

    with ThreadPoolExecutor(8) as pool:
        for weight in [4, 4, 4, 9, 3, 1, 25, 2, 3, 7] * 3:
            room.submit(pool, weight, task, weight)
    assert most[0] == 25  # which is more than there is room for, and was alone
    assert room.submit(ThreadPoolExecutor(1), 10, int).result() == 0


def test_images_are_stored_as_they_are(tmp_path):
    row = dict.fromkeys(SAMPLE_SCHEMA.names) | {"id": "a", "image": {"bytes": bytes(100_000), "path": "a.png"}}
    Directory(tmp_path).write_table("part.parquet", pa.Table.from_pylist([row], schema=SAMPLE_SCHEMA))
    with pq.ParquetFile(tmp_path / "part.parquet") as opened:
        columns = [opened.metadata.row_group(0).column(n) for n in range(opened.metadata.num_columns)]
        (image,) = (each for each in columns if each.path_in_schema == "image.bytes")
        assert (image.compression, image.has_dictionary_page, image.is_stats_set) == ("UNCOMPRESSED", False, False)
        assert image.total_uncompressed_size < 101_000
        assert {each.compression for each in columns} == {"UNCOMPRESSED", "ZSTD"}
        assert opened.read(use_threads=False).to_pylist() == [row]


def folder_of(place, n, side):
    place.mkdir()
    Image.effect_noise((side // 4, side // 4), 60).resize((side, side)).convert("RGB").save(
        place / "0.png", compress_level=1
    )
    for number in range(1, n):
        (place / f"{number}.png").hardlink_to(place / "0.png")
    names = [f"concept {lean}" for lean in ("0.20", "0.80")]
    rows = [f"{number}.png,{names[number % 2]}" for number in range(n)]
    (place / "manifest.csv").write_text("\n".join(["file,concept", *rows]))
    return place


def test_large_and_small_images_stand_in_one_import(tmp_path):
    folder = folder_of(tmp_path / "made", 4, 64)
    with (folder / "huge.png").open("wb") as stream:
        stream.truncate(3 * 2**30)  # sparse: it takes no disk
    with (folder / "manifest.csv").open("a") as stream:
        stream.write("\nhuge.png,concept 0.20")
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye())
    assert run.samples.status.tolist() == ["ok"] * 4 + ["failed"]
    assert "the file has 3,221,225,472 bytes" in run.samples.reason.iloc[-1]


def test_the_limit_can_be_raised_and_lowered(tmp_path):
    folder = folder_of(tmp_path / "made", 2, 64)
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye(), max_pixels=64 * 64)
    assert set(run.samples.status) == {"ok"}
    with raises(ModelError, code=Code.FAILED, match=r"64 x 64 pixels, .* 4,095 .*--max"):
        quick.import_images(folder, tmp_path / "other", suite=SUITE, encoder=Eye(), max_pixels=64 * 64 - 1)


MEASURED = """
import resource, sys
from PIL import Image
from tests import quick
from tests.runs.memory_suite import SUITE
from tests.toys import Eye
class Frugal(Eye):
    def encode_images(self, images):
        return super().encode_images([image.resize((8, 8), Image.Resampling.NEAREST) for image in images])

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
quick.import_images(sys.argv[1], sys.argv[2], suite=SUITE, encoder=Frugal())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
def test_large_images_are_imported_in_little_memory(tmp_path):
    folder = folder_of(tmp_path / "made", 12, 4000)
    command = [sys.executable, "-c", MEASURED, str(folder), str(tmp_path / "run")]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2], timeout=600
    )
    assert int(result.stdout) < 850_000  # kB; the twelve images decoded are .58 GB, beside .45 GB of the program
