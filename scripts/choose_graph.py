"""Validation accuracy of a run of TPN with other graphs: neighbours (k) and how far labels propagate (alpha).

python -m scripts.choose_graph RUN --data mini-imagenet:… [--k 12 20] [--alpha 0.99 0.998]
"""

import argparse
import itertools

from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.evaluation.embedded_run import embed_run
from tpn.evaluation.protocol import evaluate_each
from tpn.runs.folder import find_run

TESTS = ((5, 1), (5, 5), (10, 1), (10, 5))


def main() -> None:
    """Print a Markdown table: a row for each graph, a column for each test of Table 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--data", required=True)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 12, 15, 20])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.99, 0.995, 0.998, 0.999])
    parser.add_argument("--episodes", type=int, default=600)
    options = parser.parse_args()
    embedded = embed_run(find_run(options.run), options.data, "val")
    tests = [
        draw_episodes(embedded.split, Setting(way=way, shot=shot), options.episodes, seed=0) for way, shot in TESTS
    ]
    print("| k | alpha | " + " | ".join(f"{way}-way {shot}-shot" for way, shot in TESTS) + " |")
    print("|---" * (2 + len(TESTS)) + "|")
    for k, alpha in itertools.product(options.k, options.alpha):
        method = embedded.method("tpn", {"test_k": k, "test_alpha": alpha})
        accuracies = [f"{evaluation.mean}" for evaluation in evaluate_each(method, embedded.split, tests)]
        print(f"| {k} | {alpha} | " + " | ".join(accuracies) + " |", flush=True)


if __name__ == "__main__":
    main()
