"""600 test episodes at 84x84 from 20 classes of 600 images: each image once against every episode anew.

The images are made up: how long it takes does not depend on what they show.
"""

import time

import numpy as np
import torch

from tpn.allocator import keep_freed_memory
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.episodes.task import as_task, query_labels
from tpn.evaluation.protocol import evaluate
from tpn.images.split import Split
from tpn.methods._method import Dimensions
from tpn.methods.tpn import TPN, TPNConfig

EPISODES = 600
SETTING = Setting(way=5, shot=5, query=15)


def main() -> None:
    keep_freed_memory()
    split, method = images(), TPN(TPNConfig(), Dimensions(3, 84, 5, 5, 64)).eval()
    method.length_scale.start_at(0.2)
    episodes = draw_episodes(split, SETTING, EPISODES, seed=0)
    print(f"{EPISODES} test episodes, 84x84x3, 5-way 5-shot 15-query, 20 classes x 600 images")
    once = evaluate(method, split, episodes)
    print(f"  each image once      {once.seconds:7.1f} s   accuracy {once.mean}", flush=True)
    start, accuracies = time.perf_counter(), []
    for episode in episodes:
        with torch.no_grad():
            task = as_task([episode], method.embed(split.load(episode.images))[None])
            right = method.score(task).argmax(-1) == query_labels([episode])
        accuracies.append(right.double().mean().item())
    anew = time.perf_counter() - start
    print(f"  every episode anew     {anew:7.1f} s   accuracy {100 * np.mean(accuracies):.2f} %")
    apart = np.abs(once.accuracies - accuracies).max()
    print(f"  {anew / once.seconds:4.2f} times as fast; the accuracies of an episode differ by at most {apart:.4f}")


def images() -> Split:
    """20 classes that can be told apart a little: noise around a pattern of each class."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (20, 1, 7, 7, 3)).repeat(12, 2).repeat(12, 3)
    noise = rng.integers(0, 256, (20, 600, 84, 84, 3), dtype=np.uint8)
    for index in range(20):
        noise[index] = 0.8 * noise[index] + 0.2 * patterns[index]
    names = tuple(f"class {index}" for index in range(20))
    return Split("test", noise.reshape(-1, 84, 84, 3), names, np.arange(21) * 600)


if __name__ == "__main__":
    main()
