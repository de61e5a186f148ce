"""Run the benchmarks named on the command line, or all of them: some half an hour and 16 GB on two cores."""

import sys

from tpn.cli import share_the_processor

share_the_processor()  # before anything loads torch

from benchmarks import (
    embedding,
    evaluation,
    heads,
    images,
    labelling,
    maml,
    many_vectors,
    memory,
    neighbours,
    ray_embedding,
    second_call,
    training_step,
    updates,
)

BENCHMARKS = {
    "training-step": training_step.main,
    "evaluation": evaluation.main,
    "heads": heads.main,
    "memory": memory.main,
    "maml": maml.main,
    "images": images.main,
    "embedding": embedding.main,
    "labelling": labelling.main,
    "updates": updates.main,
    "many-vectors": many_vectors.main,
    "neighbours": neighbours.main,
    "ray-embedding": ray_embedding.main,
    "second-call": second_call.main,
}


def main() -> int:
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"unknown benchmark {unknown[0]}: choose from {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names:
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
