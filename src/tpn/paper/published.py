"""The numbers that the paper prints, each once, in percent.

Liu et al., "Learning to Propagate Labels: Transductive Propagation Network for Few-shot Learning", ICLR 2019.
Accuracies and intervals of Tables 1 to 4 are as in the tables with intervals in its appendix. Its figures carry none.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """An accuracy and, where the paper gives it, its uncertainty."""

    value: float
    uncertainty: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.2f}" if self.uncertainty is None else f"{self.value:.2f} ± {self.uncertainty:.2f}"


Row = tuple[tuple[float, float], ...]

TABLE_1: dict[str, Row] = {  # 5-way 1-shot, 5-way 5-shot, 10-way 1-shot, 10-way 5-shot; ± 95 % intervals
    "MAML": ((48.70, 1.84), (63.11, 0.92), (31.27, 1.15), (46.92, 1.25)),
    "MAML+Transduction": ((50.83, 1.85), (66.19, 1.85), (31.83, 0.45), (48.23, 1.28)),
    "Reptile": ((47.07, 0.26), (62.74, 0.37), (31.10, 0.28), (44.66, 0.30)),
    "Reptile + BN": ((49.97, 0.32), (65.99, 0.58), (32.00, 0.27), (47.60, 0.32)),
    "PROTO NET": ((46.14, 0.77), (65.77, 0.70), (32.88, 0.47), (49.29, 0.42)),
    "PROTO NET (Higher Way)": ((49.42, 0.78), (68.20, 0.66), (34.61, 0.46), (50.09, 0.44)),
    "RELATION NET": ((51.38, 0.82), (67.07, 0.69), (34.86, 0.48), (47.94, 0.42)),
    "Label Propagation": ((52.31, 0.85), (68.18, 0.67), (35.23, 0.51), (51.24, 0.43)),
    "TPN": ((53.75, 0.86), (69.43, 0.67), (36.62, 0.50), (52.32, 0.44)),
    "TPN (Higher Shot)": ((55.51, 0.86), (69.86, 0.65), (38.44, 0.49), (52.77, 0.45)),
}

TABLE_2: dict[str, Row] = {  # as in Table 1
    "MAML": ((51.67, 1.81), (70.30, 1.75), (34.44, 1.19), (53.32, 1.33)),
    "MAML+Transduction": ((53.23, 1.85), (70.83, 1.78), (34.78, 1.18), (54.67, 1.26)),
    "Reptile": ((48.97, 0.21), (66.47, 0.21), (33.67, 0.28), (48.04, 0.30)),
    "Reptile + BN": ((52.36, 0.23), (71.03, 0.22), (35.32, 0.28), (51.98, 0.32)),
    "PROTO NET": ((48.58, 0.87), (69.57, 0.75), (37.35, 0.56), (57.83, 0.55)),
    "PROTO NET (Higher Way)": ((53.31, 0.89), (72.69, 0.74), (38.62, 0.57), (58.32, 0.55)),
    "RELATION NET": ((54.48, 0.93), (71.31, 0.78), (36.32, 0.62), (58.05, 0.59)),
    "Label Propagation": ((55.23, 0.96), (70.43, 0.76), (39.39, 0.60), (57.89, 0.55)),
    "TPN": ((57.53, 0.96), (72.85, 0.74), (40.93, 0.61), (59.17, 0.52)),
    "TPN (Higher Shot)": ((59.91, 0.94), (73.30, 0.75), (44.80, 0.62), (59.44, 0.51)),
}

TABLE_3: dict[str, Row] = {  # 1-shot, 5-shot, 1-shot with distractors, 5-shot with distractors; ± standard errors
    "Soft k-Means": ((50.09, 0.45), (64.59, 0.28), (48.70, 0.32), (63.55, 0.28)),
    "Soft k-Means+Cluster": ((49.03, 0.24), (63.08, 0.18), (48.86, 0.32), (61.27, 0.24)),
    "Masked Soft k-Means": ((50.41, 0.31), (64.39, 0.24), (49.04, 0.31), (62.96, 0.14)),
    "TPN-semi": ((52.78, 0.27), (66.42, 0.21), (50.43, 0.84), (64.95, 0.73)),
}

TABLE_4: dict[str, Row] = {  # as in Table 3
    "Soft k-Means": ((51.52, 0.36), (70.25, 0.31), (49.88, 0.52), (68.32, 0.22)),
    "Soft k-Means+Cluster": ((51.85, 0.25), (69.42, 0.17), (51.36, 0.31), (67.56, 0.10)),
    "Masked Soft k-Means": ((52.39, 0.44), (69.88, 0.20), (51.38, 0.38), (69.08, 0.25)),
    "TPN-semi": ((55.74, 0.29), (71.01, 0.23), (53.45, 0.93), (69.93, 0.80)),
}

QUERIES = (5, 10, 15, 20, 25, 30)
QUERY_NUMBER: dict[int, dict[str, tuple[float, ...]]] = {  # shot -> variant -> accuracy with each of QUERIES
    1: {
        "Train=15": (52.29, 52.95, 53.75, 53.92, 54.57, 54.47),
        "Test=15": (53.53, 53.72, 53.75, 52.79, 52.84, 52.47),
        "Train=Test": (51.94, 53.47, 53.75, 54.00, 53.59, 53.32),
    },
    5: {
        "Train=15": (66.97, 69.30, 69.43, 69.92, 70.54, 70.36),
        "Test=15": (68.50, 68.85, 69.43, 69.26, 69.12, 68.89),
        "Train=Test": (67.55, 69.22, 69.43, 69.85, 70.11, 69.94),
    },
}

RESNET: dict[str, tuple[float, float]] = {  # 1-shot, 5-shot
    "SNAIL": (55.71, 68.88),
    "adaResNet": (56.88, 71.94),
    "Discriminative k-shot": (56.30, 73.90),
    "TADAM": (58.50, 76.70),
    "TPN": (59.46, 75.65),
}

SOLVERS: dict[str, tuple[float, float]] = {  # 1-shot, 5-shot
    "Closed form": (53.75, 69.43),
    "10 iterations": (53.05, 68.75),
}
