"""A session: labels, undo, redo, classes, against a model that keeps every state."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpn.errors import TPNError
from tpn.labelling import journal
from tpn.labelling.session import Session, has_session, session_folder
from tpn.labelling.session_state import NONE, SKIP, SessionState, class_name

PATHS, NAMES = ["a.png", "b.png", "c/d.png"], ["cat", "dog", "eel"]

paths = st.lists(st.sampled_from(PATHS), min_size=1)
changes = st.one_of(
    st.fixed_dictionaries({"to": st.just("label"), "label": st.sampled_from(NAMES), "paths": paths}),
    st.fixed_dictionaries({"to": st.sampled_from(["none", "skip", "clear"]), "paths": paths}),
)
names = st.sampled_from(NAMES)
actions = st.one_of(
    st.fixed_dictionaries({"do": st.just("label"), "changes": st.lists(changes, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"do": st.just("rename class"), "name": names, "to": names}),
    st.fixed_dictionaries({"do": st.just("merge classes"), "name": names, "into": names}),
    st.fixed_dictionaries({"do": st.just("remove class"), "name": names}),
    st.fixed_dictionaries({"do": st.just("add class"), "name": names}),
    st.fixed_dictionaries({"do": st.just("colour class"), "name": names, "colour": st.just("#12ab34")}),
    st.sampled_from([{"do": "undo"}, {"do": "redo"}]),
)


def seen(state):
    """What a user sees."""
    return copy.deepcopy((state.classes, state.marks))


@given(st.lists(actions, max_size=25))
def test_undo_and_redo_go_through_the_same_states(todo):
    state = SessionState()
    past, future = [seen(state)], []
    for action in todo:
        before = seen(state), state.revision
        try:
            take_back = state.apply(action)
        except TPNError:
            assert (seen(state), state.revision) == before, "what is refused changes nothing"
            continue
        if action["do"] == "undo":
            future.append(past.pop())
        elif action["do"] == "redo":
            past.append(future.pop())
        else:
            past, future = [*past, seen(state)], []
        assert seen(state) == past[-1]
        assert (len(state.done), len(state.undone)) == (len(past) - 1, len(future))
        take_back()
        assert (seen(state), state.revision) == before
        state.apply(action)
        assert seen(state) == past[-1]


def test_a_session_goes_on_where_it_stopped(tmp_path):
    with Session(tmp_path) as session:
        session.label(["a", "b"], "cat")
        session.mark(["c"], "none")
        session.mark(["d"], "skip")
        session.label(["b"], "dog")
        session.undo()
        expected = seen(session.state)
    with Session(tmp_path) as session:
        assert seen(session.state) == expected
        assert session.labels == {"a": "cat", "b": "cat"}
        assert (session.state.marks["c"], session.state.marks["d"]) == (NONE, SKIP)
        assert session.describe()["redo"] == "dog: 1 image"
        session.redo()
        assert session.labels["b"] == "dog"


def test_an_action_that_is_sent_again_counts_once(tmp_path):
    with Session(tmp_path) as session:
        action = {"do": "label", "id": "7", "changes": [{"to": "label", "label": "x", "paths": ["a"]}]}
        assert session.act(action) == session.act(action) == 1
    with Session(tmp_path) as session:
        assert session.act(action) == 1
        assert session.revision == 1


def test_what_cannot_be_written_has_not_happened(tmp_path, monkeypatch):
    with Session(tmp_path) as session:
        session.label(["a"], "cat")
        before = seen(session.state)
        monkeypatch.setattr(journal.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        for change in (lambda: session.label(["a", "b"], "dog"), session.undo):
            with pytest.raises(TPNError, match="No space left"):
                change()
            assert seen(session.state) == before
        monkeypatch.undo()
        assert session.label(["b"], "dog") == 2
    with Session(tmp_path) as session:
        assert session.labels == {"a": "cat", "b": "dog"}


def test_labels_of_a_list_are_one_action(tmp_path):
    with Session(tmp_path) as session:
        session.label(["a"], "cat")
        session.take({"a": "cat", "b": "dog", "c": "cat"}, "list.csv")
        assert session.labels == {"a": "cat", "b": "dog", "c": "cat"}
        session.undo()
        assert session.labels == {"a": "cat"}
        assert session.take({"a": "cat"}, "list.csv") == session.revision == 3, "nothing new is no action"


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", None, 5, "unlabelled", "Unlabeled", "-1"])
def test_names_that_no_class_can_have(name):
    with pytest.raises(TPNError):
        class_name(name)


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"do": "explode"},
        {"do": ["label"]},
        {"do": "label"},
        {"do": "label", "changes": []},
        {"do": "label", "changes": [{"to": "label", "paths": ["a"]}]},
        {"do": "label", "changes": [{"to": "x", "paths": ["a"]}]},
        {"do": "label", "changes": [{"to": "none", "paths": [5]}]},
        {"do": "label", "changes": [5]},
        {"do": "add class", "name": "new", "colour": "red"},
        {"do": "rename class", "name": "nobody", "to": "x"},
        {"do": "merge classes", "name": "cat", "into": "cat"},
        {"do": "redo"},
    ],
)
def test_actions_that_make_no_sense_change_nothing(tmp_path, action):
    with Session(tmp_path) as session:
        session.label(["a"], "cat")
        before = seen(session.state)
        with pytest.raises(TPNError):
            session.act(action)
        assert seen(session.state) == before
    with Session(tmp_path) as session:
        assert session.revision == 1


def test_where_a_session_lies(tmp_path):
    assert session_folder(tmp_path, None) == tmp_path / ".tpn"
    assert not has_session(tmp_path)
    Session(session_folder(tmp_path, None)).close()
    assert has_session(tmp_path)
