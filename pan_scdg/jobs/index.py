"""Build the indexes of a corpus for later runs."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.jobs.output.status import write_status
from pan_scdg.locks import lock_folder
from pan_scdg.models.fit import choose_device
from pan_scdg.notices import Notices
from pan_scdg.own_files import HIDDEN, refuse_link
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import Profile
from pan_scdg.retrieval.candidates import load_retrieval_encoder
from pan_scdg.retrieval.catalogue import CATALOGUE, index_corpus


def make_index(profile: Profile, directory: Path, folder: Path, device: str, cluster: Cluster, add: bool) -> list[str]:
    """Build the indexes that a profile needs of the corpus in ``directory``; return a line for each.

    While they are built, a hidden folder holds the status; a process that is killed leaves it there.

    Raises:
        UserError: see `index_corpus`; or the profile retrieves nothing, its encoder is not usable, or the folder is in
            use.
    """
    settings = profile.need_retrieval()
    encoder = load_retrieval_encoder(settings, choose_device(profile, device))
    if add and not os.path.lexists(folder / CATALOGUE):
        raise UserError("no index to add to", "make one with the command index, without --add", folder / CATALOGUE)
    corpus, hidden = Corpus(directory, Notices()), folder / HIDDEN
    with lock_folder(folder, "the index", "--index"):
        refuse_link(hidden)
        hidden.mkdir(exist_ok=True)
        try:
            with write_status(hidden):
                lines = index_corpus(corpus, folder, settings, encoder, cluster, add)
        except UserError:
            with suppress(OSError):
                hidden.rmdir()  # it is empty if the command was refused before it began
            raise
        shutil.rmtree(hidden)
    return lines
