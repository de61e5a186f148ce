"""The options of `tpn predict`. Nothing here needs torch: `--help` answers at once."""

from dataclasses import dataclass

from tpn.labelling.network_options import NetworkOptions
from tpn.workflows.options import CacheOptions, DeviceOptions


@dataclass(frozen=True, kw_only=True)
class PredictOptions(NetworkOptions, DeviceOptions, CacheOptions):
    """How to classify single images. The network is for predictions without a run."""
