"""The settings that every method has: what is refused, and with which words."""

import pytest

from tests.conftest import refuses_setting
from tpn.errors import TPNError
from tpn.methods._config import ClassifierConfig, Config

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.0},
        {"lr": 2.0},
        {"lr": INFINITE},
        {"episodes": 0},
        {"episodes_per_step": 0},
        {"halve_every": 0},
        {"validate_every": 0},
        {"validation_episodes": 0},
        {"patience": -1},
        {"warm_up": -1},
        {"momentum": 1.0, "optimiser": "sgd"},
        {"weight_decay": -1e-4},
        {"clip": -1.0},
        {"clip": NOT_A_NUMBER},
        {"drop_by": 1.0},
        {"drop_at": (0.8, 0.6)},
        {"drop_at": (0.0, 0.6)},
        {"drop_at": (NOT_A_NUMBER,)},
        {"sizes": (42, 42)},
        {"sizes": (0, 42)},
        {"size_shares": (0.5, 0.4), "sizes": (42, 84)},
        {"size_shares": (0.5, 0.5), "sizes": (42, 63, 84)},
        {"ema": 1.0},
        {"ema": NOT_A_NUMBER},
        {"crop_area": 0.0},
        {"backbone_lr": -1.0},
        {"drop_block": -0.1},
        {"drop_block": 1.0},
        {"drop_block": NOT_A_NUMBER},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(Config, settings)


def test_adam_has_no_nesterov_momentum():
    for settings in (Config, ClassifierConfig):
        with pytest.raises(TPNError, match="momentum is for optimiser sgd"):
            settings(optimiser="adam", momentum=0.9)


def test_python_users_read_keywords_and_the_command_line_flags():
    error = TPNError("--halve-every 3 and --k: see `tpn train --help`.")
    assert str(error) == "halve_every 3 and k: see `tpn train --help`."
    assert error.command_line_text == "--halve-every 3 and --k: see `tpn train --help`."
