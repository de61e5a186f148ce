"""Loading the trained method of a run."""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from tpn.backbones._registry import Network, backbone_name
from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._head import Head
from tpn.methods._method import Method
from tpn.methods._registry import build_method, find_method
from tpn.runs.base_mean import read_base_means
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run, find_run
from tpn.runs.tensors import file_digest, not_finite, write_tensors

BACKBONE = "backbone."
"""The prefix of the weights of a backbone."""


def load(run: str | os.PathLike[str], as_method: str | None = None, backbone: str | Network | None = None) -> Method:
    """Load the trained method of a run, with its best weights.

    Parameters
    ----------
    run : path
        A run folder; or `mini-conv4`, the TPN that comes with the package, trained on miniImageNet.
    as_method : str, optional
        Load the weights as another method that has the same ones, such as `soft-kmeans` for a run of `protonet`; or the
        backbone with any head, such as `laplacian-shot`.
    backbone : str, nn.Module or callable, optional
        The network of the run, if it is neither built in nor from an installed package: a run folder alone never makes
        tpn import other code.

    Returns
    -------
    Method
        An `nn.Module`: `method(images)` embeds, `method.fit(support, labels).predict(query)` classifies.

    Examples
    --------
    >>> import tpn
    >>> method = tpn.load("mini-conv4")
    """
    found = find_run(run)
    return load_run(found, found.read_config(), as_method, backbone)


def load_run(
    run: Run,
    config: RunConfig,
    as_method: str | None = None,
    backbone: str | Network | None = None,
    settings: dict[str, Any] | None = None,
) -> Method:
    """Load the method of a run whose settings have been read; `settings` of the method replace those of the run."""
    if backbone is not None and backbone_name(backbone) != config.settings.backbone:
        raise TPNError(
            f"{run.folder} was trained with the backbone {config.settings.backbone}, not with "
            f"{backbone_name(backbone)}."
        )
    name = config.method if as_method is None else as_method
    weights = run.read_weights(config)  # refuses settings that do not belong to the weights
    chosen = override(settings_for(name, config.settings), settings or {})
    method = build_method(name, chosen, config.dimensions)
    if name != config.method:
        weights = weights_for(method, weights, f"{run.folder} is a run of {config.method}")
    elif isinstance(method, Head):
        method.has_classifier = True
    load_weights(method, weights, run.model_file)
    if isinstance(method, Head) and (means := read_base_means(run, config)):
        method.set_base_means(means)
    return method.eval()


def override(settings: Config, given: dict[str, Any]) -> Config:
    """Return settings with the given ones. One that is given, such as k, counts in tests too: test_k no longer does."""
    for_tests = {f"test_{name}" for name in given} & {field.name for field in fields(settings)}
    return replace(settings, **{**dict.fromkeys(for_tests), **given})


def weights_for(method: Method, weights: dict[str, torch.Tensor], run: str) -> dict[str, torch.Tensor]:
    """Return the weights of a run as those of another method: all of them or, for a head, those of the backbone."""
    own, found = method.state_dict(), dict(weights)
    if method.info.head:
        found |= {name[name.index(BACKBONE) :]: tensor for name, tensor in weights.items() if BACKBONE in name}
        found = {name: tensor for name, tensor in found.items() if name in own and tensor.shape == own[name].shape}
        needed = {name for name in own if name.startswith(BACKBONE)}
    if not (needed <= found.keys() if method.info.head else found.keys() == own.keys()):
        raise TPNError(f"{run}, whose weights are not those that {method.info.name} needs.")
    if isinstance(method, Head):
        method.has_classifier = {name for name in own if name.startswith("head.")} <= found.keys()
    return {**own, **found}


def settings_for(name: str, settings: Config) -> Config:
    """Return settings for a method: those that it shares with the given ones, and its own defaults for the others."""
    kind = find_method(name).Config
    shared = next(base for base in kind.__mro__ if issubclass(base, Config) and isinstance(settings, base))
    kept = {field.name for field in fields(shared)}
    if kind is not type(settings):
        kept -= {"transform"}  # each head has its own
    return kind(**{name: getattr(settings, name) for name in kept})


def load_weights(method: Method, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Copy tensors of the same names and shapes into a method, which keeps its memory format."""
    if broken := not_finite(tensors):
        raise TPNError(f"{source} is damaged: {broken} is not finite.")
    for name, tensor in method.state_dict().items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            raise TPNError(f"{source} is damaged: {name} is of type {tensors[name].dtype}, not {tensor.dtype}.")
    try:
        method.load_state_dict(tensors)
    except RuntimeError as failure:
        reason = " ".join(str(failure).split())
        raise TPNError(f"{source} does not fit the settings of its run: {reason}") from failure


def save_weights(method: Method, path: Path, facts: dict[str, Any]) -> None:
    """Write the weights of a method."""
    write_tensors(path, method.state_dict(), facts)


def weights_digest(run: Run) -> str:
    """Return a digest of the best weights of a run."""
    return file_digest(run.model_file)
