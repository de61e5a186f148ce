"""What draws the images of a training step."""

from typing import TypeAlias

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.mini_batches import MiniBatches

Draws: TypeAlias = EpisodeSampler | MiniBatches
"""What draws the images of a training step."""
