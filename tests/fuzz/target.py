"""A target: valid files, what of them is changed, and the function that reads them."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from formats import Format

CORPUS = Path(__file__).parent / "corpus"
TEXT = ".text"
"""End of the name of a corpus file that is the text of another: what `Format.encode` makes the bytes of."""


@dataclass(frozen=True)
class Target:
    """A reader and what it is fed with."""

    name: str
    read: Callable[[Path], object]
    """Reads what lies in a folder, in full; raises nothing but UserError."""
    forms: Mapping[str, Format]
    """The files that are changed, by their names in the folder."""
    modules: tuple[str, ...]
    """Whose lines are counted."""
    made: Callable[[Path], None] | None = None
    """Puts further valid files into the folder; what can be read by people lies in ``corpus/NAME``."""
    writes: bool = False
    """The reader changes files, so that they are laid out anew for every input."""
    rate: float = 1.0
    """How many inputs, of those that a quick target gets."""
    documented: tuple[type[BaseException], ...] = field(default=())
    """What the reader's docstring promises besides UserError."""

    def sources(self) -> frozenset[str]:
        """The source files of `modules`."""
        found = (importlib.util.find_spec(name) for name in self.modules)
        return frozenset(spec.origin for spec in found if spec is not None and spec.origin is not None)

    def texts(self, folder: Path) -> dict[str, str]:
        """What is changed of each file that was laid out in ``folder``, before it is encoded."""
        return {name: self._text(name, folder) if form.pieces else "" for name, form in self.forms.items()}

    def _text(self, name: str, folder: Path) -> str:
        encoded = CORPUS / self.name / (name + TEXT)
        return (encoded if encoded.is_file() else folder / name).read_text("utf-8")

    def lay_out(self, folder: Path) -> None:
        """Put the valid files into ``folder``, which is made."""
        folder.mkdir(parents=True)
        corpus = CORPUS / self.name
        for path in sorted(corpus.rglob("*")) if corpus.is_dir() else []:
            name = path.relative_to(corpus).as_posix()
            if path.is_dir():
                (folder / name).mkdir(exist_ok=True)
            elif name.endswith(TEXT):
                plain = name.removesuffix(TEXT)
                (folder / plain).write_bytes(self.forms[plain].encode(path.read_text("utf-8")))
            else:
                (folder / name).write_bytes(path.read_bytes())
        if self.made is not None:
            self.made(folder)
