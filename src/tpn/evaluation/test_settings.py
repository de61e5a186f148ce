"""Named settings of test episodes: balanced queries, and realistic ones."""

from typing import Literal, TypeAlias, get_args

from tpn.episodes.setting import Setting
from tpn.errors import TPNError

TestSetting: TypeAlias = Literal["balanced", "dirichlet", "missing", "open-set", "cross-domain", "whole"]
TEST_SETTINGS: tuple[TestSetting, ...] = get_args(TestSetting)

CONCENTRATION = 2.0
"""Of the Dirichlet distribution of class proportions, as Veilleux et al. have it."""
MANY_WAYS = 20
"""Ways with missing classes, as Martin et al. have it: 20, of which 5 occur among the queries."""
WHOLE_TASKS = 200
"""One draw of a whole collection is worth this number of tasks: it has thousands of queries."""

DESCRIPTIONS: dict[TestSetting, str] = {
    "balanced": "The same number of queries of each class.",
    "dirichlet": "As many queries in all, with class proportions drawn from Dirichlet(2): unequal, and unknown.",
    "missing": "Up to 20 ways, of which only as many classes as in the other settings occur among the queries.",
    "open-set": "As many further classes, whose queries belong to no class; accuracy is that of the other queries.",
    "cross-domain": "Balanced queries, of another source of images than the run was trained on.",
    "whole": "All classes of the split, and all images that are not labelled as queries.",
}


def named_setting(name: TestSetting, way: int, shot: int, query: int, classes: int) -> Setting:
    """Return the composition of the episodes of a named setting, in a split with this number of classes."""
    if name not in TEST_SETTINGS:
        raise TPNError(f"Unknown setting {name!r}: choose from {', '.join(TEST_SETTINGS)}.")
    if name == "dirichlet":
        return Setting(way, shot, query, query_dirichlet=CONCENTRATION)
    if name == "missing":
        return Setting(max(way, min(classes, MANY_WAYS)), shot, query, query_classes=way)
    if name == "open-set":
        return Setting(way, shot, query, open_classes=max(1, min(way, classes - way)))
    if name == "whole":
        return Setting(way, shot, query, whole=True)
    return Setting(way, shot, query)


def number_of_tasks(name: TestSetting, tasks: int) -> int:
    """Return the number of episodes of a setting, given that of the others."""
    return max(1, tasks // WHOLE_TASKS) if name == "whole" else tasks
