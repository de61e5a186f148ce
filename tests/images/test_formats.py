"""Every form that miniImageNet, tieredImageNet and own folders come in gives back the images that were put in."""

import io
import json
import pickle

import numpy as np
import pytest

from tests.images import making
from tests.images.making import SIZE, SPLIT_CLASSES, as_files, cache_content, encode, make_images, pickled
from tpn.errors import TPNError, TPNWarning
from tpn.images.mini_imagenet import read_lists as ravi_lists
from tpn.images.opening import open_images
from tpn.images.tiered_imagenet import read_lists as tiered_lists

SOURCE = make_images()
TIERED = {"train": ["n01530575", "n01531178"], "val": ["n02099267", "n02099429"], "test": ["n03314780", "n07565083"]}

pytestmark = pytest.mark.filterwarnings("ignore:.*not the complete:tpn.errors.TPNWarning")


def check(spec, expected, tmp_path, size=SIZE):
    """The store of a source holds exactly these images."""
    images = open_images(spec, size, cache=tmp_path / "cache")
    assert list(images.info()) == list(expected)
    for split, classes in expected.items():
        found = images.split(split)
        assert found.classes == tuple(sorted(classes))
        for index, name in enumerate(found.classes):
            rows = found.images[found.starts[index] : found.starts[index + 1]]
            np.testing.assert_array_equal(rows, np.stack(classes[name]), err_msg=f"{split} {name}")
    return images


def check_mini(path, expected, tmp_path, **options):
    return check(f"mini-imagenet:{path}", expected, tmp_path, **options)


@pytest.mark.parametrize("wrapped", ["", "mini-imagenet/"])
@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tar.gz", "tar.xz"])
def test_mini_imagenet_with_csv_lists(tmp_path, form, wrapped):
    files, kept = making.ravi_files(SOURCE)
    files = {wrapped + name: content for name, content in files.items()}
    path = tmp_path / f"mini.{form}"
    if form == "folder":
        making.write_folder(path, files)
    elif form == "zip":
        making.write_zip(path, files)
    else:
        making.write_tar(path, files, "w:" + form.partition(".")[2])
    images = check_mini(path, kept, tmp_path)
    assert "Ravi" in images.layout


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_mini_imagenet_with_folders_of_splits(tmp_path, form):
    files = as_files(SOURCE)
    write = {"folder": making.write_folder, "zip": making.write_zip, "tar": making.write_tar}[form]
    check_mini(write(tmp_path / "mini", files), SOURCE, tmp_path)


@pytest.mark.parametrize("protocol", range(6))
def test_mini_imagenet_as_cache_pickles(tmp_path, protocol):
    for split, classes in SOURCE.items():
        pixels, places = cache_content(classes)
        content = pickled({"image_data": pixels, "class_dict": places}, protocol)
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(content)
    check_mini(tmp_path, SOURCE, tmp_path.parent)
    one_of_them = tmp_path / "mini-imagenet-cache-val.pkl"
    check_mini(one_of_them, SOURCE, tmp_path.parent)


def test_mini_imagenet_as_cache_pickles_of_python_2(tmp_path):
    files = {}
    for split, classes in SOURCE.items():
        pixels, places = cache_content(classes)
        lists = {name.encode(): making.py2_list(list(map(making.py2_int, keys))) for name, keys in places.items()}
        content = {b"image_data": making.py2_array(pixels), b"class_dict": making.py2_dict(lists)}
        files[f"mini-imagenet-cache-{split}.pkl"] = making.py2_pickle(making.py2_dict(content))
    reference = pickle.loads(files["mini-imagenet-cache-val.pkl"], encoding="bytes")  # ours: it may be trusted
    np.testing.assert_array_equal(reference[b"image_data"], cache_content(SOURCE["val"])[0])
    check_mini(making.write_folder(tmp_path / "folder", files), SOURCE, tmp_path)
    check_mini(making.write_zip(tmp_path / "mini.zip", files), SOURCE, tmp_path)


@pytest.mark.parametrize("names", [True, False])
def test_mini_imagenet_as_category_split_pickles(tmp_path, names):
    expected = {}
    for split, classes in SOURCE.items():
        pixels, places = cache_content(classes)
        numbers = {name: 64 + index for index, name in enumerate(classes)}
        labels = [numbers[name] for place in range(len(pixels)) for name in classes if place in places[name]]
        content = {"data": pixels, "labels": labels}
        if names:
            content["catname2label"] = numbers
        file = "train_phase_train" if split == "train" else split
        (tmp_path / f"miniImageNet_category_split_{file}.pickle").write_bytes(pickled(content, 2))
        expected[split] = classes if names else {f"{split} class {numbers[name]:03}": classes[name] for name in classes}
    for phase in ("val", "test"):  # these belong to it as well, and are not needed
        (tmp_path / f"miniImageNet_category_split_train_phase_{phase}.pickle").write_bytes(b"not read")
    check_mini(tmp_path, expected, tmp_path.parent)


def ilsvrc_make_images(classes, files=30):
    rng = np.random.default_rng(1)
    return {name: {f"{name}_{100 + rank}.JPEG": making.smooth(rng, SIZE) for rank in range(files)} for name in classes}


def ilsvrc_as(form, root, classes):
    files = {
        name: {file: encode(pixels, "PNG") for file, pixels in reversed(items.items())}
        for name, items in classes.items()
    }
    if form == "tar of tars":
        return making.write_tar(
            root / "ILSVRC2012_img_train.tar", {f"{n}.tar": making.tar_bytes(f) for n, f in files.items()}
        )
    if form == "folder of tars":
        return making.write_folder(root / "train", {f"{n}.tar": making.tar_bytes(f) for n, f in files.items()})
    flat = {f"ILSVRC/Data/CLS-LOC/train/{n}/{file}": content for n, f in files.items() for file, content in f.items()}
    flat["ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG"] = b"not looked at"
    return making.write_folder(root / "imagenet", flat)


@pytest.mark.parametrize("form", ["tar of tars", "folder of tars", "folder"])
@pytest.mark.filterwarnings("ignore:.*(are missing|benchmark):tpn.errors.TPNWarning")
def test_mini_imagenet_cut_from_ilsvrc(tmp_path, form):
    names = [*SPLIT_CLASSES["train"], *SPLIT_CLASSES["val"], *SPLIT_CLASSES["test"], "n01440764"]  # one is not of it
    classes = ilsvrc_make_images(names)
    expected = {
        split: {
            name: [
                pixels for rank, (_, pixels) in enumerate(sorted(classes[name].items()), 1)
                if rank in RAVI_RANKS[name]
            ]
            for name in of_split
        }
        for split, of_split in SPLIT_CLASSES.items()
    }  # fmt: skip
    check_mini(ilsvrc_as(form, tmp_path, classes), expected, tmp_path)


RAVI_RANKS = {
    "n01532829": {5, 6, 7, 10, 14, 15, 16, 17, 18, 19, 20, 21, 23, 28},
    "n01558993": {1, 2, 3, 5, 6, 8, 12, 13, 15, 17, 18, 20, 21, 24, 25, 29},
    "n01704323": {3, 5, 6, 7, 8, 9, 14, 19, 20, 25, 26, 27, 28, 30},
    "n01855672": {3, 4, 10, 13, 16, 17, 19, 20, 21, 22, 23, 24, 27, 28},
    "n02091244": {2, 5, 12, 13, 14, 15, 16, 17, 18, 23, 24, 25, 26, 28, 30},
    "n01930112": {1, 4, 5, 6, 8, 11, 12, 13, 14, 17, 20, 22, 23, 25, 28},
    "n01981276": {2, 5, 7, 8, 9, 11, 14, 17, 20, 24, 25, 28, 29},
}
"""Ranks up to 30 in the file names of the original csv lists."""


def test_the_lists_are_whole():
    lists = ravi_lists()
    assert {split: len(classes) for split, classes in lists.items()} == {"train": 64, "val": 16, "test": 20}
    assert all(
        len(set(ranks)) == 600 and min(ranks) >= 1 and max(ranks) <= 1300
        for s in lists.values()
        for ranks in s.values()
    )
    tiered = tiered_lists()
    assert {split: len(classes) for split, classes in tiered.items()} == {"train": 351, "val": 97, "test": 160}
    assert {split: len(set(c.values())) for split, c in tiered.items()} == {"train": 20, "val": 6, "test": 8}
    every = [name for classes in tiered.values() for name in classes]
    assert len(set(every)) == 608


def tiered_labels(classes, protocol=2):
    names = list(classes)
    labels = np.concatenate([np.full(len(items), index) for index, items in enumerate(classes.values())])
    content = {
        "label_specific": labels,
        "label_general": np.zeros_like(labels),
        "label_specific_str": names,
        "label_general_str": ["something"],
    }
    return pickled(content, protocol)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tiered_imagenet_as_png_pickles(tmp_path, protocol):
    source = make_images(classes=TIERED)
    for split, classes in source.items():
        every = [np.frombuffer(encode(p), np.uint8)[:, None] for items in classes.values() for p in items]
        (tmp_path / f"{split}_images_png.pkl").write_bytes(pickled(every, protocol))
        (tmp_path / f"{split}_labels.pkl").write_bytes(tiered_labels(classes, protocol))
    images = check(f"tiered-imagenet:{tmp_path}", source, tmp_path.parent)
    assert images.info()["train"].categories == 1
    assert images.split("train").labelled_share == 0.1


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_tiered_imagenet_as_npz(tmp_path, save, form):
    source, files = make_images(classes=TIERED), {}
    for split, classes in source.items():
        stream = io.BytesIO()
        save(stream, images=np.stack([pixels for items in classes.values() for pixels in items]))
        files[f"{split}_images.npz"] = stream.getvalue()
        files[f"{split}_labels.pkl"] = tiered_labels(classes)
    write = {"folder": making.write_folder, "zip": making.write_zip}[form]
    check(f"tiered-imagenet:{write(tmp_path / 'tiered', files)}", source, tmp_path)


def test_tiered_imagenet_with_labels_of_python_2(tmp_path):
    source = make_images(classes=TIERED)
    for split, classes in source.items():
        np.savez(tmp_path / f"{split}_images.npz", images=np.stack([p for items in classes.values() for p in items]))
        labels = np.repeat(np.arange(len(classes)), 3)
        names = making.py2_list([making.py2_string(name.encode()) for name in classes])
        content = {b"label_specific": making.py2_array(labels), b"label_specific_str": names}
        (tmp_path / f"{split}_labels.pkl").write_bytes(making.py2_pickle(making.py2_dict(content)))
    check(f"tiered-imagenet:{tmp_path}", source, tmp_path.parent)


def test_tiered_imagenet_with_folders_of_splits(tmp_path):
    source = make_images(classes=TIERED)
    path = making.write_tar(
        tmp_path / "tiered.tar", {f"./{name}": content for name, content in as_files(source).items()}
    )
    images = check(f"tiered-imagenet:{path}", source, tmp_path)
    assert images.info()["val"].categories == 1


@pytest.mark.parametrize("form", ["tar of tars", "folder"])
@pytest.mark.filterwarnings("ignore:.*(are missing):tpn.errors.TPNWarning")
def test_tiered_imagenet_cut_from_ilsvrc(tmp_path, form):
    names = [name for of_split in TIERED.values() for name in of_split]
    classes = ilsvrc_make_images(names, files=4)
    expected = {
        split: {name: [pixels for _, pixels in sorted(classes[name].items())] for name in of_split}
        for split, of_split in TIERED.items()
    }
    check(f"tiered-imagenet:{ilsvrc_as(form, tmp_path, classes)}", expected, tmp_path)


def test_an_own_folder_with_splits(tmp_path):
    source = make_images(classes={"train": ["Katze", "猫"], "val": ["кот"], "test": ["gato negro", 'chat "noir"']})
    check(f"folder:{making.write_folder(tmp_path / 'own', as_files(source))}", source, tmp_path)
    check(
        f"folder:{making.write_zip(tmp_path / 'own.zip', {f'own/{n}': c for n, c in as_files(source).items()})}",
        source,
        tmp_path,
    )


def class_folders(count=10):
    return make_images(2, classes={"all": [f"class {i}" for i in range(count)]})["all"]


def folders_of(classes):
    return {f"{name}/{i}.png": encode(pixels) for name, items in classes.items() for i, pixels in enumerate(items)}


def test_an_own_folder_of_classes_is_divided_by_a_seed(tmp_path):
    classes = class_folders(25)
    path = making.write_folder(tmp_path / "own", folders_of(classes))
    divisions = {}
    for seed in (0, 1, 0):
        images = open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache", class_seed=seed)
        assert {name: split.classes for name, split in images.info().items()} == {"train": 16, "val": 4, "test": 5}
        division = {split: images.split(split).classes for split in images.info()}
        assert sorted(sum(division.values(), ())) == sorted(classes)
        assert divisions.setdefault(seed, division) == division
        check_contents(images, classes)
    assert divisions[0] != divisions[1]


def check_contents(images, classes):
    for name in images.info():
        split = images.split(name)
        for index, class_ in enumerate(split.classes):
            np.testing.assert_array_equal(split.images[split.starts[index] : split.starts[index + 1]], classes[class_])


@pytest.mark.parametrize("form", ["splits.json", "splits.csv"])
def test_an_own_folder_divided_by_a_list(tmp_path, form):
    classes, named = class_folders(5), {"train": ["class 3", "class 0"], "val": ["class 4"], "test": ["class 1"]}
    files = folders_of(classes)
    rows = [f"{name},{split}" for split, names in named.items() for name in names]
    files[form] = json.dumps(named).encode() if form.endswith("json") else "\n".join(["class,split", *rows]).encode()
    path = making.write_folder(tmp_path / "own", files)
    with pytest.warns(TPNWarning, match="1 class is in no split and is left out: 'class 2'"):
        images = open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    assert {split: sorted(images.split(split).classes) for split in named} == {s: sorted(n) for s, n in named.items()}
    check_contents(images, classes)
    with pytest.raises(TPNError, match="strict .* 1 class is in no split"):
        open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache", strict=True)


def test_what_is_none_of_the_forms_is_refused(tmp_path):
    making.write_folder(tmp_path / "other", {"a/b.txt": b"x"})
    for kind in ("mini-imagenet", "tiered-imagenet"):
        with pytest.raises(TPNError, match=f"none of the layouts of {kind}: .* a/b.txt"):
            open_images(f"{kind}:{tmp_path / 'other'}", cache=tmp_path / "cache")
    with pytest.raises(TPNError, match="does not exist"):
        open_images(f"mini-imagenet:{tmp_path / 'nowhere'}", cache=tmp_path / "cache")
    (tmp_path / "text.zip").write_text("hello, this is no archive")
    with pytest.raises(TPNError, match="zip archive or a tar archive"):
        open_images(f"mini-imagenet:{tmp_path / 'text.zip'}", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists() or not any(p.is_dir() for p in (tmp_path / "cache").iterdir())
