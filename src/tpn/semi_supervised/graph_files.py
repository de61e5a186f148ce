"""The graph as a folder of .npy files, which are opened memory-mapped: nothing in it executes code when loaded."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tpn.errors import TPNError
from tpn.files import make_folder, read_json, replacing, write_json
from tpn.semi_supervised.copies import Nodes
from tpn.semi_supervised.feature_scaling import SafeRange
from tpn.semi_supervised.point_graph import PointGraph
from tpn.semi_supervised.sparse_graph import Graph

DESCRIPTION = "graph.json"
FORMAT = 2
"""Format 1 had no candidates: such a graph is not learned."""
CHECKED_BYTES = 2**30
"""Files of at most this many bytes in all are checked against their digests; of larger ones only what is cheap."""


def save_graph(graph: PointGraph, folder: Path, details: dict[str, Any], extra: dict[str, np.ndarray | None]) -> None:
    """Write a graph, details that JSON can express, and more arrays. The description comes last."""
    arrays: dict[str, np.ndarray | None] = {
        **_parts("points", graph.points),
        **_parts("S", graph.graph.S),
        "root": graph.graph.root,
        "component": graph.graph.component,
        "scales": graph.scales,
        "first": graph.nodes.first,
        "node_of": graph.nodes.node_of,
        "mass": graph.nodes.mass,
        "candidates": graph.candidates,
        **extra,
    }
    kept = {name: np.ascontiguousarray(values) for name, values in arrays.items() if values is not None}
    make_folder(folder)
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name, values in kept.items():
        with replacing(folder / f"{name}.npy") as stream:
            np.save(stream, values, allow_pickle=False)
    description = {
        "format": FORMAT,
        "arrays": {name: [values.dtype.str, values.shape, _digest(values)] for name, values in kept.items()},
        "shape": graph.points.shape,
        "factor": graph.range.factor,
        "common_scale": graph.common_scale,
        "metric": graph.metric,
        "n_neighbors": graph.n_neighbors,
        "search": graph.search,
        **details,
    }
    write_json(folder / DESCRIPTION, description)


def open_graph(folder: Path, n_jobs: int | None) -> tuple[PointGraph, dict[str, Any], dict[str, np.ndarray]]:
    """Open a graph that was saved, with its details and arrays; what does not fit is refused."""
    if not (folder / DESCRIPTION).is_file():
        raise TPNError(
            f"{folder} holds no graph: there is no file {DESCRIPTION}. LabelPropagator.save_graph writes one."
        )
    content = read_json(folder / DESCRIPTION)
    if content.get("format") not in (1, FORMAT):
        raise TPNError(f"{folder / DESCRIPTION} has format {content.get('format')!r}; this version reads {FORMAT}.")
    try:
        arrays = {str(name): _open(folder / f"{name}.npy", *facts) for name, facts in content["arrays"].items()}
        if sum(values.nbytes for values in arrays.values()) <= CHECKED_BYTES:
            for name, values in arrays.items():
                if _digest(values) != content["arrays"][name][2]:
                    raise ValueError(f"{name}.npy is damaged")
        shape = tuple(content["shape"])
        number = int(shape[0])
        points = _joined("points", arrays, shape)
        S = _joined("S", arrays, (number, number))
        nodes = Nodes(arrays.get("first"), arrays.get("node_of"), arrays.get("mass"))
        in_range = SafeRange.with_factor(float(content["factor"]))
        graph = PointGraph(
            nodes,
            points,
            Graph(S, _sized(arrays["root"], number), _sized(arrays["component"], number)),
            _sized(arrays["scales"], number),
            content["common_scale"],
            in_range,
            content["metric"],
            content["n_neighbors"],
            content["search"],
            n_jobs,
            _candidates(arrays.get("candidates"), number),
        )
    except (KeyError, TypeError, ValueError, OSError, EOFError, IndexError) as failure:
        raise TPNError(f"The graph in {folder} cannot be used: {failure}. Save it again with save_graph.") from failure
    return graph, content, arrays


def _parts(name: str, values: Any) -> dict[str, np.ndarray]:
    if not sparse.issparse(values):
        return {name: values}
    return {f"{name}-data": values.data, f"{name}-indices": values.indices, f"{name}-indptr": values.indptr}


def _joined(name: str, arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> Any:
    """Return points, or a sparse matrix whose indices are checked: SciPy would read anywhere in memory."""
    if name in arrays:
        if arrays[name].shape != shape:
            raise ValueError(f"{name}.npy has the shape {arrays[name].shape}, not {shape}")
        return arrays[name]
    data, indices, indptr = (arrays[f"{name}-{part}"] for part in ("data", "indices", "indptr"))
    sound = len(indptr) == shape[0] + 1 and indptr[0] == 0 and indptr[-1] == len(data) == len(indices)
    if (
        not sound
        or (np.diff(indptr) < 0).any()
        or (len(indices) and not 0 <= indices.min() <= indices.max() < shape[1])
    ):
        raise ValueError(f"the files {name}-*.npy do not fit together")
    if len(data) and not np.isfinite([data.min(), data.max()]).all():
        raise ValueError(f"{name}-data.npy holds numbers that are not finite")
    return sparse.csr_array((data, indices, indptr), shape=shape, copy=False)


def _open(file: Path, dtype: str, shape: list[int], digest: int) -> np.ndarray:
    values = np.load(file, mmap_mode="r", allow_pickle=False)
    if values.dtype.str != dtype or list(values.shape) != list(shape):
        raise ValueError(f"{file.name} holds {values.shape} of {values.dtype}, not {tuple(shape)} of {dtype}")
    return np.asarray(values)


def _candidates(values: np.ndarray | None, number: int) -> np.ndarray | None:
    """Return the candidates of a learned graph, if there are any and all of them are nodes."""
    if values is not None and (
        values.ndim != 2 or (values.size and not 0 <= values.min() <= values.max() < number) or values.dtype.kind != "i"
    ):
        raise ValueError("candidates.npy does not fit the points")
    return values if values is None else _sized(values, number)


def _sized(values: np.ndarray, number: int) -> np.ndarray:
    if len(values) != number:
        raise ValueError(f"an array has {len(values)} rows, not {number}")
    return values


def _digest(values: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).view(np.uint8).reshape(-1).data) if values.size else 0
