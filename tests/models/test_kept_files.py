"""Files of finished images are stored as they are where they show what is measured, and encoded again elsewhere."""

import io
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from clinometer.models.images import KEPT, decode_file, decode_image, decode_stored, ending_of
from tests import quick
from tests.toys import Eye, toy_suite


def picture(mode="RGB", side=32):
    noise = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    return Image.fromarray(noise).convert(mode)


def file_of(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", KEPT)
def test_a_plain_file_is_kept_and_decodes_to_the_same_pixels(kind):
    data = file_of(picture(), kind)
    found, kept = decode_file(data)
    assert kept == data
    assert ending_of(kept) == KEPT[kind]
    np.testing.assert_array_equal(np.asarray(decode_stored(kept)), np.asarray(found.image))


TURNED = Image.Exif()
TURNED[0x0112] = 6


@pytest.mark.parametrize(
    "data",
    [
        file_of(Image.merge("RGBA", [*picture().split(), picture("L")]), "PNG"),
        file_of(picture("P"), "PNG"),
        file_of(picture("L"), "PNG"),
        file_of(picture("CMYK"), "JPEG"),
        file_of(picture(), "JPEG", exif=TURNED),
        file_of(picture(), "PNG", save_all=True, append_images=[picture().rotate(90)]),
        file_of(picture(), "BMP"),
        file_of(picture(), "TIFF"),
        file_of(picture(), "PNG") + bytes(2_000_000),  # more than its pixels can need
    ],
    ids=["alpha", "palette", "grey", "cmyk", "turned", "animated", "bmp", "tiff", "padded"],
)
def test_what_is_converted_or_not_shown_by_browsers_is_encoded_anew(data):
    found, kept = decode_file(data)
    assert found.status == "ok"
    assert kept is None


def test_damaged_files_are_not_kept():
    data = file_of(picture(), "JPEG")
    assert decode_file(data[: len(data) // 2])[1] is None
    assert decode_file(b"")[1] is None


def test_threads_decode_side_by_side_and_leave_the_warnings_as_they_were():
    before = list(warnings.filters)
    files = [file_of(picture("P"), "PNG", transparency=b"\x00\x01"), file_of(picture(), "JPEG")] * 50
    with ThreadPoolExecutor(4) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = list(warnings.filters)
        assert {each.status for each in pool.map(decode_image, files)} == {"ok"}
        assert warnings.filters == inside
    assert warnings.filters == before


@pytest.fixture
def folder(tmp_path):
    rows, place = ["file,concept,group,prompt"], tmp_path / "made"
    place.mkdir()
    names = ["concept 0.20,,", "concept 0.80,,", ",man,old men", ",woman,old women"]
    for number in range(24):
        kind = list(KEPT)[number % 3]
        name = f"{number}.{KEPT[kind]}"
        shade = picture().point(lambda level, number=number: (level + 7 * number) % 256)
        (place / name).write_bytes(file_of(shade, kind))
        rows.append(f"{name},{names[number % 4]}")
    (place / "manifest.csv").write_text("\n".join(rows))
    return place


def test_an_import_stores_the_files_and_embeds_what_decoding_gives(folder, tmp_path):
    suite = toy_suite(concepts=2)
    run = quick.import_images(folder, tmp_path / "run", suite=suite, encoder=Eye())
    stored = dict(run.images(sample.id for sample in run.plan))
    assert len(stored) == 24
    vectors = run.embeddings("eye")
    for sample in run.plan:
        data = (folder / sample.file).read_bytes()
        assert stored[sample.id] == data
        expected = Eye().encode_images([decode_image(data).image])[0]
        np.testing.assert_array_equal(vectors[sample.id], expected)
    paths = {row["image"]["path"] for part in run.parts for row in run.drawn.read(part)}
    assert {path.rpartition(".")[2] for path in paths} == {"png", "jpg", "webp"}
