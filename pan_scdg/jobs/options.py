"""Options of the studies."""

from dataclasses import dataclass
from pathlib import Path

from pan_scdg.jobs.requests import Computing
from pan_scdg.lm.engine import EngineName
from pan_scdg.models.fit import Job
from pan_scdg.profile import ModelSettings
from pan_scdg.scoring.model import ScoringModel


@dataclass(frozen=True)
class RunOptions:
    """What a study was asked for, besides its profiles."""

    input: Path
    output: Path
    device: str
    state: Path | None = None
    model: Path | None = None
    overwrite: bool = False
    strict: bool = False
    engine: EngineName = "packed"
    workers: int | None = None
    index: Path | None = None
    search_memory: int = 1024
    vectors: Path | None = None

    def scoring_model(self, settings: ModelSettings, job: Job = "pairs") -> ScoringModel:
        """Find and check the language model of a profile."""
        return Computing(self.device, self.model, self.engine, self.workers, self.state).open_model(settings, job)
