"""The options of `tpn embed`. Nothing here needs torch: `--help` answers at once."""

from dataclasses import dataclass

from tpn.errors import TPNError
from tpn.labelling.network_options import NetworkOptions
from tpn.workflows.options import CacheOptions, DeviceOptions

MOST_WORKERS = 4096


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(NetworkOptions, DeviceOptions, CacheOptions):
    """How to embed images into shards."""

    shard_size: int = 4096
    """Images in a shard. An interruption loses only shards that are not complete."""
    ray: str | None = None
    """Embed on the Ray cluster at this address (auto: the cluster of this computer; local: start one here). All nodes
    must see the images, and the cache or --weights, under the same paths. Needs the extra tpn[ray]."""
    workers: int | None = None
    """With --ray, the number of actors, each with --threads cores (default: 1) or a GPU (default: as many as fit)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.shard_size <= 2**20:
            raise TPNError(f"--shard-size must be at least 1 and at most {2**20}, not {self.shard_size}.")
        if self.workers is not None and self.ray is None:
            raise TPNError("--workers is for --ray: on this machine, --threads is the number of cores.")
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise TPNError(f"--workers must be at least 1 and at most {MOST_WORKERS}, not {self.workers}.")
