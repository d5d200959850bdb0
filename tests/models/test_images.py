"""Every kind of image becomes RGB or a reason; nothing raises."""

import io
import struct
import threading
import warnings
import zlib

import numpy as np
import PIL
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image

from clinometer.models.files import image_files
from clinometer.models.images import (
    FORMATS,
    blank_reason,
    decode_image,
    decode_stored,
    encode_png,
    image_sha256,
    sha256,
)

RAMP = np.linspace(0, 255, 64, dtype=np.uint8).reshape(8, 8)


def file_of(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def picture() -> Image.Image:
    return Image.fromarray(np.stack([RAMP, RAMP.T, RAMP[::-1]], axis=-1))


def test_a_plain_rgb_file_is_not_changed():
    found = decode_image(file_of(picture()))
    assert (found.status, found.reason, found.conversions) == ("ok", None, ())
    assert np.array_equal(np.asarray(found.image), np.asarray(picture()))


def test_a_palette_is_resolved():
    found = decode_image(file_of(picture().quantize(8)))
    assert found.image.mode == "RGB"
    assert np.array_equal(np.asarray(found.image), np.asarray(picture().quantize(8).convert("RGB")))
    assert found.conversions == ("palette resolved",)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_composited_on_white(mode):
    image = picture().convert(mode)
    image.putalpha(Image.fromarray(np.where(RAMP < 128, 0, 255).astype(np.uint8)))
    found = decode_image(file_of(image))
    pixels = np.asarray(found.image)
    assert (pixels[RAMP < 128] == 255).all()
    assert np.array_equal(pixels[RAMP >= 128], np.asarray(image.convert("RGB"))[RAMP >= 128])
    assert "alpha composited on white" in found.conversions


def test_a_transparent_palette_entry_is_white_too():
    image = picture().quantize(8)
    found = decode_image(file_of(image, transparency=0))
    assert (np.asarray(found.image)[np.asarray(image) == 0] == 255).all()
    assert "alpha composited on white" in found.conversions


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "YCbCr", "LAB", "HSV"])
def test_other_modes_become_rgb(mode):
    image = picture().convert("RGB").convert(mode) if mode != "LAB" else Image.new("LAB", (8, 8), (150, 90, 30))
    found = decode_image(
        file_of(image, "TIFF" if mode not in {"HSV"} else "PNG") if mode != "HSV" else file_of(image.convert("RGB"))
    )
    if mode == "YCbCr" and int(PIL.__version__.split(".")[0]) < 13:
        assert (found.status, found.image) == ("failed", None)
        assert "cannot read an uncompressed YCbCr TIFF; save it as PNG, or install pillow>=13" in found.reason
        return
    assert found.status in {"ok", "blank"}
    assert found.image.mode == "RGB"
    assert found.conversions == (() if mode == "HSV" else (f"{mode} converted",))


def test_cmyk_jpeg():
    found = decode_image(file_of(picture().convert("CMYK"), "JPEG", quality=95))
    assert found.conversions == ("CMYK converted",)
    assert np.abs(np.asarray(found.image, float) - np.asarray(picture(), float)).mean() < 20


def test_16_bit_grey_is_divided_by_257():
    wide = RAMP.astype(np.uint16) * 257
    found = decode_image(file_of(Image.fromarray(wide)))
    assert np.array_equal(np.asarray(found.image)[..., 0], RAMP)
    assert "scaled to 8 bits" in found.conversions[0]


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_float_grey(scale):
    found = decode_image(file_of(Image.fromarray((RAMP / 255 * scale).astype(np.float32)), "TIFF"))
    assert np.abs(np.asarray(found.image)[..., 1].astype(int) - RAMP).max() <= 1


def test_a_wider_range_is_stretched():
    found = decode_image(file_of(Image.fromarray(RAMP.astype(np.int32) * 1000 - 5000), "TIFF"))
    assert np.asarray(found.image).min() == 0
    assert np.asarray(found.image).max() == 255


def test_values_that_are_not_finite_are_refused():
    values = (RAMP / 255).astype(np.float32)
    values[0, 0] = np.nan
    found = decode_image(file_of(Image.fromarray(values), "TIFF"))
    assert found.status == "failed"
    assert "not finite" in found.reason


def test_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    image = picture().resize((16, 8), Image.Resampling.NEAREST)
    found = decode_image(file_of(image, "PNG", exif=exif))
    assert found.image.size == (8, 16)
    assert np.array_equal(np.asarray(found.image), np.rot90(np.asarray(image), k=-1))
    assert found.conversions == ("EXIF orientation applied",)


@pytest.mark.parametrize("orientation", range(10))
def test_the_orientation_is_read_and_no_pixels_are_compared(monkeypatch, orientation):
    """A picture that is its own mirror image was called upright, after all its bytes were copied twice."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = file_of(Image.linear_gradient("L").convert("RGB"), "PNG", exif=exif)
    monkeypatch.setattr(Image.Image, "tobytes", None)
    found = decode_image(file)
    assert found.conversions == (("EXIF orientation applied",) if 2 <= orientation <= 8 else ())


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(kind):
    frames = [picture(), picture().transpose(Image.Transpose.ROTATE_90)]
    options = {"lossless": True} if kind == "WEBP" else {}
    found = decode_image(file_of(frames[0], kind, save_all=True, append_images=frames[1:], **options))
    assert "first frame of several" in found.conversions
    assert np.abs(np.asarray(found.image, int) - np.asarray(picture(), int)).mean() < 2


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def test_a_huge_image_is_refused_before_it_is_decoded():
    for side, said in ((9_000, "it has 9000 x 9000 pixels"), (20_000, "more pixels than Pillow decodes")):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
        found = decode_image(bomb)
        assert found.status == "failed"
        assert said in found.reason
        assert "40,000,000" in found.reason
    found = decode_image(file_of(picture()), max_pixels=63)
    assert found.reason == "it has 8 x 8 pixels, more than the limit of 63 (an import's --max-pixels raises it)"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"this is not an image", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
    ],
)
def test_what_is_not_an_image_has_a_reason(data, reason):
    found = decode_image(data)
    assert (found.status, found.image) == ("failed", None)
    assert reason in found.reason


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_truncated_file_has_a_reason(kind):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    data = file_of(noise, kind)
    found = decode_image(data[: len(data) // 2])
    assert found.status == "failed"
    assert found.reason


def test_every_format_that_is_named_can_be_read():
    Image.init()
    assert set(FORMATS) <= set(Image.OPEN)


def test_pillows_warnings_are_not_heard_and_others_are(monkeypatch):
    def convert(image, conversions):
        warnings.warn("of another's", stacklevel=1)
        return image

    monkeypatch.setattr("clinometer.models.images._to_rgb", convert)
    with pytest.warns(UserWarning, match="of another's"):
        decode_image(file_of(picture()))
    monkeypatch.undo()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 10_000, 10_000, 8, 2, 0, 0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow warns of so many pixels
        found = decode_image(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    assert found.reason.startswith("it has 10000 x 10000 pixels")


def test_threads_that_decode_leave_the_warnings_of_the_process_alone(monkeypatch):
    began, both = threading.Event(), threading.Event()

    def convert(image, conversions):  # the second is still at it when the first one ends
        if threading.current_thread() is first:
            began.set()
            both.wait()
        else:
            both.set()
            first.join()
        return image

    monkeypatch.setattr("clinometer.models.images._to_rgb", convert)
    data = file_of(picture())
    with warnings.catch_warnings():
        before = list(warnings.filters)
        first = threading.Thread(target=decode_image, args=(data,))
        first.start()
        began.wait()
        decode_image(data)
        first.join()
        assert warnings.filters == before


def test_a_missing_file_has_a_reason_without_its_path(tmp_path):
    for path in (tmp_path / "gone.png", tmp_path):
        found = decode_image(path)
        assert found.status == "failed"
        assert str(tmp_path) not in found.reason


@given(
    st.binary(max_size=300),
    st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]),
    st.integers(0, 400),
)
def test_no_bytes_make_it_raise(noise, kind, at):
    whole = file_of(picture(), kind)
    for data in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        found = decode_image(data)
        assert found.status in {"ok", "blank", "failed"}
        assert (found.image is None) == (found.status == "failed")
        assert (found.reason is None) == (found.status == "ok")


@given(npst.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_png_is_lossless_and_the_hash_is_of_the_pixels(pixels):
    image = Image.fromarray(pixels)
    again = decode_image(encode_png(image)).image
    assert np.array_equal(np.asarray(again), pixels)
    assert image_sha256(again) == image_sha256(image) == image_sha256(decode_image(file_of(image, "BMP")).image)


def test_png_carries_no_metadata():
    image = picture()
    image.info["comment"] = "from somewhere"
    image.info["icc_profile"] = b"profile"
    assert encode_png(image) == encode_png(picture())
    assert len(sha256(encode_png(image))) == 64


@pytest.mark.parametrize("colour", ["black", "white", (10, 200, 30)])
def test_an_image_of_one_colour_is_blank(colour):
    found = decode_image(file_of(Image.new("RGB", (64, 64), colour), "JPEG", quality=60))
    assert found.status == "blank"
    assert found.image is not None
    assert "one colour" in found.reason


def test_one_pixel_that_differs_is_not_blank():
    image = Image.new("RGB", (64, 64))
    image.putpixel((5, 5), (0, 3, 0))
    assert blank_reason(image) is None
    image.putpixel((5, 5), (0, 2, 0))
    assert blank_reason(image) == "every pixel has one colour, rgb(0, 0, 0)"


@pytest.mark.parametrize("mode", ["P", "PA", "CMYK", "YCbCr", "HSV", "F", "RGB", "RGBA", "L", "1"])
def test_an_image_of_any_mode_is_stored_as_it_looks(mode):
    image = picture().quantize(16).convert(mode) if mode == "PA" else picture().convert(mode)
    stored = np.asarray(decode_stored(encode_png(image)), int)
    assert np.abs(stored - np.asarray(image.convert("RGB"), int)).max() <= 1


def test_a_transparent_colour_is_stored_as_it_looks():
    image = Image.new("RGB", (2, 1), (10, 20, 30))
    image.putpixel((1, 0), (200, 0, 0))
    image.info["transparency"] = (10, 20, 30)
    assert np.asarray(decode_stored(encode_png(image))).tolist() == [[[255, 255, 255], [200, 0, 0]]]


def test_a_thread_of_pixels_is_not_read():
    """An encoder brings its shorter side to its own size: of one pixel by 20,000 that takes gigabytes."""
    found = [
        decode_image(encode_png(Image.new("RGB", size, (9, 90, 200)))) for size in ((2, 200), (201, 2), (1, 20_000))
    ]
    assert [each.status for each in found] == ["blank", "failed", "failed"]
    assert found[1].reason == "it has 201 x 2 pixels, one side over 100 times the other"


def test_a_folder_s_images_of_formats_that_are_not_read_are_told(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "saved.jfif", "JPEG")
    (tmp_path / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    (tmp_path / "._a.png").write_bytes(b"x")
    files = image_files([tmp_path])
    assert [file.name for file in files] == ["phone.HEIC", "saved.jfif"]
    assert decode_image(files[0]).reason.startswith("not an image, or of a format that is not read")
