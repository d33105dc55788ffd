import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data import photographs
from regard.data.photographs import Photograph


def picture(width=60, height=40) -> Image.Image:
    """The left third red, the rest blue."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 3, 0] = 255
    pixels[:, width // 3 :, 2] = 255
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def near(found, colour) -> bool:
    return np.abs(found.astype(int) - colour).max() < 40


@pytest.mark.parametrize(("suffix", "kind"), [("jpg", "JPEG"), ("png", "PNG"), ("webp", "WEBP")])
def test_from_a_path_bytes_and_a_member_of_an_archive(tmp_path, suffix, kind):
    data = encoded(picture(), kind)
    path = tmp_path / f"photo.{suffix}"
    path.write_bytes(data)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr(f"inside/{path.name}", data)
    member = Photograph(tmp_path / "photos.zip", f"inside/{path.name}")
    found = [photographs.read(source, 30) for source in (path, Photograph(path), data, member)]
    assert all(np.array_equal(found[0], other) for other in found[1:])
    assert found[0].shape == (3, 30, 30) and found[0].dtype == np.uint8
    assert len({photographs.fingerprint(source) for source in (path, data, member)}) == 1


def test_cropped_or_squashed():
    data = encoded(picture(), "PNG")
    crop, squash = photographs.read(data, 20), photographs.read(data, 20, fit="squash")
    # Of 60 columns, 20 of them red, the middle 40 are kept: 10 of them red.
    assert near(crop[:, 10, 2], (255, 0, 0)) and near(crop[:, 10, 8], (0, 0, 255))
    assert near(squash[:, 10, 4], (255, 0, 0)) and near(squash[:, 10, 9], (0, 0, 255))
    with pytest.raises(ValueError, match="did you mean 'squash'"):
        photographs.read(data, 20, fit="squach")


def test_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees: the left side belongs on top
    found = photographs.read(encoded(picture(), "JPEG", exif=exif), 30, fit="squash")
    assert near(found[:, 3, 15], (255, 0, 0)) and near(found[:, 25, 15], (0, 0, 255))
    assert photographs.dimensions(encoded(picture(), "JPEG", exif=exif)) == (40, 60)


def test_a_squashed_photograph_gets_its_proportions_back():
    data = encoded(picture(60, 30), "PNG")
    assert photographs.dimensions(data) == (60, 30)
    wide = photographs.unsquashed(photographs.read(data, 20, fit="squash"), (60, 30))
    assert wide.shape == (3, 10, 20) and near(wide[:, 5, 3], (255, 0, 0)) and near(wide[:, 5, 9], (0, 0, 255))


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "I;16", "CMYK"])
def test_other_kinds_of_pixels(mode):
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), 0x8000, np.uint16))
    else:
        image = Image.new("RGB", (8, 8), (128, 128, 128)).convert("1" if mode == "1" else mode)
    found = photographs.read(encoded(image, "JPEG" if mode == "CMYK" else "PNG"), 4)
    assert found.shape == (3, 4, 4)
    assert np.ptp(found.astype(int), axis=0).max() <= 2, "grey stays grey"
    if mode != "1":
        assert np.abs(found.astype(int) - 128).max() <= 2


def test_what_is_transparent_is_white():
    found = photographs.read(encoded(Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "PNG"), 4)
    assert (found == 255).all()


@pytest.mark.parametrize("shape", [(8000, 5000), (20000, 10000)], ids=["ours", "Pillow's"])
def test_a_large_image_is_refused_before_it_is_decoded(tmp_path, shape):
    data = bytearray(encoded(picture(), "PNG"))
    data[16:24] = struct.pack(">2I", *shape)  # only the header says so
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path = tmp_path / "large.png"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"large\.png: more than 32 million pixels"):
        photographs.read(path, 64)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.jpg"
    with path.open("wb") as file:
        file.truncate(40_000_000)
    with pytest.raises(ValueError, match=r"large\.jpg: more than 32 MB"):
        photographs.read(path, 64)
    with pytest.raises(ValueError, match=r"the image: more than 0\.01 MB"):
        photographs.read(bytes(20_000), 64, max_bytes=10_000)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_named(tmp_path, kind, kept):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    data = encoded(noise, kind)
    path = tmp_path / "cut.img"
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ValueError, match=r"cut\.img: (broken or cut off|not a JPEG)"):
        photographs.read(path, 32)


def test_what_is_no_image_is_named(tmp_path):
    text = tmp_path / "text.jpg"
    text.write_text("Dear reader")
    with pytest.raises(ValueError, match=r"text\.jpg: not a JPEG, PNG or WebP image"):
        photographs.read(text, 32)
    with pytest.raises(ValueError, match=r"none\.jpg: no such file"):
        photographs.read(tmp_path / "none.jpg", 32)
    with pytest.raises(ValueError, match="a folder, not an image"):
        photographs.read(tmp_path, 32)
    picture().save(tmp_path / "picture.gif")
    with pytest.raises(ValueError, match=r"picture\.gif: not a JPEG, PNG or WebP image"):
        photographs.read(tmp_path / "picture.gif", 32)


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "photos.zip"
    with pytest.raises(ValueError, match=r"photos\.zip: no such file"):
        photographs.read(Photograph(path, "a.jpg"), 32)
    path.write_text("x")
    with pytest.raises(ValueError, match=r"photos\.zip: not a zip archive"):
        photographs.read(Photograph(path, "a.jpg"), 32)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(ValueError, match=r"other\.zip: no a\.jpg is in it"):
        photographs.read(Photograph(tmp_path / "other.zip", "a.jpg"), 32)
    with pytest.raises(ValueError, match=r"other\.zip: no photograph"):
        photographs.folder(tmp_path / "other.zip")


def test_a_damaged_member_of_an_archive_is_named(tmp_path):
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", encoded(picture(), "PNG") * 50)
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(each ^ 0xFF for each in data[60:90])
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"photos\.zip/a\.png: broken"):
        photographs.read(Photograph(path, "a.png"), 32)


def test_an_album_finds_what_lies_in_folders_of_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for name in ("all/cat/1.jpg", "all/dog/1.jpg", "all/dog/2.jpg"):
            archive.writestr(name, encoded(picture(), "JPEG"))
    album = photographs.Album(tmp_path, [tmp_path, tmp_path / "photos.zip"])
    for name in ("cat/1.jpg", "dog/1.jpg", "all/dog/1.jpg", "dog/1.png", "2.jpg", "dog\\1.jpg"):
        found, name = album.find(name), name.replace("\\", "/")
        assert found is not None and found.member.rpartition(".")[0].endswith(name.rpartition(".")[0])
    assert album.find("og/1.jpg") is None and album.find("cow/1.jpg") is None


def test_a_folder_is_listed_by_name(tmp_path):
    with pytest.raises(ValueError, match="no photograph"):
        photographs.folder(tmp_path)
    for name in ("b.JPG", "a.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [each.file.name for each in photographs.folder(tmp_path)] == ["a.png", "b.JPG"]


def test_pixels_are_resized_as_files_are(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (3, 20, 30), np.uint8)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / "a.png")
    for fit in photographs.FITS:
        found = photographs.resized(pixels, 12, fit=fit)
        assert np.array_equal(found, photographs.read(tmp_path / "a.png", 12, fit=fit))
    square = pixels[:, :, :20]
    assert np.array_equal(photographs.resized(square, 20), square)
