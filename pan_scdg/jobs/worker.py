"""What a process does for a job of pairs: score batches, and find the passages of pairs."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.errors import InputError
from pan_scdg.jobs.cluster import open_same_models
from pan_scdg.methods import Measurements, Method, MethodOptions
from pan_scdg.models.find import FoundModel
from pan_scdg.normal_form import restore_spans
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair, Identities, MeasuredPassage, TextPair, TokenGains

if TYPE_CHECKING:
    from pan_scdg.align.locator import PassageLocator
    from pan_scdg.lm.model import ScoringModel
    from pan_scdg.methods.gains import GainMethod
    from pan_scdg.models.encoder import EncoderUse


class ScoreTask(NamedTuple):
    """Score a batch of pairs."""

    pairs: Sequence[TextPair]
    numbers: Sequence[int]
    """Positions of the pairs that have no score from a stopped run."""


class PassageTask(NamedTuple):
    """Find the passages of a pair."""

    pair: TextPair
    with_counted: bool
    """Find the passages that count, too, not only those that do not."""
    with_gains: bool
    """Measure how much easier each passage is to predict given its source."""


PairTask = ScoreTask | PassageTask


class PairWorker:
    """Computes the tasks of a job; each process opens the method by itself.

    In the process of the command, ``on_score`` is called with each score as soon as it is computed.

    Args:
        profile: has a table ``[decide]``.
        options: of the method.
        statistics: of all sources of the input, for a method that counts them.
        explains: the language model measures the gains of passages.
    """

    def __init__(
        self,
        profile: Profile,
        options: MethodOptions,
        statistics: Any = None,
        explains: bool = False,
    ) -> None:
        self.explains = explains
        self.profile, self.options, self.statistics = profile, options, statistics
        self.method: Method = profile.open_method(options, statistics)
        self.on_score: Callable[[TextPair, Measurements], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what opens the method in another process, with the same models."""
        arguments = (self.profile, self.options, self.statistics, self.explains)
        return open_same_models, (PairWorker, arguments, self.identify())

    def __call__(self, task: PairTask) -> Any:
        """Return the scores of a batch that are missing, or the passages of a pair."""
        return self.compute(self.prepare(task))

    def prepare(self, task: PairTask) -> PairTask:
        """Tokenise a batch, where the method does so; see `open_workers`."""
        if isinstance(task, ScoreTask):
            self.method.prepare(task.pairs)
        return task

    def compute(self, task: PairTask) -> Any:
        """Return the result of a task."""
        return self.score(task) if isinstance(task, ScoreTask) else self.find_passages(task)

    def read_texts(self, pair: DocumentPair) -> TextPair:
        """Return the texts of a pair as the profile wants them, raw or in the Unicode form NFC."""
        target, source = pair.suspicious, pair.source
        texts = read_text(target), read_text(source)
        return TextPair.compose(target.doc_id, source.doc_id, *texts, raw_text=self.profile.raw_text)

    def score(self, task: ScoreTask) -> list[Measurements | InputError]:
        """Return the missing scores; once an input cannot be computed, each pair is scored alone."""
        scores: dict[int, Measurements | InputError] = {}
        try:
            for number, score in self.method.score_each(task.pairs, task.numbers):
                scores[number] = score
                if self.on_score is not None:
                    self.on_score(task.pairs[number], score)
        except InputError as e:
            if len(task.pairs) == 1:
                return [e]
        for number in task.numbers:
            if number not in scores:
                (scores[number],) = self.score(ScoreTask([task.pairs[number]], [0]))
        return [scores[number] for number in task.numbers]

    def find_passages(self, task: PassageTask) -> tuple[tuple[MeasuredPassage, ...], TokenGains | None]:
        """Return the passages of a pair in characters of its files, and the gains of their tokens if asked for."""
        pair = task.pair
        passages = self.method.locate(pair.target, pair.source, self.locator, positive=task.with_counted)
        if not task.with_gains:
            return tuple(one._replace(passage=pair.restore(one.passage)) for one in passages), None
        measured = self.gain_method.measure_passages(pair, [one.passage for one in passages])
        spans = restore_spans(pair.original_target, [span for one in measured for span in one.spans]).tolist()
        values = (gain for one in measured for gain in one.gains)
        tokens = {(begin, end): gain for (begin, end), gain in zip(spans, values, strict=True) if begin < end}
        located = tuple(
            one._replace(passage=pair.restore(one.passage), gain=gain.mean)
            for one, gain in zip(passages, measured, strict=True)
        )
        return located, TokenGains(*zip(*sorted(tokens.items()), strict=True)) if tokens else None

    @cached_property
    def locator(self) -> "PassageLocator | None":
        """Return what finds the passages of the table ``[passages]``; None without one."""
        if self.profile.passages is None:
            return None
        from pan_scdg.align.locator import open_locator

        return open_locator(self.profile.passages.encoder, self.options.device, self.method.encoder)

    @cached_property
    def gain_method(self) -> "GainMethod":
        """Return the method that decides by gains, or explains the scores of another one by the gains of all tokens."""
        if self.profile.gains is None:
            raise ValueError(f"profile {self.profile.name} has no table [gains]")
        return self.profile.gains.open_explanation(self.method, self.model)

    @cached_property
    def model(self) -> "ScoringModel":
        """Return the language model of the profile, which explains if another method decides."""
        return self.method.language_model or self.options.open_model(self.profile)

    def list_models(self) -> dict[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job; see `identify`."""
        models = {**self.method.models, **({} if self.locator is None else self.locator.models)}
        return {**models, **({"language_model": self.model.found} if self.explains else {})}

    def list_encoders(self) -> "dict[str, EncoderUse]":
        """Return how the encoders of method and passages are loaded, by their names in the job."""
        return {**self.method.encoders, **({} if self.locator is None else self.locator.encoders)}

    def identify(self) -> Identities:
        """Return the fields of ``job.json`` about the models."""
        fields = {**self.method.identify(), **({} if self.locator is None else self.locator.identify())}
        return {**fields, **({"language_model": self.model.identify()} if self.explains else {})}
