"""What a source span of the retention study is held against before its pair becomes an instance."""

from pan_scdg.research.data.data_folders import DataFolders
from pan_scdg.research.retention.chunks import cannot_divide
from pan_scdg.research.retention.distractors import read_pool
from pan_scdg.research.retention.instances import Check


def checks_of(folders: DataFolders) -> tuple[Check, Check]:
    """Conditions 5 and 6: that the span divides into chunks, and that the news can replace each of them.

    Raises:
        UserError: the folder of news has no article.
    """
    return cannot_divide, read_pool(folders.multinews).lacks
