"""An archive that was cut or damaged is refused: it must not pass for a smaller one."""

import io
import tarfile
import warnings
import zipfile

import pytest

from tests.images import making
from tests.images.making import SIZE, as_files, encode, make_images, tar_bytes
from tpn.errors import TPNError, TPNWarning
from tpn.images.opening import open_images

FILES = as_files(make_images(3, classes={"train": ["cat", "dog"], "val": ["cow"], "test": ["pig", "hen"]}))
WHOLE = tar_bytes(FILES)
MODES = ["w", "w:gz", "w:bz2", "w:xz"]


def members():
    with tarfile.open(fileobj=io.BytesIO(WHOLE)) as archive:
        return archive.getmembers()


def flipped(content, place, bit=1):
    changed = bytearray(content)
    changed[place] ^= bit
    return bytes(changed)


SEVENTH = members()[6]
DAMAGES = {
    "a flipped bit in a name": flipped(WHOLE, SEVENTH.offset + 2),
    "a flipped bit in a size": flipped(WHOLE, SEVENTH.offset + 130),
    "a flipped bit in a checksum": flipped(WHOLE, SEVENTH.offset + 150),
    "a header of zeros": WHOLE[: SEVENTH.offset] + bytes(512) + WHOLE[SEVENTH.offset + 512 :],
    "cut between members": WHOLE[: SEVENTH.offset],
    "cut inside a header": WHOLE[: SEVENTH.offset + 200],
    "cut inside a file": WHOLE[: SEVENTH.offset_data + 10],
    "cut inside the mark at the end": WHOLE[: members()[-1].offset_data + 512 * (-(-members()[-1].size // 512)) + 512],
    "another archive after its end": WHOLE + WHOLE,
    "data after its end": WHOLE + b"more",
}


@pytest.mark.parametrize("compression", ["", "gz"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_cut_tar_is_refused(tmp_path, damage, compression):
    import gzip

    content = gzip.compress(DAMAGES[damage], 1) if compression else DAMAGES[damage]
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(TPNError, match="a.tar is damaged"):
        open_images(f"folder:{tmp_path / 'a.tar'}", SIZE, cache=tmp_path / "cache")


def test_a_compressed_tar_that_is_cut_anywhere_is_refused(tmp_path):
    for mode in MODES[1:]:
        whole = tar_bytes(FILES, mode)
        for length in (11, 20, 40, len(whole) // 2, len(whole) - 1):
            (tmp_path / "a.tar").write_bytes(whole[:length])
            with pytest.raises(TPNError, match="a.tar is .*damaged"):
                open_images(f"folder:{tmp_path / 'a.tar'}", SIZE, cache=tmp_path / "cache")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_whole_tars_of_every_kind_are_read(tmp_path, mode, form):
    with tarfile.open(tmp_path / "a.tar", mode, format=form) as archive:
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    images = open_images(f"folder:{tmp_path / 'a.tar'}", SIZE, cache=tmp_path / "cache")
    assert sum(split.images for split in images.info().values()) == len(FILES)


def test_the_archive_of_a_class_that_was_cut_is_refused_and_named(tmp_path):
    classes = {name: {f"{name}_{i}.JPEG": encode(pixels, "JPEG") for i, pixels in enumerate(items)}
               for classes in make_images(3).values() for name, items in classes.items()}  # fmt: skip
    inner = {f"{name}.tar": tar_bytes(files) for name, files in classes.items()}
    victim = sorted(inner)[1]
    inner[victim] = inner[victim][:2048]
    making.write_tar(tmp_path / "ILSVRC2012_img_train.tar", inner)
    with pytest.raises(TPNError, match=f"{victim} in ILSVRC2012_img_train.tar.* is damaged"):
        open_images(f"mini-imagenet:{tmp_path / 'ILSVRC2012_img_train.tar'}", SIZE, cache=tmp_path / "cache")


def test_a_zip_with_data_after_its_end_or_a_shorter_directory_is_refused(tmp_path):
    path = making.write_zip(tmp_path / "a.zip", FILES)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        first = len(archive.infolist()[0].filename) + 46
    end = whole.rfind(b"PK\5\6")
    size = int.from_bytes(whole[end + 12 : end + 16], "little")
    shorter = whole[: end + 12] + (size - first).to_bytes(4, "little") + whole[end + 16 :]  # loses the first entry
    for content in (whole + b"more", shorter):
        path.write_bytes(content)
        with pytest.raises(TPNError, match="a.zip is damaged"):
            open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"a comment is no damage"
    assert open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache").info()["train"].images == 6


def test_a_zip_whose_entry_has_lost_its_name_is_refused(tmp_path):
    path = making.write_zip(tmp_path / "a.zip", FILES)
    name = b"train/cat/0.png"
    path.write_bytes(path.read_bytes().replace(name, b"\0" * len(name)))  # zipfile ends a name at the first zero
    with pytest.raises(TPNError, match="a.zip is damaged: one of its entries has no name"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_two_entries_of_one_name_are_said(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    name, other = "train/cat/0.png", FILES["train/cat/1.png"]
    if kind == "zip":
        making.write_zip(path, FILES)
        with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr(name, other)
    else:
        making.write_tar(path, FILES)
        with tarfile.open(path, "a") as archive:
            entry = tarfile.TarInfo(name)
            entry.size = len(other)
            archive.addfile(entry, io.BytesIO(other))
    with pytest.warns(TPNWarning, match="1 entry of the archive has the name of an earlier one.*: train/cat/0.png"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    with pytest.raises(TPNError, match="strict"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "other", strict=True)
