"""Methods that score a pair of texts, one file each.

A method measures numbers. Its table in the profile, a `MethodSettings`, makes one score of them and opens the method;
what decides, writes and calibrates is the same for all methods.
"""

import importlib.util
import re
import sys
import traceback
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.find import FoundModel
from pan_scdg.records import Identities, MeasuredPassage, Passage, Reason, Span, TextPair
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.gains import Gains
from pan_scdg.scdg.thresholds import Choice, choose_threshold
from pan_scdg.settings import Calibration, EngineName, ProfileTables, Table

if TYPE_CHECKING:
    from pan_scdg.align.locator import PassageLocator
    from pan_scdg.align.vectors import SentenceEncoder
    from pan_scdg.lm.model import ScoringModel
    from pan_scdg.models.encoder import EncoderUse

METHODS = {
    "gains": "pan_scdg.methods.gains:GainSettings",
    "alignment": "pan_scdg.methods.alignment:AlignmentSettings",
    "containment": "pan_scdg.methods.containment:ContainmentSettings",
    "char-ngrams": "pan_scdg.methods.char_ngrams:CharNgramSettings",
    "gram-logistic": "pan_scdg.methods.containment:GramLogisticSettings",
    "bm25": "pan_scdg.methods.bm25:Bm25PairSettings",
    "cosine": "pan_scdg.methods.cosine:CosineSettings",
    "vectors": "pan_scdg.methods.vectors:VectorSettings",
    "prompt": "pan_scdg.methods.prompts:PromptSettings",
}
"""Module and settings of each method, which is imported when a profile has its table: ``[char_ngrams]`` etc."""
FILES: dict[str, Path] = {}
"""The files of the methods that `register_method` registered."""
IMPORTED: dict[str, tuple[Path, ...]] = {}
"""The modules in the folder of each of these files that it imports at its beginning."""
OWN_MODULE = "pan_scdg_method_"
UNKNOWN_SCRIPT = "unknown_script"
"""The code of a reason: to the embedding model all texts in a script that it does not know are alike."""
Values = Mapping[str, float]
"""The numbers that a method measured on a pair, by name."""
Settings = TypeVar("Settings", bound="MethodSettings")


class Measurements(NamedTuple):
    """The numbers that a method measured on a pair."""

    values: dict[str, float]
    """By name; ``score`` for a method that measures one number."""
    reasons: tuple[Reason, ...] = ()
    incidents: tuple[str, ...] = ()
    """Events that may have changed the last digits, such as a lack of memory."""
    gains: Gains | None = None
    """Of the tokens of the target; None unless they are kept."""
    offsets: npt.NDArray[np.int64] | None = None
    """First character of each token in the target, and the one after its last, ``[n, 2]``."""


class Method:
    """Scores pairs of texts; models are found when it is made and loaded when it scores."""

    models: Mapping[str, FoundModel] = {}
    """The models that it uses, by their names in ``job.json``."""
    fingerprint: str = ""
    """Of the model that the scores depend on; empty without one."""
    encoders: Mapping[str, "EncoderUse"] = {}
    """How its encoders are loaded, by their names in ``job.json``."""
    encoder: "SentenceEncoder | None" = None
    """The encoder of sentences that it opened, which others share."""
    language_model: "ScoringModel | None" = None
    """The language model that it opened."""
    selects: bool = False
    """It has a first stage for many pairs, `select`."""

    def identify(self) -> Identities:
        """Return the fields of ``job.json`` that identify the models."""
        return {}

    def check(self, pair: TextPair) -> None:
        """Raise UserError if a pair cannot be scored; called for all pairs before the first is scored."""

    def prepare(self, pairs: Sequence[TextPair]) -> None:
        """Make what needs no device for pairs that are scored later."""

    @abstractmethod
    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return the scores of a batch of pairs, in order."""

    def score_each(self, pairs: Sequence[TextPair], numbers: Sequence[int]) -> Iterator[tuple[int, Measurements]]:
        """Yield the number of each of some pairs of a batch with its score, as soon as it is computed.

        The scores are those of `score`: last digits may depend on all pairs of the batch.
        """
        scores = self.score(pairs)
        yield from ((number, scores[number]) for number in numbers)

    def select(self, targets: Iterable[str], sources: Iterable[str], least: float) -> list[tuple[int, int]]:
        """Return the target and the source of the pairs whose score may reach ``least``, in order; no other pair does.

        Args:
            targets: suspicious documents, read once, one at a time.
            sources: candidate sources, read once and before the targets.
            least: the score that a pair has to reach.
        """
        raise TypeError("this method has no first stage")

    def detect(self, pair: TextPair) -> tuple[Passage, ...]:
        """Return the passages of a positive pair, if the profile has no table ``[passages]``: both documents."""
        return cover_both(pair)

    def locate(
        self, target: str, source: str, locator: "PassageLocator | None" = None, *, positive: bool = True
    ) -> list[MeasuredPassage]:
        """Return the passages of a pair, in the order of the target; no two overlap in it.

        Args:
            target: the suspicious document.
            source: the candidate source.
            locator: of the table ``[passages]``; None: the profile has none, and passages are found by their words.
            positive: the decision; of other pairs only the passages that do not count are returned.
        """
        from pan_scdg.align.locator import PassageLocator

        return (locator or PassageLocator()).locate(target, source, positive=positive)

    def explain(self, measured: Measurements) -> dict[str, Any]:
        """Return the fields of a result in Python about what was measured on a pair."""
        return {}


@dataclass(frozen=True)
class MethodOptions:
    """Options of a command for all methods."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    model: Path | None = None
    """Folder of the language model; None: found by its name in the profile."""
    vectors: Path | None = None
    """Folder of document vectors, for the method ``vectors``."""
    engine: EngineName | None = None
    """None: packed if the model can be."""
    keep_gains: bool = False
    """Return the gain of every token."""
    all_settings: bool = False
    """Measure what ``calibrate`` chooses from, for example all n of the grid."""

    def open_model(self, profile: ProfileTables) -> "ScoringModel":
        """Return the language model of a profile; it is found now and loaded for the first input."""
        from pan_scdg.lm.model import ScoringModel

        settings, raw_text = profile.need_model(), profile.raw_text
        return ScoringModel(settings, self.device, folder=self.model, engine=self.engine, raw_text=raw_text)


class MethodSettings(Table):
    """The table of a method in a profile, and all that commands need to know of the method.

    A subclass has the fields of the table. It opens the method, makes one score of the numbers that the method
    measured, and says what else depends on the method: what ``calibrate`` chooses, models, warnings.
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    """Fields that ``calibrate`` chooses together with the threshold."""
    features: ClassVar[tuple[str, ...]] = ()
    """Numbers that ``calibrate`` fits a logistic model on; there is no score without its weights."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Options in `MethodOptions` that are an error with most methods, and that this one reads."""
    max_batch: ClassVar[int | None] = None
    """Largest number of pairs that are scored, and saved, together; None: what `BATCH_CHARACTERS` permits."""
    shares_texts: ClassVar[bool] = False
    """A text is computed once for the pairs of a batch that share it."""
    unclear_margin: ClassVar[float | None] = None
    """A score at most this far below the threshold is unclear; None: a share of the calibration's negatives decides."""
    finds_passages: ClassVar[bool] = False
    """`Method.find_passages` finds them in the texts alone; that of other methods covers both documents."""
    needs_input: ClassVar[bool] = False
    """Scores depend on all documents of an input, so that single texts have none."""
    excludes_parts: ClassVar[bool] = False
    """Quotations, lists of references and the like do not count."""
    decides_short_texts: ClassVar[bool] = False
    """It decides itself whether a short text is long enough."""

    @abstractmethod
    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method.

        Args:
            profile: the other tables, such as ``[model]``.
            options: device, folders and what is kept.
            statistics: what `count_sources` returned.

        Raises:
            UserError: a model or vectors are missing.
        """

    def list_models(self) -> list[str]:
        """Return the names of the models that the method loads."""
        return []

    def find_dtype(self, models: Identities) -> str | None:
        """Return the dtype that the scores depend on, given the models of a job; None without one."""
        return None

    def count_sources(self, texts: Iterable[str]) -> Any:
        """Return what the scores need to know of all sources of an input, each of which ``texts`` yields once."""
        return None

    def warn_of_sources(self, statistics: Any, threshold: float | None) -> list[Reason]:
        """Return what limits decisions about all sources of an input, given what `count_sources` returned."""
        return []

    def compute_score(self, values: Values) -> float:
        """Return the score of a pair from the numbers that the method measured.

        Raises:
            KeyError: a number is missing, for example that of another q.
        """
        return values["score"]

    def can_decide(self, values: Values) -> bool:
        """Return False if a pair is negative whatever its score."""
        return True

    def is_copy(self, values: Values) -> bool:
        """Return True if a pair is reuse for its verbatim words alone."""
        return False

    def describe(self, values: Values) -> dict[str, float | str]:
        """Return the numbers of a pair that are reported with its decision."""
        return {} if len(values) == 1 else dict(values)

    def warn(self, values: Values, threshold: float | None, calibration: "Calibration | None") -> list[Reason]:
        """Return what limits the decision on a pair, given the threshold and the calibration that apply."""
        return []

    def vary(self: Settings) -> dict[float, Settings]:
        """Return the settings that ``calibrate`` chooses from, by their parameter; 0 stands for no parameter."""
        return {0.0: self}

    def fit(self: Settings, values: Sequence[Values], labels: Sequence[bool]) -> Settings:
        """Return the settings with weights fitted on pairs; unchanged for a method without ``features``."""
        if not self.features:
            return self
        from pan_scdg.methods.logistic import fit_logistic

        rows = [[pair[name] for name in self.features] for pair in values]
        return self.model_copy(update={"weights": fit_logistic(rows, list(labels))})

    def choose(self, scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], max_false_positives: float) -> Choice:
        """Return the parameter and the threshold with the largest F1 on pairs with truth.

        Args:
            scores_by: scores of the pairs by the parameter of `vary`, each ``[pairs]``.
            labels: True where the source was reused, ``[pairs]``.
            max_false_positives: largest share of negative pairs that may be positive.

        Raises:
            UserError: all pairs have the same label, or every threshold calls too many negatives positive.
        """
        return choose_threshold(scores_by, labels, max_false_positives)


def load_settings(method: str) -> type[MethodSettings]:
    """Return the class of a method's table."""
    module, _, name = METHODS[method].partition(":")
    settings: type[MethodSettings] = getattr(import_module(module), name)
    return settings


def register_method(path: Path) -> str:
    """Register the method in a Python file, which is run; return its name, the file's with hyphens: ``my-method``.

    The file has one class of settings. It counts as the module ``pan_scdg_method_NAME``.

    Raises:
        UserError: the file is missing, cannot be run, or has no method or a name that cannot be one.
    """
    path = path.absolute()  # a link has the name of the method
    method, module_name = path.stem.replace("_", "-"), f"{OWN_MODULE}{path.stem}"
    if FILES.get(method) == path:
        return method
    if path.suffix != ".py" or not path.is_file():
        raise UserError("is not a Python file", "correct --method", path)
    if not re.fullmatch("[a-z][a-z0-9_]*", path.stem) or (method in METHODS and method not in FILES):
        what = "the name of the file is that of the method, which it cannot be"
        raise UserError(what, "use small letters, digits and underscores, and no name of another method", path)
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError("is not a Python file", "correct --method", path)
    module, before = importlib.util.module_from_spec(spec), {*sys.modules}
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[module_name]
        lines = [frame.lineno for frame in traceback.extract_tb(e.__traceback__) if frame.filename == str(path)]
        line = e.lineno if isinstance(e, SyntaxError) else lines[-1] if lines else None
        raise UserError(f"cannot be run: {type(e).__name__}: {e}", "correct the method", path, line) from e
    kinds = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, MethodSettings) and value.__module__ == module_name
    ]
    if len(kinds) != 1:
        what = f"has {len(kinds)} classes of settings, not one"
        raise UserError(what, "see the extensions in docs/architecture.md", path)
    METHODS[method], FILES[method] = f"{module_name}:{kinds[0]}", path
    imported = (getattr(sys.modules[name], "__file__", None) for name in sys.modules.keys() - before - {module_name})
    folder = path.resolve().parent
    IMPORTED[method] = tuple(
        sorted(file for name in imported if name and (file := Path(name).resolve()).parent == folder)
    )
    return method


def cover_both(pair: TextPair) -> tuple[Passage, ...]:
    """Return one passage over both texts; none if either is empty, since evaluators fail on a feature of length 0."""
    if not pair.target or not pair.source:
        return ()
    return (Passage(Span(0, len(pair.target)), Span(0, len(pair.source))),)


def check_target(pair: TextPair) -> None:
    """Raise UserError if the suspicious document is empty."""
    if not pair.target.strip():
        raise UserError("the suspicious document is empty", "remove the pair", pair.target_id)
