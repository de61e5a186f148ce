"""List the few-shot methods."""

from dataclasses import asdict, dataclass
from typing import Any

from tpn.methods._method import Info
from tpn.methods._registry import all_methods
from tpn.results import Result
from tpn.workflows.evaluate import CLASS_BALANCE


@dataclass(frozen=True)
class MethodList(Result):
    """The properties of every few-shot method."""

    methods: list[Info]

    def to_dict(self) -> dict[str, Any]:
        return {"methods": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        return [asdict(info) for info in self.methods]

    def summary(self) -> str:
        width = max(len("method"), *(len(info.name) for info in self.methods))
        lines = [f"{'method':<{width}}  transduction  class balance  paper"]
        lines += [
            f"{info.name:<{width}}  {info.transduction:<12}  {CLASS_BALANCE[info.class_balance]:<13}  {info.paper}"
            for info in self.methods
        ]
        return "\n".join(lines)


def describe_methods() -> MethodList:
    """Describe every few-shot method: its name, its paper, its transduction, and what it knows of the class balance."""
    return MethodList([method.info for method in all_methods().values()])
