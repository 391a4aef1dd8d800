"""Read profiles, the frozen hyperparameters of a submission: one file per profile, one module per table."""

from pan_scdg.profile.files import SHIPPED, Profile, find_profile, list_profiles, load_profile, parse_profile, read_toml
from pan_scdg.profile.pairs import (
    PAPER_GRID,
    WINDOW_GRID,
    Calibration,
    CalibrationRange,
    PairSettings,
    SegmentSettings,
)
from pan_scdg.profile.passages import PassageSettings
from pan_scdg.profile.retrieval import (
    DAAC_ROUTES,
    Bm25Settings,
    DenseSettings,
    EncoderDtype,
    MatchSettings,
    RetrievalSettings,
    Route,
)
from pan_scdg.profile.table import Control, ModelSettings, Table, WindowSettings

__all__ = [
    "DAAC_ROUTES",
    "PAPER_GRID",
    "SHIPPED",
    "WINDOW_GRID",
    "Bm25Settings",
    "Calibration",
    "CalibrationRange",
    "Control",
    "DenseSettings",
    "EncoderDtype",
    "MatchSettings",
    "ModelSettings",
    "PairSettings",
    "PassageSettings",
    "Profile",
    "RetrievalSettings",
    "Route",
    "SegmentSettings",
    "Table",
    "WindowSettings",
    "find_profile",
    "list_profiles",
    "load_profile",
    "parse_profile",
    "read_toml",
]
