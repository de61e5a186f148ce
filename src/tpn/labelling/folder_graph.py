"""The graph of a folder's images, and how it is kept: a second start on the same folder need not build it again."""

import hashlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.files import make_folder, read_json, replacing, write_json
from tpn.labelling.feature_cache import facts_of
from tpn.labelling.session_engine import Engine, QuietPropagator
from tpn.labelling.session_neighbours import NEIGHBOURS, find_neighbours, near_duplicates
from tpn.semi_supervised.feature_scaling import FeatureScaler
from tpn.semi_supervised.label_propagator import LabelPropagator

FORMAT = 1
DESCRIPTION, ARRAYS, MAP, GRAPH = "folder-graph.json", "points.npz", "map.npz", "graph"
OF_THE_GRAPH = ("n_neighbors", "length_scale", "metric", "search", "learn_graph")
"""Parameters of LabelPropagator that a graph depends on."""
DEFAULTS: dict[str, Any] = {}
GRAPHS = "graphs"
"""The folder in the cache that holds graphs of folders."""


@dataclass
class FolderGraph:
    """The images of a folder that can be read, as points of a graph."""

    rows: np.ndarray
    """The numbers of these images among all of the folder, ascending."""
    points: np.ndarray
    """Their scaled features."""
    engine: Engine
    neighbours: np.ndarray | None = None
    """The nearest images of each; None for a graph that will be replaced as more features arrive."""
    places: np.ndarray | None = None
    """Their places on the map, if that has been drawn."""

    @classmethod
    def build(cls, features: np.ndarray, rows: np.ndarray, n_jobs: int, complete: bool) -> "FolderGraph":
        """Scale the features of these images, and connect each with its neighbours."""
        points = FeatureScaler().fit_transform(features[rows])
        graph = cls.of_points(points, rows, {"n_jobs": n_jobs}, complete)
        graph.engine.connect()
        return graph

    @classmethod
    def of_points(
        cls, points: np.ndarray, rows: np.ndarray, parameters: dict[str, Any], complete: bool = True
    ) -> "FolderGraph":
        """Return a graph of scaled features, with parameters of LabelPropagator; the first labels connect it."""
        neighbours = groups = None
        if complete:
            squares, neighbours = find_neighbours(points, parameters.get("n_jobs"))
            groups = near_duplicates(squares, neighbours, points.shape[1])
        return cls(rows, points, Engine(points, parameters, groups), neighbours)


class KeptGraph:
    """A folder that keeps a graph, with what it was made from. Whatever does not fit or is damaged is built again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, source: str, n_jobs: int, parameters: dict[str, Any] = DEFAULTS) -> FolderGraph | None:
        """Return the graph that was made from this source with these parameters, if there is one."""
        try:
            if read_json(self.folder / DESCRIPTION) != _description(source, parameters):
                return None
            kept = _read(self.folder / ARRAYS)
            groups = kept.get("groups")
            others = {name: value for name, value in parameters.items() if name not in OF_THE_GRAPH}
            model = QuietPropagator.from_graph(self.folder / GRAPH, **{**others, "n_jobs": n_jobs})
            engine = Engine(kept["points"], {**parameters, "n_jobs": n_jobs}, groups, model)
            return FolderGraph(kept["rows"], kept["points"], engine, kept["neighbours"], self._places(source, kept))
        except (TPNError, OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def _places(self, source: str, kept: dict[str, np.ndarray]) -> np.ndarray | None:
        try:
            drawn = _read(self.folder / MAP)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        fits = str(drawn.get("source")) == source and drawn["places"].shape == (len(kept["rows"]), 2)
        return drawn["places"] if fits else None

    def save(self, source: str, graph: FolderGraph) -> None:
        """Keep a graph whose features are complete."""
        assert graph.neighbours is not None
        make_folder(self.folder)
        (self.folder / DESCRIPTION).unlink(missing_ok=True)
        graph.engine.save(self.folder / GRAPH)
        arrays = {"rows": graph.rows, "points": graph.points, "neighbours": graph.neighbours}
        if graph.engine.groups is not None:
            arrays["groups"] = graph.engine.groups
        _write(self.folder / ARRAYS, arrays)
        write_json(self.folder / DESCRIPTION, _description(source, graph.engine.options))

    def save_map(self, source: str, places: np.ndarray) -> None:
        """Keep the map of the graph, which is drawn later."""
        make_folder(self.folder)
        _write(self.folder / MAP, {"places": places, "source": np.array(source)})


def graph_folder(cache: Path, folder: Path, network_key: str) -> Path:
    """Return where the cache keeps the graph of a folder by a network: one of each, the last."""
    return cache / GRAPHS / hashlib.sha256(f"{network_key}\0{folder}".encode(errors="surrogateescape")).hexdigest()[:16]


def source_of_files(network_key: str, folder: Path, names: Sequence[str]) -> str:
    """Return a digest of a network and of the names, sizes and times of files: if it is the same, so are features."""
    digest = hashlib.sha256(network_key.encode())
    for name in names:
        digest.update(f"\0{name}\0{facts_of(f'{folder}/{name}')}".encode(errors="surrogateescape"))
    return digest.hexdigest()


def source_of_features(features: np.ndarray) -> str:
    """Return a digest of features that were given."""
    digest = hashlib.sha256(f"{features.dtype} {features.shape}".encode())
    digest.update(np.ascontiguousarray(features).data)
    return digest.hexdigest()


def _description(source: str, parameters: dict[str, Any]) -> dict[str, Any]:
    model = LabelPropagator(**parameters)
    settings = {name: getattr(model, name) for name in OF_THE_GRAPH}
    scaling = FeatureScaler().get_params()
    return {"format": FORMAT, "source": source, "settings": settings, "scaling": scaling, "neighbours": NEIGHBOURS}


def _write(file: Path, arrays: dict[str, np.ndarray]) -> None:
    savez: Callable[..., None] = np.savez
    with replacing(file) as stream:
        savez(stream, **arrays)


def _read(file: Path) -> dict[str, np.ndarray]:
    """Read arrays; the checksums of the archive find damage."""
    with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as kept:  # NumPy leaves a damaged one open
        return {name: kept[name] for name in kept.files}
