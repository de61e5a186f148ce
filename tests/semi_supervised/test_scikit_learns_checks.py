"""scikit-learn's own suite of checks: over the estimator, pipelines, a grid search and a precomputed graph."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tpn import FeatureScaler, LabelledSplit, LabelPropagator

from .test_label_propagator import blobs

UNTYPED = "check_do_not_raise_errors_in_init_or_set_params"
OF_PIPELINES = "scikit-learn's Pipeline fits its steps in place, whatever they are"
ESTIMATORS = [
    LabelPropagator(),
    LabelPropagator(metric="cosine", estimator="linear"),
    LabelPropagator(metric="precomputed"),
    make_pipeline(KNeighborsTransformer(n_neighbors=5, mode="distance"), LabelPropagator(metric="precomputed")),
]
SEARCH = GridSearchCV(LabelPropagator(), {"alpha": [0.5, 0.9]}, cv=2)


def contradictions(estimator):
    reasons = {
        "check_classifiers_classes": "one of its two classes is called -1, which stands for no label here",
        UNTYPED: "the tests check types while they run, also those of parameters; see the next test",
    }
    if isinstance(estimator, Pipeline):
        reasons["check_estimators_overwrite_params"] = reasons["check_dont_overwrite_parameters"] = OF_PIPELINES
        reasons["check_supervised_y_no_nan"] = "NaN stands for no label here; the error is about missing labels"
    if isinstance(estimator, GridSearchCV):
        reasons["check_classifiers_one_label_sample_weights"] = "the search wraps the message in its own"
    return reasons


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=contradictions)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")  # a search turns the refusals of its estimator into warnings first
@parametrize_with_checks([SEARCH], expected_failed_checks=contradictions)
def test_scikit_learns_own_checks_of_a_search(estimator, check):
    check(estimator)


def test_parameters_are_judged_when_it_is_fitted():
    code = (
        f"from sklearn.utils.estimator_checks import {UNTYPED} as check\n"
        "import tpn\ncheck('LabelPropagator', tpn.LabelPropagator())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_over_a_pipeline_of_a_data_frame_and_pandas_labels():
    X, truth, y = blobs(200, 4, 4, deviation=1.5, seed=3, labels=8)
    frame = pd.DataFrame(X * [1e4, 1, 1e-3, 1], columns=list("abcd"))
    labels = pd.Series(["wxyz"[label] if label >= 0 else None for label in y], dtype="string")
    pipeline = make_pipeline(StandardScaler(), LabelPropagator())
    search = GridSearchCV(pipeline, {"labelpropagator__n_neighbors": [5, 10]}, cv=LabelledSplit(4, random_state=0))
    search.fit(frame, labels)
    best = search.best_estimator_
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.feature_names_in_.tolist() == list("abcd")
    assert (best.predict(frame) == np.array(list("wxyz"))[truth]).mean() > 0.9
    assert best[-1].n_neighbors == search.best_params_["labelpropagator__n_neighbors"]


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_a_search_over_the_neighbours_of_a_precomputed_graph(mode):
    X, truth, y = blobs(200, 4, 4, deviation=1.5, seed=3, labels=8)
    graph = KNeighborsTransformer(mode=mode)
    pipeline = make_pipeline(FeatureScaler(), graph, LabelPropagator(metric="precomputed"))
    split = LabelledSplit(4, random_state=0)
    search = GridSearchCV(pipeline, {"kneighborstransformer__n_neighbors": [5, 12]}, cv=split).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (search.best_estimator_[-1].transduction_ == truth).mean() > 0.7
