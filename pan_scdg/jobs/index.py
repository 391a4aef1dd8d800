"""Build the indexes of a corpus for later runs."""

from pathlib import Path

from pan_scdg.cluster.session import Cluster
from pan_scdg.jobs.output.status import STATUS, write_status
from pan_scdg.models.fit import choose_device
from pan_scdg.notices import Notices
from pan_scdg.pan.corpus import Corpus
from pan_scdg.profile import Profile
from pan_scdg.retrieval.candidates import load_retrieval_encoder
from pan_scdg.retrieval.catalogue import index_corpus


def make_index(profile: Profile, directory: Path, folder: Path, device: str, cluster: Cluster, add: bool) -> list[str]:
    """Build the indexes that a profile needs of the corpus in ``directory``; return a line for each.

    While they are built, the folder holds a status, which a process that is killed leaves there.

    Raises:
        UserError: see `index_corpus`; or the profile retrieves nothing, or its encoder is not usable.
    """
    settings = profile.need_retrieval()
    encoder = load_retrieval_encoder(settings, choose_device(profile, device))
    with write_status(folder):
        lines = index_corpus(Corpus(directory, Notices()), folder, settings, encoder, cluster, add)
    (folder / STATUS).unlink(missing_ok=True)
    return lines
