"""Means with 95 % confidence intervals."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class Mean:
    """A mean and the half-width of its 95 % confidence interval (None if there is only one value)."""

    value: float
    ci95: float | None

    def __str__(self) -> str:
        return percent(self.value, self.ci95)


def mean_with_interval(values: Float64[np.ndarray, "value"]) -> Mean:
    """Return the mean, with a half-width of 1.96 standard errors."""
    error = standard_error(values)
    return Mean(float(values.mean()), None if error is None else 1.96 * error)


def standard_error(values: Float64[np.ndarray, "value"]) -> float | None:
    """Return the standard error of the mean of these values (None if there is only one)."""
    return None if len(values) < 2 else float(values.std(ddof=1) / np.sqrt(len(values)))


def percent(value: float, ci95: float | None, sign: str = "") -> str:
    """Format a fraction and its interval as percentages, such as "62.31 ± 0.71 %"."""
    interval = "" if ci95 is None else f" ± {100 * ci95:.2f}"
    return f"{100 * value:{sign}.2f}{interval} %"
