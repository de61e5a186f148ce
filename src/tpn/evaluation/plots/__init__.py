"""Pictures of results."""

from tpn.evaluation.plots.comparison import draw_comparison
from tpn.evaluation.plots.contact_sheet import draw_contact_sheet
from tpn.evaluation.plots.episode import draw_episode
from tpn.evaluation.plots.figure import check_figure
from tpn.evaluation.plots.learning_curve import draw_learning_curve

__all__ = ["check_figure", "draw_comparison", "draw_contact_sheet", "draw_episode", "draw_learning_curve"]
