"""Labels as JSON of other tools: COCO-style annotations of whole images, and tasks of Label Studio."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tpn.errors import TPNError
from tpn.labelling.labelled_rows import LabelledRow
from tpn.text import as_text

LARGEST_FILE = 2**30
LOCAL_FILES = "/data/local-files/?d="
"""How Label Studio addresses a file below its LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""


def as_coco(rows: list[LabelledRow], classes: list[str]) -> dict[str, Any]:
    """Return labels as COCO has them, without boxes: images, categories, and an annotation for each labelled image.

    Labels that were given have the score 1; guesses have their confidence.
    """
    numbers = {name: number for number, name in enumerate(classes, 1)}
    annotations = [
        {"id": index, "image_id": index, "category_id": numbers[row.label], "score": round(row.confidence, 4)}
        for index, row in enumerate(rows, 1)
        if row.label
    ]
    return {
        "info": {"description": "Labels of whole images, by tpn"},
        "images": [{"id": index, "file_name": as_text(row.path)} for index, row in enumerate(rows, 1)],
        "categories": [{"id": number, "name": name} for name, number in numbers.items()],
        "annotations": annotations,
    }


def as_label_studio(rows: list[LabelledRow]) -> list[dict[str, Any]]:
    """Return labels as tasks of Label Studio: given labels are annotations, guesses are predictions with a score."""
    tasks = []
    for index, row in enumerate(rows, 1):
        task: dict[str, Any] = {"id": index, "data": {"image": LOCAL_FILES + quote(as_text(row.path))}}
        if row.label:
            choice = {"from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": [row.label]}}
            if row.given:
                task["annotations"] = [{"result": [choice]}]
            else:
                task["predictions"] = [{"model_version": "tpn", "score": round(row.confidence, 4), "result": [choice]}]
        tasks.append(task)
    return tasks


def read_json_labels(file: Path) -> list[tuple[int, str, str]]:
    """Return entry number, path and label of the labels in a JSON file of either kind; guesses are left out."""
    try:
        if file.stat().st_size > LARGEST_FILE or not file.is_file():
            raise TPNError(f"{file} is too large, or not a file.")
        content = json.loads(file.read_bytes())
    except OSError as failure:
        raise TPNError(f"Cannot read {file}: {failure.strerror or failure}.") from failure
    except (ValueError, RecursionError) as failure:
        raise TPNError(f"{file} is not JSON: {failure}.") from failure
    try:
        if isinstance(content, dict) and "annotations" in content:
            return _from_coco(content)
        if isinstance(content, list):
            return _from_label_studio(content)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as failure:
        raise TPNError(f"{file} is neither COCO-style JSON nor an export of Label Studio: {failure!r}.") from failure
    raise TPNError(f"{file} is neither COCO-style JSON (images, categories, annotations) nor tasks of Label Studio.")


def _from_coco(content: dict[str, Any]) -> list[tuple[int, str, str]]:
    images = {image["id"]: str(image["file_name"]) for image in content["images"]}
    categories = {category["id"]: str(category["name"]) for category in content["categories"]}
    return [
        (number, images[one["image_id"]], categories[one["category_id"]])
        for number, one in enumerate(content["annotations"], 1)
        if float(one.get("score", 1)) >= 1
    ]


def _from_label_studio(tasks: list[Any]) -> list[tuple[int, str, str]]:
    """Read the exports "JSON" (results of annotations) and "JSON-MIN" (the choice beside the image)."""
    found = []
    for number, task in enumerate(tasks, 1):
        data = task.get("data", task)
        path = image_path(str(data["image"]))
        if "data" not in task:
            choice = next((task[name] for name in ("label", "choice") if name in task), None)
            found += [(number, path, str(choice))] if isinstance(choice, str) else []
            continue
        for annotation in task.get("annotations", [])[-1:]:  # the last one is the user's last word
            choices = [one["value"]["choices"] for one in annotation["result"] if one.get("type") == "choices"]
            found += [(number, path, str(chosen[0])) for chosen in choices[:1] if chosen]
    return found


def image_path(address: str) -> str:
    """Return the path of an image in Label Studio's data: a path, or the address of a local file."""
    parts = urlsplit(address)
    if "d" in (query := parse_qs(parts.query)):
        return query["d"][0]
    return address
