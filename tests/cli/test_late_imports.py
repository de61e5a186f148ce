"""A command loads scikit-learn without pandas and scipy.stats, and both still work for whatever uses them."""

import subprocess
import sys

CODE = """
import sys
from tpn.cli.late_imports import load_scikit_learn
load_scikit_learn()
import numpy as np
import scipy.stats
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
assert not {"pandas", "scipy.stats._stats_py"} & set(sys.modules), "loaded, though nothing has used it"
assert list(scipy.stats.rankdata([3.0, 1.0, 2.0])) == [3, 1, 2]
assert norm.cdf(0) == 0.5
from scipy.stats.distributions import expon
assert expon.cdf(0) == 0
assert roc_auc_score([0, 1], [0.2, 0.3]) == 1
import pandas
assert pandas.Series([1]).sum() == 1
"""


def test_scikit_learn_is_loaded_without_what_it_does_not_need_which_works_when_it_is_used():
    ended = subprocess.run([sys.executable, "-c", CODE], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
