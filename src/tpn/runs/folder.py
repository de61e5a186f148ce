"""The folder of a training run.

    config.json             all settings: method, data, training
    metrics.jsonl           a line per validation
    model.safetensors       the weights that were best on validation
    checkpoint.safetensors  what resuming needs

Each of them has a digest of its content, which is checked when it is read. The folder contains no pickles, and no names
of code to import: reading a run executes no code.
"""

import os
import platform
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import tpn
from tpn.digests import check_digest, with_digest
from tpn.errors import TPNError
from tpn.files import holding, read_json, write_json
from tpn.methods._registry import list_methods
from tpn.runs.config import RunConfig
from tpn.runs.formats import FORMAT, READABLE, WITH_DIGEST, config_from_json, current_names
from tpn.runs.metrics import read_metrics
from tpn.runs.shipped import CONFIG, check_run, run_folder
from tpn.runs.tensors import read_tensors


def circumstances(execution: dict[str, Any]) -> dict[str, Any]:
    """Return the software and hardware of a training, which may change its outcome in the last digits, or more."""
    return {
        "tpn": tpn.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        **execution,
    }


class Run:
    """A run folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config_file = self.folder / CONFIG
        self.metrics_file = self.folder / "metrics.jsonl"
        self.model_file = self.folder / "model.safetensors"
        self.checkpoint_file = self.folder / "checkpoint.safetensors"

    @property
    def exists(self) -> bool:
        """Whether a training has begun here."""
        return self.config_file.is_file()

    def write_config(self, config: RunConfig, execution: dict[str, Any]) -> None:
        """Write config.json, with the circumstances of the training."""
        content = asdict(config)
        if not config.began_as:
            del content["began_as"]
        content = {"format": FORMAT, **content, "written_with": circumstances(execution)}
        write_json(self.config_file, with_digest(content))

    @property
    def was_compiled(self) -> bool | None:
        """Whether the training that began here used a compiled backbone, if that is known."""
        before = read_json(self.config_file).get("written_with") if self.exists else None
        compiled = before.get("compile") if isinstance(before, dict) else None
        return compiled if isinstance(compiled, bool) else None

    def changed_circumstances(self, execution: dict[str, Any]) -> list[str]:
        """Describe the circumstances that have changed since the run began."""
        before, now = read_json(self.config_file).get("written_with"), circumstances(execution)
        if not isinstance(before, dict):
            return ["the versions and the device that the run was begun with are unknown"]
        before = {"processes": 1, **before}
        return [
            f"{name} was {before.get(name)} and is {now[name]}"
            for name in now
            if name not in ("tpn", "python") and before.get(name) != now[name]
        ]

    def read_config(self) -> RunConfig:
        """Read the settings of this run."""
        check_run(self.folder)
        content = read_json(self.config_file)
        if (version := content.get("format")) in READABLE:
            content = check_digest(content, self.config_file, required=version in WITH_DIGEST)
        method = content.get("method")
        if isinstance(method, str) and method not in list_methods():
            raise TPNError(
                f"{self.folder} is a run of the method {method!r}, which is not known here: register it first "
                "(tpn.register_method), or install its package."
            )
        try:
            return config_from_json(content)
        except TPNError as failure:
            raise TPNError(f"{self.config_file} cannot be read: {failure.command_line_text}") from failure

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read the metrics of each validation."""
        try:
            return read_metrics(self.metrics_file.read_bytes(), self.metrics_file)
        except OSError as failure:
            raise TPNError(f"Cannot read {self.metrics_file}: {failure.strerror}.") from failure

    def read_weights(self, config: RunConfig) -> dict[str, torch.Tensor]:
        """Read the best weights of this run."""
        if not self.model_file.is_file():
            raise TPNError(
                f"{self.folder} has no weights (model.safetensors): either it was stopped before its first validation, "
                "and `tpn train ... --resume` will write them; or they were removed, and you must train it again."
            )
        tensors, facts = read_tensors(self.model_file)
        if facts.get("run") != config.digest:
            raise TPNError(f"{self.model_file} belongs to another run than the config.json beside it.")
        return current_names(config.method, tensors)

    def claimed(self) -> AbstractContextManager[None]:
        """Lock the folder, so that no second process trains in it at the same time."""
        return holding(self.folder, f"Another process is training in {self.folder}. Wait for it, or stop it first.")


def find_run(name: str | os.PathLike[str]) -> Run:
    """Return the run in this folder or, if there is none, the run of this name in the package."""
    return Run(run_folder(name))
