"""Compare trained methods on the same episodes."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpn.backbones._registry import Network
from tpn.episodes.setting import BatchNorm, Setting
from tpn.errors import TPNError
from tpn.evaluation.comparison import Difference, paired_differences
from tpn.evaluation.intervals import percent
from tpn.images.split import Images
from tpn.methods._method import Method
from tpn.results import Result
from tpn.workflows.evaluate import CLASS_BALANCE, EvaluationResult, evaluate_all
from tpn.workflows.keywords import takes
from tpn.workflows.options import EvaluateOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison(Result):
    """Several tests on the same episodes, and their paired differences."""

    results: dict[str, EvaluationResult]
    """Results by the name of the run folder or method."""
    differences: list[Difference]
    """The difference of every pair, with the better one first."""
    batch_norm: BatchNorm
    """The requested statistics of batch normalisation."""

    @property
    def _first(self) -> EvaluationResult:
        return next(iter(self.results.values()))

    def to_dict(self) -> dict[str, Any]:
        first, episode = self._first, asdict(self._first.episode)
        names = ("method", "transduction", "class_balance", "batch_norm", "accuracy", "ci95", "seconds")
        return {
            "runs": [
                {"run": result.run, "name": name, **{key: getattr(result, key) for key in names}}
                for name, result in self.results.items()
            ],
            "differences": [
                {
                    "better": pair.better,
                    "worse": pair.worse,
                    "difference": pair.difference.value,
                    "ci95": pair.difference.ci95,
                    "clear": pair.clear,
                }
                for pair in self.differences
            ],
            **{name: episode[name] for name in ("way", "shot", "query")},
            "episodes": first.episodes,
            "batch_norm": self.batch_norm,
            "data": first.data,
            "split": first.split,
            "seed": first.seed,
            **episode,  # the rest of the setting
        }

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": name, **result.to_dict()} for name, result in self.results.items()]

    def summary(self) -> str:
        width = max(map(len, self.results))
        lines = [self._first.setting]
        for name, result in sorted(self.results.items(), key=lambda item: -item[1].accuracy):
            lines.append(
                f"  {name:<{width}}  {result.mean}  {result.method}, transduction {result.transduction}, "
                f"class balance {CLASS_BALANCE[result.class_balance]}"
            )
        lines.append("paired differences")
        for pair in self.differences:
            difference = percent(pair.difference.value, pair.difference.ci95, sign="+")
            verdict = "clear" if pair.clear else "within chance"
            lines.append(f"  {pair.better:<{width}} over {pair.worse:<{width}}  {difference}  {verdict}")
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Plot the accuracies with their 95 % intervals; write the plot to `path`, if given."""
        from tpn.evaluation.plots.comparison import draw_comparison

        means = {name: result.mean for name, result in self.results.items()}
        return draw_comparison(means, self._first.setting, None if path is None else Path(path))


@takes(EvaluateOptions, Setting)
def compare(
    runs: "Sequence[str | os.PathLike[str] | Method] | dict[str, str | os.PathLike[str] | Method]",
    data: str | Images | None = None,
    *,
    backbone: str | Network | None = None,
    progress: bool = True,
    **options: Any,
) -> Comparison:
    """Test two or more methods on the same episodes, and show which differences are more than chance.

    A difference is computed episode by episode (paired), so its interval is much narrower than those of the accuracies.

    Parameters
    ----------
    runs : sequence or dict of runs or methods
        As in `tpn.evaluate`; the keys of a dict are the names to show.
    data : str or Images, optional
        As in `tpn.evaluate`.
    backbone : str, nn.Module or callable, optional
        The network of the runs, if it is one of your own.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    Comparison
        Prints as a table; has `results` by name, `differences`, and `plot()`.
    """
    named = runs if isinstance(runs, dict) else dict(zip(distinct_names(runs), runs, strict=True))
    if len(named) < 2:
        raise TPNError("Name at least two runs to compare.")
    results = evaluate_all(named, data, None, backbone, progress, options, "compare")
    differences = paired_differences({name: result.accuracies for name, result in results.items()})
    return Comparison(results, differences, options.get("batch_norm", EvaluateOptions.batch_norm))


def distinct_names(runs: "Sequence[str | os.PathLike[str] | Method]") -> list[str]:
    """Return a name for each run: its folder or method or, if two are the same, its full path or a number."""
    paths = [Path(run) for run in runs if not isinstance(run, Method)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise TPNError("A run folder is named twice. Name each of them once.")
    names = [run.info.name if isinstance(run, Method) else Path(run).name for run in runs]
    times = Counter(names)
    return [
        name if times[name] == 1 else f"{name} ({index + 1})" if isinstance(run, Method) else str(Path(run))
        for index, (name, run) in enumerate(zip(names, runs, strict=True))
    ]
