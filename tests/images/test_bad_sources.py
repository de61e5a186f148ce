"""What is wrong with a source is named and counted, and left out or refused; what is hostile is refused."""

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.images import making
from tests.images.making import SIZE, as_files, cache_content, encode, make_images, pickled
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError, TPNWarning
from tpn.images.opening import open_images

SOURCE = make_images(4, classes={"train": ["cat", "dog"], "val": ["cow"], "test": ["pig", "hen"]})
MINI = "ignore:.*not the complete:tpn.errors.TPNWarning"


@pytest.fixture
def own(tmp_path):
    """Write files beside a good folder, and open it."""

    def open_with(files, strict=False, **options):
        root = making.write_folder(tmp_path / "own", {**as_files(SOURCE), **files})
        for name, link in options.get("links", {}).items():
            (root / name).symlink_to(link)
        return open_images(f"folder:{root}", SIZE, cache=tmp_path / "cache", strict=strict)

    return open_with


def left_in(cache):
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock")) if cache.exists() else []


BAD_FILES = {
    "train/cat/truncated.jpg": (
        encode(np.zeros((90, 90, 3), np.uint8), "JPEG")[:300],
        "truncated.jpg: it cannot be read",
    ),
    "train/cat/page.png": (
        b"<html>not found</html>",
        "page.png: it cannot be read",
    ),
    "val/cow/nothing.png": (b"", "nothing.png: it cannot be read"),
    "test/hen/notes.txt": (b"hello", "left out: test/hen/notes.txt"),
    "train/loose.png": (encode(SOURCE["train"]["cat"][0]), "class folder: train/loose.png"),
    "readme.md": (b"hello", "class folder: readme.md"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_named_and_left_out_or_refused(own, tmp_path, name):
    content, complaint = BAD_FILES[name]
    with pytest.warns(TPNWarning) as told:
        images = own({name: content})
    assert any(complaint in str(warning.message) and ": 1 " in str(warning.message) for warning in told)
    assert sum(split.images for split in images.info().values()) == 20
    for split, classes in SOURCE.items():
        np.testing.assert_array_equal(images.split(split).images[:4], np.stack(classes[sorted(classes)[0]]))
    with pytest.raises(TPNError, match="strict") as refusal:
        own({}, strict=True)
    assert complaint in str(refusal.value)


def test_strict_refuses_before_anything_is_kept(own, tmp_path):
    with pytest.raises(TPNError, match="1 image cannot be read"):
        own({"train/cat/page.png": b"<html>"}, strict=True)
    assert left_in(tmp_path / "cache") == []


def test_many_bad_files_are_counted(own):
    with pytest.warns(TPNWarning, match="30 images cannot be read and are left out: .*; .*; .* …"):
        own({f"train/dog/{i}.png": b"nothing" for i in range(100, 130)})


def test_a_class_without_a_image_that_can_be_read(own):
    with pytest.warns(TPNWarning) as told:
        images = own({f"train/ant/{i}.png": b"nothing" for i in range(3)})
    assert any("1 class has no readable image and is left out: 'ant' (train)" in str(w.message) for w in told)
    assert images.split("train").classes == ("cat", "dog")


def test_nothing_that_can_be_read_at_all(tmp_path):
    root = making.write_folder(tmp_path / "own", {"train/a/1.png": b"x", "train/b/1.png": b"y"})
    with pytest.raises(TPNError, match="no readable image"):
        open_images(f"folder:{root}", SIZE, cache=tmp_path / "cache")
    assert left_in(tmp_path / "cache") == []


def test_empty_folders(own, tmp_path):
    (tmp_path / "own" / "train" / "empty").mkdir(parents=True)
    with pytest.warns(TPNWarning, match="1 folder is empty: train/empty"):
        own({})
    (tmp_path / "void").mkdir()
    with pytest.raises(TPNError, match="has no images that belong to a class"):
        open_images(f"folder:{tmp_path / 'void'}", SIZE, cache=tmp_path / "cache")


def test_unreadable_files_and_what_is_no_file(own, tmp_path):
    root = tmp_path / "own"
    making.write_folder(root, as_files(SOURCE))
    os.mkfifo(root / "train" / "cat" / "pipe.png")
    (root / "train" / "cat" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (root / "train" / "cat" / "around.png").symlink_to("around.png")
    (root / "train" / "cat" / "memory.png").symlink_to("/proc/self/mem")
    (root / "train" / "cat" / "loop").symlink_to(root)
    with pytest.warns(TPNWarning, match="4 images cannot be read and are left out"):
        images = own({})
    assert images.info()["train"].images == 8


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden_files_and_folders(own, tmp_path):
    root = making.write_folder(tmp_path / "own", {**as_files(SOURCE), "train/fox/1.png": b""})
    (root / "train/cat/0.png").chmod(0)
    (root / "train/fox").chmod(0)
    with pytest.warns(TPNWarning) as told:
        own({})
    (root / "train/fox").chmod(stat.S_IRWXU)
    assert any("Permission denied" in str(warning.message) for warning in told)


def test_links_in_a_folder_are_followed(tmp_path):
    real = making.write_folder(tmp_path / "real", as_files(SOURCE))
    for split, classes in SOURCE.items():
        (tmp_path / "own" / split).mkdir(parents=True)
        for name in classes:
            (tmp_path / "own" / split / name).symlink_to(real / split / name)
    images = open_images(f"folder:{tmp_path / 'own'}", SIZE, cache=tmp_path / "cache")
    assert images.info()["test"].images == 8


def test_a_class_in_two_splits(own, tmp_path):
    with pytest.raises(TPNError, match="The class 'cat' is in two splits of .*, train and test"):
        own({"test/cat/1.png": encode(SOURCE["train"]["cat"][0])})
    making.write_folder(
        tmp_path / "named", {"a/1.png": b"", "b/1.png": b"", "splits.json": b'{"train": ["a", "b"], "test": ["a"]}'}
    )
    with pytest.raises(TPNError, match="names the class 'a' twice, in train and in test"):
        open_images(f"folder:{tmp_path / 'named'}", SIZE, cache=tmp_path / "cache")
    files, _ = making.ravi_files(make_images(1, classes={"train": ["a", "b"], "val": ["c"], "test": ["d"]}))
    files["test.csv"] = files["test.csv"].replace(b",d", b",a")
    with pytest.raises(TPNError, match="The class 'a' is in two splits"):
        open_images(f"mini-imagenet:{making.write_zip(tmp_path / 'm.zip', files)}", SIZE, cache=tmp_path / "cache")


def test_the_same_file_in_two_splits(own):
    same = encode(SOURCE["train"]["cat"][0])
    with pytest.warns(TPNWarning, match="1 image is both in the train and in the test split, .* cat and hen"):
        images = own({"test/hen/copy.png": same})
    assert images.info()["test"].images == 9


def test_a_class_with_too_few_images_is_named(own):
    images = own({})
    with pytest.raises(TPNError, match="needs 5 images of each class, but the class 'hen' of the test split has 4"):
        EpisodeSampler(images.split("test"), Setting(way=2, shot=2, query=3), 0)
    with pytest.raises(TPNError, match="needs 2 classes, but the val split has 1"):
        EpisodeSampler(images.split("val"), Setting(way=2, shot=1, query=1), 0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[]", "must be an object with a list of class names"),
        (b"{", "must be an object"),
        (b'{"train": [1]}', "class is not a string"),
        (b'{"train": ["a"], "dev": ["b"]}', "'dev', .* one of train, val, test"),
        (b"\xff\xfe", "not text in UTF-8"),
    ],
)
def test_a_bad_list_of_splits(tmp_path, content, complaint):
    root = making.write_folder(tmp_path / "own", {"a/1.png": b"", "b/1.png": b"", "splits.json": content})
    with pytest.raises(TPNError, match=complaint):
        open_images(f"folder:{root}", SIZE, cache=tmp_path / "cache")


def test_a_split_that_is_not_there(tmp_path):
    source = {split: classes for split, classes in SOURCE.items() if split != "val"}
    images = open_images(
        f"folder:{making.write_folder(tmp_path / 'own', as_files(source))}", SIZE, cache=tmp_path / "c"
    )
    assert list(images.info()) == ["train", "test"]
    with pytest.raises(TPNError, match="has no val split; it has train, test"):
        images.split("val")


@pytest.mark.filterwarnings(MINI)
def test_rows_without_a_image_and_images_without_a_row(tmp_path):
    files, _ = making.ravi_files(make_images(3))
    del files["images/n0153282900000002.jpg"]
    files["images/stranger.jpg"] = files["images/n0153282900000001.jpg"]
    files["val.csv"] += files["val.csv"].splitlines(keepends=True)[1]
    path = making.write_zip(tmp_path / "mini.zip", files)
    with pytest.warns(TPNWarning) as told:
        images = open_images(f"mini-imagenet:{path}", SIZE, cache=tmp_path / "cache")
    text = " ".join(str(warning.message) for warning in told)
    assert "train.csv, row 3: n0153282900000002.jpg" in text
    assert "1 image is not in any list: images/stranger.jpg" in text
    assert "repeats another: val.csv, row 8" in text
    assert images.info()["train"].images == 8
    assert images.info()["val"].images == 6
    with pytest.raises(TPNError, match="strict"):
        open_images(f"mini-imagenet:{path}", SIZE, cache=tmp_path / "other", strict=True)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"file,class\na,b\n", "has no column 'filename': its first row must name the columns filename and label"),
        (b"", "has no column 'filename'"),
        (b"filename,label\nonly.jpg\n", "incomplete in row 2"),
        (b'filename,label\n"a,b\n', "not a csv file"),
        (b"filename,label\n\xff,x\n", "not text in UTF-8"),
    ],
)
def test_a_bad_csv_list(tmp_path, content, complaint):
    files, _ = making.ravi_files(make_images(1))
    path = making.write_folder(tmp_path / "mini", {**files, "val.csv": content})
    with pytest.raises(TPNError, match=complaint):
        open_images(f"mini-imagenet:{path}", SIZE, cache=tmp_path / "cache")


@pytest.mark.filterwarnings(MINI)
def test_csv_lists_of_other_systems(tmp_path):
    files, kept = making.ravi_files(make_images(2))
    files = {name: b"\xef\xbb\xbf" + content if name.endswith("csv") else content for name, content in files.items()}
    images = open_images(f"mini-imagenet:{making.write_folder(tmp_path / 'm', files)}", SIZE, cache=tmp_path / "cache")
    np.testing.assert_array_equal(images.split("val").images[0], kept["val"]["n01855672"][0])


def mini_pickles(folder, **changes):
    for split, classes in make_images(2).items():
        pixels, places = cache_content(classes)
        content = {"image_data": pixels, "class_dict": places}
        if split == "val":
            content.update(changes)
        making.write_folder(folder, {f"mini-imagenet-cache-{split}.pkl": pickled(content)})
    return f"mini-imagenet:{folder}"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"class_dict": {"a": [0, 99]}}, "class 'a' .* do not exist"),
        ({"class_dict": {"a": [-1]}}, "class 'a' .* do not exist"),
        ({"class_dict": {"a": ["x"]}}, "class 'a' is damaged"),
        ({"class_dict": [1, 2]}, "where a dict was expected"),
        ({"image_data": np.zeros((3, 20, 20, 3))}, "float64.* expected images"),
        ({"image_data": np.zeros((3, 20, 20), np.uint8)}, "expected images"),
        ({"image_data": [1, 2]}, "expected images"),
        ({"image_data": "text"}, "not an array of numbers"),
    ],
)
def test_pickles_with_something_else(tmp_path, changes, complaint):
    with pytest.raises(TPNError, match=complaint):
        open_images(mini_pickles(tmp_path / "mini", **changes), SIZE, cache=tmp_path / "cache")


def test_pickles_that_are_web_pages_programs_or_missing(tmp_path):
    spec = mini_pickles(tmp_path / "mini")
    file = tmp_path / "mini" / "mini-imagenet-cache-val.pkl"
    file.write_bytes(b"<!DOCTYPE html><html><title>Google Drive - Virus scan warning</title>")
    with pytest.raises(TPNError, match="mini-imagenet-cache-val.pkl is not a pickle: it is a web page"):
        open_images(spec, SIZE, cache=tmp_path / "cache")
    file.write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "pwned").encode() + b"'\ntR.")
    with pytest.raises(TPNError, match="would call 'os.system'"):
        open_images(spec, SIZE, cache=tmp_path / "cache")
    assert not (tmp_path / "pwned").exists()
    file.unlink()
    with pytest.raises(TPNError, match="no such file for the val split. All three are needed"):
        open_images(spec, SIZE, cache=tmp_path / "cache")


def test_labels_that_do_not_fit(tmp_path):
    for split in ("train", "val", "test"):
        np.savez(tmp_path / f"{split}_images.npz", images=np.zeros((3, SIZE, SIZE, 3), np.uint8))
        (tmp_path / f"{split}_labels.pkl").write_bytes(pickled({"label_specific": np.zeros(4, int)}))
    spec = f"tiered-imagenet:{tmp_path}"
    with pytest.raises(TPNError, match="has 3 images, but .*train_labels.pkl 4 labels"):
        open_images(spec, SIZE, cache=tmp_path.parent / "cache")
    (tmp_path / "train_labels.pkl").write_bytes(pickled({"other": 1}))
    with pytest.raises(TPNError, match="has no 'label_specific'; it has other"):
        open_images(spec, SIZE, cache=tmp_path.parent / "cache")
    np.savez(tmp_path / "train_images.npz", pixels=np.zeros(3))
    with pytest.raises(TPNError, match="no array 'images'"):
        open_images(spec, SIZE, cache=tmp_path.parent / "cache")
    (tmp_path / "train_images.npz").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(TPNError, match="train_images.npz is damaged"):
        open_images(spec, SIZE, cache=tmp_path.parent / "cache")
    (tmp_path / "train_images.npz").unlink()
    with pytest.raises(TPNError, match="has no train_images_png.pkl or train_images.npz"):
        open_images(spec, SIZE, cache=tmp_path.parent / "cache")


@pytest.mark.parametrize(
    "name", ["../evil.png", "/etc/evil.png", "train/../../evil.png", "C:\\evil.png", "..\\evil.png"]
)
@pytest.mark.parametrize("write", [making.write_zip, making.write_tar])
def test_archives_whose_names_lead_out_of_them(tmp_path, write, name):
    path = write(tmp_path / "archive", {**as_files(SOURCE), name: b"x"})
    with pytest.raises(TPNError, match="is refused: its entry .* outside"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_tars_with_links_and_devices(tmp_path, kind):
    path = making.write_tar(tmp_path / "archive.tar", as_files(SOURCE))
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo("train/cat/link.png")
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(TPNError, match=r"is refused: its entry 'train/cat/link.png' is (a link|not a regular file)"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")


def test_zips_with_links(tmp_path):
    path = making.write_zip(tmp_path / "archive.zip", as_files(SOURCE))
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("train/cat/link.png")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(TPNError, match="its entry 'train/cat/link.png' is a link"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")


def test_tars_of_classes_with_names_that_lead_out(tmp_path):
    inner = making.tar_bytes({"../../evil.JPEG": b"x"})
    path = making.write_tar(tmp_path / "train.tar", {"n01532829.tar": inner})
    with pytest.raises(TPNError, match="outside of the archive"):
        open_images(f"mini-imagenet:{path}", SIZE, cache=tmp_path / "cache")


def test_files_too_large_to_be_images_are_not_read(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in as_files(SOURCE).items():
            archive.writestr(name, content)
        with archive.open("train/cat/bomb.png", "w", force_zip64=True) as entry:
            for _ in range(300):
                entry.write(bytes(2**20))
    (tmp_path / "bomb.zip").write_bytes(stream.getvalue())
    with pytest.warns(TPNWarning, match="1 image cannot be read .*bomb.png in bomb.zip: it has 314,572,800 bytes"):
        open_images(f"folder:{tmp_path / 'bomb.zip'}", SIZE, cache=tmp_path / "cache")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_tars_that_end_too_early(tmp_path, mode):
    content = making.tar_bytes(as_files(SOURCE), mode)
    (tmp_path / "archive.tar").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(TPNError, match="archive.tar is damaged"):
        open_images(f"folder:{tmp_path / 'archive.tar'}", SIZE, cache=tmp_path / "cache")


def test_zips_with_a_damaged_entry_or_end(tmp_path):
    path = making.write_zip(tmp_path / "archive.zip", as_files(SOURCE))
    content = bytearray(path.read_bytes())
    content[60:80] = bytes(20)
    path.write_bytes(content)
    with pytest.warns(TPNWarning, match="1 image cannot be read .*cat/0.png in archive.zip: damaged"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TPNError, match="not .* a zip archive"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")


def test_an_archive_that_is_a_web_page(tmp_path):
    (tmp_path / "mini.zip").write_bytes(b"<html><body>Quota exceeded</body></html>")
    with pytest.raises(TPNError, match="mini.zip is not an archive: it is a web page"):
        open_images(f"mini-imagenet:{tmp_path / 'mini.zip'}", SIZE, cache=tmp_path / "cache")


@pytest.mark.parametrize("name", ["Füße", "猫", "кот", "قط", "a b'c\"d", "x" * 100, "-dash", "%s {}", "new\nline"])
def test_names_in_any_language(tmp_path, name):
    source = {"train": {name: SOURCE["train"]["cat"]}, "test": SOURCE["test"]}
    for write, path in ((making.write_folder, "own"), (making.write_zip, "own.zip"), (making.write_tar, "own.tar")):
        images = open_images(f"folder:{write(tmp_path / path, as_files(source))}", SIZE, cache=tmp_path / "cache")
        assert images.split("train").classes == (name,)
        again = open_images(f"folder:{tmp_path / path}", SIZE, cache=tmp_path / "cache")
        np.testing.assert_array_equal(again.split("train").images, source["train"][name])


def test_names_that_are_no_text(tmp_path):
    root = making.write_folder(tmp_path / "own", as_files(SOURCE))
    folder = os.fsencode(root) + b"/train/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/\xe9.png", "wb") as stream:
        stream.write(encode(SOURCE["train"]["cat"][0][::-1]))
    images = open_images(f"folder:{root}", SIZE, cache=tmp_path / "cache")
    assert images.info()["train"].classes == 3


def test_a_folder_beside_the_splits_is_no_class(own):
    with pytest.warns(TPNWarning, match="1 folder .* left out: runs"):
        images = own({"runs/config.json": b"{}", "runs/curve.png": encode(SOURCE["val"]["cow"][0])})
    assert images.split("train").classes == ("cat", "dog")


def test_names_that_look_alike_stay_apart(tmp_path):
    root = making.write_folder(tmp_path / "own", as_files(SOURCE))
    for name in (b"c\xff", b"c\xfe"):
        os.mkdir(os.fsencode(root / "train") + b"/" + name)
        with open(os.fsencode(root / "train") + b"/" + name + b"/1.png", "wb") as stream:
            stream.write(encode(SOURCE["train"]["cat"][0][:, ::-1]))
    images = open_images(f"folder:{root}", SIZE, cache=tmp_path / "cache")
    assert images.split("train").classes == ("c\\udcfe", "c\\udcff", "cat", "dog")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/p\xff")
    root.rename(odd)
    assert open_images(f"folder:{odd}", SIZE, cache=tmp_path / "cache").info()["train"].images == 10


@pytest.mark.filterwarnings(MINI)
def test_rows_that_name_a_path_mean_that_file(tmp_path):
    source = make_images(2, classes={"train": ["a", "b"], "val": ["c"], "test": ["d"]})
    files = {f"images/{name.partition('/')[2]}": content for name, content in as_files(source).items()}
    for split, classes in source.items():
        rows = [f"{name}/{index}.png,{name}" for name in classes for index in range(2)]
        files[f"{split}.csv"] = "\r\n".join(["filename, label", *rows]).encode()
    images = open_images(f"mini-imagenet:{making.write_zip(tmp_path / 'm.zip', files)}", SIZE, cache=tmp_path / "cache")
    for split, classes in source.items():
        np.testing.assert_array_equal(images.split(split).images, np.concatenate([*map(np.stack, classes.values())]))
    files["train.csv"] = b"filename,label\n0.png,a\n"
    with pytest.raises(TPNError, match="several images .* images/a/0.png and images/d/0.png"):
        open_images(f"mini-imagenet:{making.write_zip(tmp_path / 'n.zip', files)}", SIZE, cache=tmp_path / "cache")


@pytest.mark.filterwarnings(MINI)
@pytest.mark.filterwarnings("ignore:.*are missing:tpn.errors.TPNWarning")
def test_the_validation_images_of_ilsvrc_are_left_alone(tmp_path):
    names, rng = ["n01530575", "n02099267", "n03314780"], np.random.default_rng(0)
    files = {f"{part}/{name}/{i}.png": encode(making.smooth(rng, 9))
             for part, count in (("train", 3), ("val", 2)) for name in names for i in range(count)}  # fmt: skip
    root = making.write_folder(tmp_path / "ilsvrc", files)
    images = open_images(f"tiered-imagenet:{root}", 9, cache=tmp_path / "cache")
    assert {split.images for split in images.info().values()} == {3}


def test_links_to_the_same_folder_are_both_followed(own, tmp_path):
    making.write_folder(tmp_path / "own", as_files(SOURCE))
    (tmp_path / "own/train/also").symlink_to(tmp_path / "own/train/cat")
    assert own({}).split("train").classes == ("also", "cat", "dog")


@pytest.mark.filterwarnings(MINI)
def test_a_tar_of_npz_files_is_a_tar_and_dots_before_names_do_not_hide(tmp_path):
    files = {}
    for split in ("train", "val", "test"):
        stream = io.BytesIO()
        np.savez(stream, images=np.full((2, SIZE, SIZE, 3), len(split), np.uint8))
        files[f"{split}_images.npz"] = stream.getvalue()
        files[f"{split}_labels.pkl"] = pickled({"label_specific": np.array([0, 1])})
    path = making.write_tar(tmp_path / "t.tar", files)
    images = open_images(f"tiered-imagenet:{path}", SIZE, cache=tmp_path / "c")
    assert images.split("val").classes == ("val class 000", "val class 001")
    dotted = making.write_zip(
        tmp_path / "dots.zip", {f"./{name}": content for name, content in as_files(SOURCE).items()}
    )
    assert open_images(f"folder:{dotted}", SIZE, cache=tmp_path / "c").info()["train"].images == 8


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 20, 20, 3), }", "expected images"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (3, -20, 20, 3), }", "expected images"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 20, 20, 3)", "is damaged"),
        ("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 20, 20, 3), }", "Fortran order"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "expected images"),
        ("  (((", "is damaged"),
    ],
)
def test_npz_files_with_a_bad_header(tmp_path, header, complaint):
    text = header.encode().ljust(117) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(50)
    with zipfile.ZipFile(tmp_path / "train_images.npz", "w") as archive:
        archive.writestr("images.npy", content)
    (tmp_path / "train_labels.pkl").write_bytes(pickled({"label_specific": np.zeros(3, int)}))
    with pytest.raises(TPNError, match=complaint):
        open_images(f"tiered-imagenet:{tmp_path}", SIZE, cache=tmp_path.parent / "cache")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"labels": [0.0, 0.5]}, "is damaged"),
        ({"labels": ["a", "b"]}, "not an array of numbers"),
        ({"labels": [0]}, "2 images and 1 labels"),
        ({"catname2label": {"a": [1]}}, "does not give each class a number of its own"),
        ({"catname2label": {"a": 0, "b": 0}}, "does not give each class a number of its own"),
    ],
)
def test_category_pickles_with_something_else(tmp_path, changes, complaint):
    for file in ("train_phase_train", "val", "test"):
        content = {"data": np.zeros((2, SIZE, SIZE, 3), np.uint8), "labels": [0, 1], **changes}
        (tmp_path / f"miniImageNet_category_split_{file}.pickle").write_bytes(pickled(content))
    with pytest.raises(TPNError, match=complaint):
        open_images(f"mini-imagenet:{tmp_path}", SIZE, cache=tmp_path.parent / "cache")


def test_paths_that_lead_nowhere(tmp_path, own):
    (tmp_path / "circle").symlink_to("circle")
    for path in ("~nobody-of-that-name/x", str(tmp_path / "circle")):
        with pytest.raises(TPNError, match="cannot be resolved|does not exist"):
            open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    with pytest.raises(TPNError, match="cannot be resolved"):
        open_images("folder:x", SIZE, cache=Path("~nobody-of-that-name/x"))
    making.write_folder(tmp_path / "own", as_files(SOURCE))
    with pytest.raises(TPNError, match="lies among the images"):
        open_images(f"folder:{tmp_path / 'own'}", SIZE, cache=tmp_path / "own" / "cache")
