"""Recipes of the figures, the ablations in the appendix, and the weights that ship with the package."""

from collections.abc import Sequence

from tpn.episodes.setting import Setting
from tpn.paper.budget import FIRST_STAGE, SCRATCH
from tpn.paper.published import QUERIES, QUERY_NUMBER, RESNET, SOLVERS, TABLE_1, Published
from tpn.paper.recipe import Cell, Experiment, Test, Training, training
from tpn.paper.tables import WAYS_AND_SHOTS, episodic, systems
from tpn.paper.two_stages import CONV4, MIRRORED, PHOTOGRAPHS, SHORTER, SMALL_RESNET, first_stage, second_stage

SHOTS = range(1, 11)


def k_shot() -> Experiment:
    """The same number of shots in training and testing; Reptile always trains on 15 images per class."""
    everyone = systems("mini-imagenet")
    cells = [
        Cell(row, str(shot), everyone[row].rule(5, shot), everyone[row].test(Setting(5, shot)))
        for row in ("MAML", "Reptile + BN", "PROTO NET", "RELATION NET", "Label Propagation", "TPN")
        for shot in SHOTS
    ]
    return Experiment(
        "k-shot",
        "5-way accuracy with various shots in training and testing",
        "Figure “5-way performance with various training/test shots”",
        "mini-imagenet",
        tuple(cells),
        figure="shots in training and testing",
    )


def training_shots() -> Experiment:
    """1 to 10 shots in training, 1 and 5 in testing."""
    cells = [
        Cell(f"TPN, {shot}-shot test", str(trained), episodic("tpn")(5, trained), Test(Setting(5, shot)))
        for shot in (1, 5)
        for trained in SHOTS
    ]
    return Experiment(
        "training-shots",
        "5-way accuracy of TPN with various shots in training",
        "Figure “Model performance with different training shots”",
        "mini-imagenet",
        tuple(cells),
        figure="shots in training",
    )


def query_number() -> Experiment:
    """The number of queries varies in training, in testing, or in both.

    The paper reports TPN; PROTO NET, which is not transductive, is added for comparison.
    """
    variants = {"Train=15": (15, None), "Test=15": (None, 15), "Train=Test": (None, None)}
    cells = [
        Cell(
            row=f"{system}, {shot}-shot, {variant}",
            column=str(queries),
            training=episodic(method)(5, shot, in_training or queries),
            test=Test(Setting(5, shot, in_test or queries)),
            published=Published(QUERY_NUMBER[shot][variant][place]) if system == "TPN" else None,
        )
        for system, method in (("TPN", "tpn"), ("PROTO NET", "protonet"))
        for shot in (1, 5)
        for variant, (in_training, in_test) in variants.items()
        for place, queries in enumerate(QUERIES)
    ]
    return Experiment(
        "query-number",
        "5-way accuracy with various query numbers",
        "Table “Accuracy with various query numbers”",
        "mini-imagenet",
        tuple(cells),
        figure="queries per class",
    )


RESNET_SYSTEMS = {
    "SNAIL": "snail",
    "adaResNet": "ada-resnet",
    "Discriminative k-shot": "discriminative-k-shot",
    "TADAM": "tadam",
    "TPN": "tpn",
}


def resnet() -> Experiment:
    """Systems with a ResNet-12 backbone."""
    mini_batches = training("discriminative-k-shot", 5, 5, backbone="resnet12")
    cells = [
        Cell(
            row=row,
            column=f"{shot}-shot",
            training=mini_batches if method == "discriminative-k-shot" else rule(5, shot),
            test=Test(Setting(5, shot)),
            published=Published(RESNET[row][place]),
        )
        for row, method in RESNET_SYSTEMS.items()
        for rule in (episodic(method, backbone="resnet12"),)
        for place, shot in enumerate((1, 5))
    ]
    return Experiment(
        "resnet",
        "5-way accuracy with a ResNet-12",
        "Table “ResNet results”",
        "mini-imagenet",
        tuple(cells),
    )


def closed_form() -> Experiment:
    """Equation (4) against ten iterations of equation (3), in training and testing, with the time of both."""
    rules = {"Closed form": episodic("tpn"), "10 iterations": episodic("tpn", solver="iterative", steps=10)}
    cells = [
        Cell(
            row=row,
            column=f"{shot}-shot",
            training=rule(5, shot),
            test=Test(Setting(5, shot), time_solvers=row == "Closed form"),
            published=Published(SOLVERS[row][place]),
        )
        for row, rule in rules.items()
        for place, shot in enumerate((1, 5))
    ]
    return Experiment(
        "closed-form",
        "Closed form against iterations: 5-way accuracy of TPN, and time",
        "Appendix “Closed-form solution vs Iterative updates”",
        "mini-imagenet",
        tuple(cells),
    )


def in_two_stages() -> tuple[Experiment, ...]:
    """One training of TPN in two stages for all settings of Table 1, with Conv-4 and with a small ResNet-12, and the
    first stage of each. The weights that ship with the package are from here.

    The paper trains for each setting. Of its best numbers, those of TPN (Higher Shot), two are trained with as many
    ways as here; the others are trained 10-way. With a ResNet-12 it has 5-way numbers only.
    """

    def cells(
        row: str, training: Training, numbers: Sequence[tuple[float, ...] | None], flip: bool = False
    ) -> tuple[Cell, ...]:
        return tuple(
            Cell(
                row,
                f"{way}-way {shot}-shot",
                training,
                Test(Setting(way, shot), flip=flip),
                None if number is None else Published(*number),
            )
            for (way, shot), number in zip(WAYS_AND_SHOTS, numbers, strict=True)
        )

    def with_and_without_flip(training: Training, numbers: Sequence[tuple[float, ...] | None]) -> tuple[Cell, ...]:
        """Return the tests of TPN, on images alone as in the paper, and with their mirror images."""
        row = "TPN, two stages, 5-way 5-shot"
        return cells(row, training, numbers) + cells("the same, --test-flip", training, numbers, flip=True)

    size = PHOTOGRAPHS["sizes"][-1]
    return (
        Experiment(
            "mini-conv4-pretrained",
            'A Conv-4 that classifies all training classes: the weights of tpn.load("mini-conv4-pretrained")',
            "Table 1",
            "mini-imagenet",
            cells("Nearest class mean", first_stage(CONV4, size), [None] * 4),
            init=SCRATCH,
        ),
        Experiment(
            "mini-conv4",
            'One training of TPN for all tests of Table 1: the weights of tpn.load("mini-conv4")',
            "Table 1",
            "mini-imagenet",
            with_and_without_flip(second_stage(**MIRRORED), TABLE_1["TPN (Higher Shot)"]),
            init=FIRST_STAGE,
        ),
        Experiment(
            "mini-resnet12-pretrained",
            "A small ResNet-12 that classifies all training classes",
            "Table “ResNet results”",
            "mini-imagenet",
            cells("Nearest class mean", first_stage(SMALL_RESNET, size), [None] * 4),
            init=SCRATCH,
        ),
        Experiment(
            "mini-resnet12",
            "One training of TPN with a small ResNet-12 for all tests of Table 1",
            "Table “ResNet results”",
            "mini-imagenet",
            with_and_without_flip(
                second_stage(backbone=SMALL_RESNET, **SHORTER),
                [*((number,) for number in RESNET["TPN"]), None, None],
            ),
            init=FIRST_STAGE,
        ),
    )


FIGURES = (k_shot(), training_shots(), query_number(), resnet(), closed_form(), *in_two_stages())
