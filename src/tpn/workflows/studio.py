"""Label a folder in the browser."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpn.errors import TPNError, TPNWarning
from tpn.text import printable
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.studio_options import StudioOptions

if TYPE_CHECKING:
    from tpn.studio_server.server import Studio


@takes(StudioOptions)
def studio(folder: str | Path, **options: Any) -> "Studio":
    """Open a folder of images in the studio: a page in the browser where a few labels spread to all images.

    The call returns at once; the server runs in the background until `close`, or until the process ends. Labels are
    kept in the session of the folder as they are given, and the next call continues from there.

    Parameters
    ----------
    folder : str or Path
        The images: all in this folder and below.
    {options}

    Returns
    -------
    Studio
        Has `url` (the address of the page), `wait()` and `close()`.

    Examples
    --------
    >>> with tpn.studio("photos") as opened:
    ...     opened.wait()
    """
    settings = build(StudioOptions, options)
    refuse_unknown("studio", options, StudioOptions)
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise TPNError("The studio needs starlette and uvicorn: `pip install 'tpn[studio]'`.") from None
    from tpn.images.cache_folder import cache_folder
    from tpn.labelling.features import read_features
    from tpn.labelling.label_lists import label_files
    from tpn.labelling.labelled_folder import find_images, read_known_labels
    from tpn.labelling.session import Session, session_folder
    from tpn.studio_server.server import Studio
    from tpn.studio_server.workspace import Workspace

    images = find_images(Path(folder))
    read_known_labels(images, settings.labels, needed=False)
    features = None if settings.features is None else read_features(settings.features, len(images.names))
    session = Session(session_folder(images.path, settings.session_folder))
    try:
        if label_files(settings.labels) != [] or session.revision == 0:
            session.take(images.labels, "tpn studio")
        workspace = Workspace(
            images,
            session,
            settings.backbone,
            cache_folder(settings.cache),
            printable(images.path.name),
            settings.threads,
        )
        opened = Studio(workspace, settings.host, settings.port)
    except BaseException:
        session.close()
        raise
    for sentence in images.problems.sentences:
        warnings.warn(sentence, TPNWarning, stacklevel=2)
    workspace.start(features)
    opened.start()
    if not settings.no_browser and "ipykernel" not in sys.modules:
        opened.open_browser()
    return opened
