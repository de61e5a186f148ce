"""Validation accuracy of a run of TPN with other graphs: neighbours (k) and how far labels propagate (alpha).

python -m scripts.choose_graph RUN --data mini-imagenet:… [--k 12 20] [--alpha 0.99 0.998]
python -m scripts.choose_graph RUN --data mini-imagenet:… --method tpn-semi --unlabelled 20 --beside soft-kmeans

--method tests the weights as another method that propagates labels; --beside adds rows of heads on the same features.
"""

import argparse
import itertools

from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.evaluation.embedded_run import embed_run
from tpn.evaluation.protocol import evaluate_each
from tpn.paper.two_stages import WARM_START
from tpn.runs.folder import find_run

SHOTS = (1, 5)


def main() -> None:
    """Print a Markdown table: a row for each graph, a column for each test of Table 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--data", required=True)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 12, 15, 20])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.99, 0.995, 0.998, 0.999])
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--method", default="tpn", choices=["tpn", "tpn-semi"])
    parser.add_argument("--unlabelled", type=int, default=0, help="unlabelled images of each class")
    parser.add_argument("--way", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--beside", nargs="*", default=[], help="heads with prototypes, of the settings of the tables")
    options = parser.parse_args()
    embedded = embed_run(find_run(options.run), options.data, "val")
    shapes = list(itertools.product(options.way, SHOTS))
    tests = [
        draw_episodes(
            embedded.split, Setting(way=way, shot=shot, unlabelled=options.unlabelled), options.episodes, seed=0
        )
        for way, shot in shapes
    ]

    def row(name: str, *graph: object, **settings: object) -> None:
        method = embedded.method(name, settings)
        accuracies = [f"{evaluation.mean}" for evaluation in evaluate_each(method, embedded.split, tests)]
        print("| " + " | ".join([name, *map(str, graph), *accuracies]) + " |", flush=True)

    print("| method | k | alpha | " + " | ".join(f"{way}-way {shot}-shot" for way, shot in shapes) + " |")
    print("|---" * (3 + len(shapes)) + "|")
    for head in options.beside:
        row(head, "", "", **WARM_START[head])
    for k, alpha in itertools.product(options.k, options.alpha):
        row(options.method, k, alpha, test_k=k, test_alpha=alpha)


if __name__ == "__main__":
    main()
