"""α-TIM: TIM with entropies that bear classes of unequal size."""

from dataclasses import dataclass

from tpn.methods._head import check_positive
from tpn.methods._information import InformationLoss
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods.tim import InformationConfig, InformationHead


@dataclass(frozen=True)
class AlphaTIMConfig(InformationConfig):
    """α-TIM: TIM with Tsallis entropies."""

    support_weight: float = 1.0
    conditional_weight: float = 1.0
    entropy_alpha: float | None = None
    """α of the entropies of the queries; 1 is Shannon's (default: 2 with one shot, 7 with five or more, between them in
    proportion)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "entropy_alpha")


@register_method
class AlphaTIM(InformationHead):
    """Veilleux et al., "Realistic Evaluation of Transductive Few-Shot Learning", NeurIPS 2021.

    TIM with the Tsallis entropies (1 - Σp^α) / (α - 1) of the queries: their slope is gentler for improbable classes,
    so that classes of unequal size cost less.

    https://arxiv.org/abs/2204.11181
    """

    info = Info(
        name="alpha-tim",
        paper="Veilleux et al., Realistic Evaluation of Transductive Few-Shot Learning, NeurIPS 2021",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = AlphaTIMConfig
    config: AlphaTIMConfig

    def information_loss(self, shot: float) -> InformationLoss:
        alpha = self.config.entropy_alpha
        if alpha is None:
            alpha = 2 + 5 * (min(shot, 5) - 1) / 4
        config = self.config
        return InformationLoss(config.support_weight, config.marginal_weight, config.conditional_weight, alpha)
