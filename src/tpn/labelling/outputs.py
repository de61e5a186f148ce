"""What labelling a folder writes: planned and checked before the work begins."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tpn.errors import TPNError
from tpn.files import check_target, resolved
from tpn.labelling.exports import Export
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.sorting import check_sorting, sort_images
from tpn.leftovers import remove_leftovers


@dataclass(frozen=True)
class Outputs:
    """The files and folders to be written."""

    files: dict[str, Path]
    """out, suggestions, page -> file."""
    copy_to: Path | None = None
    link_to: Path | None = None
    exports: tuple[Export, ...] = ()

    def check(self, read: Iterable[Path], force: bool) -> None:
        """Refuse a path that cannot be written, has two uses, or exists (unless `force`)."""
        exported = [export.path for export in self.exports]
        written = [*self.files.values(), *filter(None, (self.copy_to, self.link_to)), *exported]
        uses = Counter(map(os.path.realpath, written)) + Counter(set(map(os.path.realpath, read)))
        for path in self.files.values():
            check_target(path)
        for path in written:
            if uses[os.path.realpath(path)] > 1:
                raise TPNError(f"{path} would be used twice: choose another --out, --page, --copy-to or --export.")
        for path in self.files.values():
            if path.is_file() and not force:
                raise TPNError(f"{path} exists: choose another --out, or replace it with --force.")

    def check_apart_from(self, folder: Path, names: Iterable[str], force: bool = False) -> None:
        """Refuse a path that would harm the images."""
        images = {os.path.join(folder, name) for name in names}
        for path in [*self.files.values(), *(export.path for export in self.exports if not export.folder)]:
            if os.path.realpath(path) in images:
                raise TPNError(f"{path} is one of the images: choose another --out, --page or --export.")
        for export in self.exports:
            export.check(folder, force)
        for target in filter(None, (self.copy_to, self.link_to)):
            check_sorting(target, folder)

    def write(self, labels: FolderLabels) -> None:
        """Write everything, and remove what a killed process left of writing the same."""
        for path in (*self.files.values(), *filter(None, (self.copy_to, self.link_to))):
            remove_leftovers(resolved(path))
        writers = {"page": labels.write_page, "suggestions": labels.write_suggestions, "out": labels.write_csv}
        for name, write in writers.items():  # the labels last: whoever waits for them finds the rest, too
            if name in self.files:
                write(self.files[name])
        if self.copy_to is not None:
            sort_images(labels, self.copy_to, "copy")
        if self.link_to is not None:
            sort_images(labels, self.link_to, "link")
        for export in self.exports:
            export.write(labels)


def plan_outputs(
    out: Path | None,
    page: Path | None,
    with_page: bool,
    with_suggestions: bool,
    copy_to: Path | None,
    link_to: Path | None,
    exports: Iterable[Export] = (),
) -> Outputs:
    """Decide what to write where: the page and the list of suggestions lie beside `out`, if nothing else is said."""
    files = {}
    if out is not None:
        check_target(out)
        files["out"] = out
        if with_suggestions:
            files["suggestions"] = out.with_name(f"{out.stem}-suggestions.csv")
        page = page or out.with_suffix(".html")
    if with_page and page is not None:
        files["page"] = page
    return Outputs(files, copy_to, link_to, tuple(exports))
