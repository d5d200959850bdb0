"""Manifests of finished images: what they may say, and what is refused by name and line."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clinometer.errors import Code, ImportManifestError
from clinometer.models.files import ManifestRow, manifest_row, odd_batches, read_manifest, unlisted_images
from clinometer.models.files.source import FolderSource
from clinometer.models.images import at_hand
from clinometer.models.protocols import GenerationRequest
from clinometer.models.weights import hash_files
from tests.raising import raises


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.png", "b.png", "sub/c.png"):
        image = Image.new("RGB", (8, 8))
        image.putpixel((1, 1), (255, 0, 0))
        image.save(tmp_path / name)
    return tmp_path


def write(folder, text, name="manifest.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_csv(folder):
    write(
        folder,
        "\ufefffile,concept,group,prompt,score,model\n"
        'a.png,firefighter,,"an image of a firefighter, smiling",1,x\n'
        "sub/c.png,,woman,,2,y\n",
    )
    manifest = read_manifest(folder)
    assert list(manifest) == [
        ManifestRow("a.png", "firefighter", None, "target", "an image of a firefighter, smiling", 2, model="x"),
        ManifestRow("sub/c.png", None, "woman", "attribute", None, 3, model="y"),
    ]
    assert manifest.ignored == ("score", "model")
    assert len(manifest) == 2
    assert manifest[1].group == "woman"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_what_a_spreadsheet_writes(folder, separator):
    """A mark of byte order, the separator of its language, lines of Windows, rows and columns of nothing."""
    (folder / "b.png").rename(folder / "b, é.png")
    rows = [("file", "concept", "group", ""), ("a.png", "firefighter", "", ""), ("b, é.png", "cook", " ", "")]
    quoted = [[f'"{cell}"' if "," in cell else cell for cell in row] for row in (*rows, (" ", "", "", "", ""))]
    write(folder, "\ufeff" + "\r\n".join(separator.join(row) for row in quoted) + "\r\n")
    manifest = read_manifest(folder)
    assert [(row.file, row.concept, row.line) for row in manifest] == [
        ("a.png", "firefighter", 2), ("b, é.png", "cook", 3),
    ]  # fmt: skip
    assert manifest.ignored == ()


def test_pictures_may_be_flagged(folder):
    write(folder, "file,concept,flagged\na.png,cook,Yes\nb.png,cook,\nsub/c.png,cook,0\n")
    rows = read_manifest(folder)
    assert [row.flagged for row in rows] == [True, False, False]
    source, plain = FolderSource(folder, rows), FolderSource(folder, [replace(row, flagged=False) for row in rows])
    requests = [GenerationRequest(row.file, "", 0) for row in rows]
    assert [result.flagged for result in source.generate(requests)] == [True, False, False]
    assert source.card.fingerprint != plain.card.fingerprint
    lines = [{"file": "a.png", "concept": "cook", "flagged": True}, {"file": "b.png", "concept": "cook"}]
    other = write(folder, "\n".join(map(json.dumps, lines)), "other.jsonl") / "other.jsonl"
    assert [row.flagged for row in read_manifest(folder, other)] == [True, False]


def test_json_lines(folder):
    rows = [
        {"file": "a.png", "concept": "cook", "role": "target"},
        {"file": "b.png", "group": "man", "seed": 3},
    ]
    write(folder, "\n\n".join(map(json.dumps, rows)), "manifest.jsonl")
    manifest = read_manifest(folder)
    assert [(row.file, row.role, row.line) for row in manifest] == [
        ("a.png", "target", 1),
        ("b.png", "attribute", 3),
    ]
    assert manifest.ignored == ("seed",)


def test_spaces_around_the_names_of_columns_mean_nothing(folder):
    manifest = read_manifest(write(folder, "\ufefffile , concept, some colour\na.png, cook, red\n"))
    assert [(row.file, row.concept) for row in manifest] == [("a.png", "cook")]
    assert manifest.ignored == ("some colour",)


def test_a_manifest_elsewhere(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "mine.csv"
    path.write_text("file,group\na.png,man\n")
    assert read_manifest(folder, path)[0].file == "a.png"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", Code.MISSING, "line 1: found the columns none; expected file"),
        ('"an\n\n\nimage",b\na.png,cook', Code.MISSING, "line 1: found the columns an image, b; expected file"),
        ("path,concept\na.png,cook", Code.MISSING, "line 1: found the columns path, concept; expected file"),
        ("file,colour\na.png,x", Code.MISSING, "expected file, and concept or group, or the prompt"),
        (
            "File,concept\na.png,cook",
            Code.MISSING,
            "found the columns File, concept; expected file, .*; rename File to file$",
        ),
        (
            "file_name,prompt\na.png,x",
            Code.MISSING,
            "found the columns file_name, prompt; .*; rename file_name to file$",
        ),
        ("file;concept\na.png;cook;x", Code.MALFORMED, "line 2: more values than the 2 columns; .*semicolon"),
        ("file,group,concept,group\na.png,man,,woman", Code.DUPLICATE, "line 1: .*group 2 times"),
        ("file,concept\n", Code.TOO_FEW, "lists no images"),
        ("file,concept\n,cook", Code.MISSING, "line 2, file: nothing found"),
        ("file,concept,group\na.png,,", Code.MISSING, "line 2: found none of concept, group and prompt"),
        (
            "file,concept,role\na.png,cook,attribute",
            Code.MISMATCH,
            "line 2, role: found 'attribute', expected 'target'",
        ),
        ("file,concept,role\na.png,cook,hero", Code.MISMATCH, "line 2, role: found 'hero'"),
        (
            "file,concept\na.png,cook\nb.png,cook\na.png,nurse",
            Code.DUPLICATE,
            "line 4, file: 'a.png' is in line 2 already",
        ),
        (
            "file,concept\na.png,cook\nsub/../a.png,nurse",
            Code.DUPLICATE,
            "line 3, file: 'sub/../a.png' is in line 2 already",
        ),
        (
            "file,concept,flagged\na.png,cook,maybe",
            Code.WRONG_TYPE,
            "line 2, flagged: found 'maybe', expected true or false",
        ),
        ("file,concept\n../x.png,cook", Code.UNTRUSTED, r"line 2, file: '\.\./x\.png' lies outside"),
        ("file,concept\n/etc/hostname,cook", Code.UNTRUSTED, "line 2, file: '/etc/hostname' lies outside"),
        (
            "file,concept\na.png,cook\nx.png,cook\ny.png,cook",
            Code.NOT_FOUND,
            r"line 3, file: not in the folder: 'x.png' and 1 more; ",
        ),
        ("file,concept\na.png,cook,oh,no", Code.MALFORMED, "line 2: more values than the 2 columns"),
        ('file,concept\n"a.png"x,cook', Code.MALFORMED, "after line 1: not valid CSV"),
        ("file,concept\na\0b.png,cook", Code.NOT_FOUND, "not in the folder"),
        (f"file,concept\n{'x' * 3900}.png,cook", Code.NOT_FOUND, "not in the folder"),
        (
            f"file,concept\n{'x' * 5000}.png,cook",
            Code.TOO_MANY,
            "line 2, file: found 5,004 characters, expected at most 4,000",
        ),
    ],
)
def test_what_a_csv_may_not_say(folder, text, code, message):
    with raises(ImportManifestError, code=code, match=message) as caught:
        read_manifest(write(folder, text))
    assert str(caught.value).startswith("manifest.csv")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("not json", Code.MALFORMED, "line 1: not valid JSON"),
        ("[1]", Code.WRONG_TYPE, "line 1: found list, expected an object"),
        ('{"file": 3, "concept": "cook"}', Code.WRONG_TYPE, "line 1, file: found 3, expected text"),
        ('{"concept": "cook"}', Code.MISSING, "line 1, file: nothing found"),
        (
            '{"file_name": "a.png", "prompt": "x"}',
            Code.MISSING,
            "line 1, file: nothing found, .*; rename file_name to file$",
        ),
        (
            '{"file": "a.png", "group": "man", "group": "woman"}',
            Code.MALFORMED,
            "line 1: not valid JSON: group is given 2 times",
        ),
        (
            '{"file": "a.png", "concept": "cook", "prompt": "a cook \\ud83d"}',
            Code.NOT_TEXT,
            "line 1, prompt: .* half a character",
        ),
    ],
)
def test_what_json_lines_may_not_say(folder, text, code, message):
    with raises(ImportManifestError, code=code, match=message):
        read_manifest(write(folder, text, "manifest.jsonl"))


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    outside.write_bytes(b"x")
    (folder / "link.png").symlink_to(outside)
    with raises(ImportManifestError, code=Code.UNTRUSTED):
        read_manifest(write(folder, "file,concept\nlink.png,cook"))


def test_no_manifest_no_folder_and_no_utf8(folder):
    with raises(ImportManifestError, code=Code.NOT_FOUND, match=r"looked for manifest\.csv.*write a CSV"):
        read_manifest(folder)
    with raises(ImportManifestError, code=Code.NOT_FOUND, match="no such folder"):
        read_manifest(folder / "gone")
    with raises(ImportManifestError, code=Code.NOT_FOUND, match=r"looked for .*mine\.csv"):
        read_manifest(folder, "mine.csv")
    (folder / "mine.csv").touch()
    with raises(
        ImportManifestError, code=Code.NOT_FOUND, match=rf"looked for mine\.csv; did you mean {folder / 'mine.csv'}\?"
    ):
        read_manifest(folder, "mine.csv")
    (folder / "manifest.csv").write_bytes("file,concept\na.png,Köchin".encode("latin-1"))
    with raises(ImportManifestError, code=Code.NOT_TEXT, match="not UTF-8"):
        read_manifest(folder)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20), max_size=6))
def test_any_text_is_a_manifest_or_an_import_error(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("any")
    for name in ("manifest.csv", "manifest.jsonl"):
        path = folder / name
        path.write_text("\n".join(["file,concept"] * (name == "manifest.csv") + lines), encoding="utf-8")
        with pytest.raises(ImportManifestError):
            read_manifest(folder, path)


def request(id: str) -> GenerationRequest:
    return GenerationRequest(id=id, prompt="", seed=0)


def test_the_source_reads_what_is_asked_and_names_what_cannot_be_read(folder):
    (folder / "b.png").write_bytes(b"")
    Image.new("RGB", (8, 8)).save(folder / "blank.png")
    rows = read_manifest(write(folder, "file,concept\na.png,x\nb.png,x\nblank.png,x"))
    source = FolderSource(folder, rows)
    source.assign({"1": "a.png", "2": "b.png", "3": "blank.png"})
    found = {result.id: result for result in source.generate(map(request, "3214"))}
    assert {id: result.status for id, result in found.items()} == {
        "1": "ok",
        "2": "failed",
        "3": "blank",
        "4": "failed",
    }
    assert found["1"].image.size == (8, 8)
    assert found["2"].reason == "the file is empty (0 bytes)"
    assert "lists no image" in found["4"].reason


def test_before_it_is_assigned_a_file_is_its_own_id(folder):
    source = FolderSource(folder, read_manifest(write(folder, "file,concept\na.png,x")))
    assert next(source.generate([request("a.png")])).status == "ok"


def test_the_card_pins_the_images_and_hides_the_machine(folder):
    rows = read_manifest(write(folder, "file,concept\na.png,x"))
    card = FolderSource(folder, rows).card
    assert card.name == folder.name
    assert str(folder.parent) not in repr(card)
    assert FolderSource(folder, rows, name="dall-e").card.name == "dall-e"
    Image.new("RGB", (9, 9)).save(folder / "a.png")
    assert FolderSource(folder, rows).card.fingerprint != card.fingerprint


def test_a_path_from_the_root_is_one_within_the_folder(folder, monkeypatch):
    (folder / "manifest.csv").write_text(f"file,concept\n{folder.resolve() / 'a.png'},nurse\n")
    monkeypatch.chdir(folder.parent)
    rows = read_manifest(folder.name)
    assert [row.file for row in rows] == ["a.png"]
    (folder / "manifest.csv").write_text("file,concept\na.png,nurse\n")
    assert FolderSource(folder.name, rows).card == FolderSource(folder, read_manifest(folder)).card


@pytest.mark.thorough
def test_a_manifest_is_refused_by_its_size_and_its_rows(folder, monkeypatch):
    manifest = folder / "manifest.csv"
    with manifest.open("wb") as stream:
        stream.truncate(3 * 2**30)  # sparse: it takes no disk
    with raises(ImportManifestError, code=Code.TOO_MANY, match=r"manifest\.csv: .*300,000,000"):
        read_manifest(folder)
    manifest.write_text("file,concept\n" + "a.png,cook\n" * 5)
    monkeypatch.setattr("clinometer.models.files.MOST_ROWS", 4)
    with raises(ImportManifestError, code=Code.TOO_MANY, match="4 "):
        read_manifest(folder)


def test_json_that_is_nested_without_end_is_refused(folder):
    (folder / "manifest.jsonl").write_text('{"file": ' + "[" * 200_000)
    with raises(ImportManifestError, code=Code.MALFORMED, match=r"manifest\.jsonl, line 1: nested too deeply"):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("x" * 100_000, Code.TOO_MANY),
        (list(range(10**6)), Code.WRONG_TYPE),
        ({"a": "b" * 10**6}, Code.WRONG_TYPE),
    ],
    ids=["text", "list", "mapping"],
)
def test_a_message_about_a_manifest_is_short(folder, value, code):
    (folder / "manifest.jsonl").write_text(json.dumps({"file": "a.png", "concept": value}))
    with raises(ImportManifestError, code=code) as caught:
        read_manifest(folder)
    assert len(str(caught.value)) < 500


def test_a_file_that_is_too_large_is_not_read_at_all(folder, monkeypatch):
    with (folder / "a.png").open("wb") as stream:
        stream.truncate(2**42)  # sparse: to hash it would take an hour
    (folder / "manifest.csv").write_text("file,concept\na.png,cook")
    source = FolderSource(folder, read_manifest(folder))
    (result,) = source.generate([GenerationRequest("a.png", "", 0)])
    assert (result.status, source.decoded_bytes("a.png")) == ("failed", 0)
    assert "bytes, more than 4 for each pixel of the limit" in result.reason


def test_a_source_reads_a_file_once_and_is_hashed_as_its_files_are(tmp_path):
    for name in ("b.png", "a.png", "sub/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.radial_gradient("L").convert("RGB").save(tmp_path / name)
    (tmp_path / "large.png").write_bytes(bytes(2_000_000))
    files = [*tmp_path.rglob("*.png")]
    rows = [ManifestRow(path.relative_to(tmp_path).as_posix(), "cook", None, "target", None, 1) for path in files]
    assert FolderSource(tmp_path, rows).card.weights_sha256 == hash_files(files, tmp_path)
    small = [path for path in files if path.name != "large.png"]
    source = FolderSource(tmp_path, rows, max_pixels=256 * 256 - 1)  # an image above the limit is hashed, unlike a file
    assert source.card.weights_sha256 == hash_files(small, tmp_path)
    assert source.decoded_bytes("a.png") == 0


def test_only_small_regular_files_are_read_at_once(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"12345")
    assert at_hand(tmp_path / "a.png") == b"12345"
    assert at_hand(tmp_path / "none.png") == tmp_path / "none.png"
    assert at_hand(tmp_path) == tmp_path
    monkeypatch.setattr("clinometer.models.images.READ_WHOLE", 4)
    assert at_hand(tmp_path / "a.png") == tmp_path / "a.png"


def test_a_batch_is_a_name_or_a_number_and_what_is_odd_about_it_is_said(tmp_path):
    rows = [manifest_row("m.csv", i + 2, {"file": f"{i}.png", "concept": "nurse", "batch": batch})
            for i, batch in enumerate(["r1", " r1 ", 7, ""])]  # fmt: skip
    assert [row.batch for row in rows] == ["r1", "r1", "7", ""]
    (said,) = odd_batches("m.csv", rows)
    assert said.startswith("m.csv, batch: empty in 1 of 4 rows (line 5)")
    spread = [
        replace(rows[0], concept=concept, file=f"{concept}{i}.png") for concept in ("pilot", "nurse") for i in "ab"
    ]
    across, one = odd_batches("m.csv", spread)
    assert "'r1' in several concepts or groups" in across
    assert "came in one batch" in one
    assert "pilot" in one
    assert list(odd_batches("m.csv", [replace(row, batch="") for row in rows])) == []
    with raises(ImportManifestError, code=Code.WRONG_TYPE, match="batch: found"):
        manifest_row("m.csv", 2, {"file": "a.png", "concept": "nurse", "batch": [1]})


def test_a_folder_gives_each_image_its_batch(tmp_path):
    for name in "ab":
        Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / f"{name}.png")
    (tmp_path / "manifest.csv").write_text("file,concept,batch\na.png,nurse,r1\nb.png,nurse,\n")
    rows = read_manifest(tmp_path)
    assert rows.ignored == ()
    source = FolderSource(tmp_path, rows)
    found = source.generate(GenerationRequest(row.file, "", 0) for row in rows)
    assert [result.batch for result in found] == ["r1", None]
    plain = FolderSource(tmp_path, [replace(row, batch="") for row in rows])
    assert source.card.fingerprint != plain.card.fingerprint
    assert "batches" not in plain.card.settings


def test_a_file_is_found_whose_accents_are_apart_from_their_letters(folder):
    (folder / "a.png").rename(folder / "cafe\u0301.png")
    rows = read_manifest(write(folder, "file,concept\ncaf\u00e9.png,cook\n"))
    assert rows[0].file == "cafe\u0301.png"


def test_a_file_in_another_letter_case_is_named(folder):
    with raises(ImportManifestError, code=Code.NOT_FOUND, match=r"'A\.PNG'; did you mean a\.png\?"):
        read_manifest(write(folder, "file,concept\nA.PNG,cook\n"))


@pytest.mark.parametrize(
    "content",
    [
        "file\tconcept\na.png\tcook\n".encode("utf-16"),
        b"\xef\xbb\xbffile;concept\r\na.png;cook\r\n",
        b"sep=;\r\nfile;concept\r\na.png;cook\r\n",
        b"file|concept\na.png|cook\n",
        b"file , concept ,\na.png, cook ,\n",
        b"file,concept\r.\\a.png,cook\r",
    ],
)
def test_what_spreadsheets_of_many_kinds_write(folder, content):
    (folder / "manifest.csv").write_bytes(content)
    assert [(row.file.removeprefix("./"), row.concept) for row in read_manifest(folder)] == [("a.png", "cook")]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"PK\x03\x04rest", Code.NOT_TEXT, "it is an Excel workbook or another archive; save the table as CSV"),
        (b"\xd0\xcf\x11\xe0rest", Code.NOT_TEXT, "it is an old Excel workbook; save the table as CSV"),
        (
            "file,concept\ncaf\u00e9.png,cook\n".encode("latin-1"),
            Code.NOT_TEXT,
            "byte 16 is not UTF-8; save it as UTF-8",
        ),
        (b"sep=;\nfile;concept\na.png;cook;more\n", Code.MALFORMED, "line 3: more values than the 2 columns"),
    ],
)
def test_what_is_no_text_is_named_with_the_way_out(folder, content, code, message):
    (folder / "manifest.csv").write_bytes(content)
    with raises(ImportManifestError, code=code, match=message):
        read_manifest(folder)


def test_images_that_a_manifest_does_not_list_are_named(folder):
    (folder / "deeper").mkdir(exist_ok=True)
    (folder / "deeper" / "left.PNG").write_bytes((folder / "a.png").read_bytes())
    rows = read_manifest(write(folder, "file,concept\na.png,cook\n"))
    assert "deeper/left.PNG" in unlisted_images(folder, rows)
    assert "a.png" not in unlisted_images(folder, rows)
