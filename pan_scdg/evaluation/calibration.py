"""What the record of a profile's calibration data says about a result on other, or on the very same, data."""

from pan_scdg.profile import Calibration


def calibration_note(calibration: Calibration | None, digest: str) -> str | None:
    """One sentence when the evaluated data (its digest) chose this profile's parameter and threshold, else None."""
    if calibration is None or calibration.digest != digest:
        return None
    negatives = calibration.pairs - calibration.positives
    return (
        f"q or w and the threshold of this profile were chosen on these very {calibration.pairs} pairs "
        f"({calibration.positives} positive, {negatives} negative): the figures say how well it fits, "
        "not how well it does on new pairs"
    )
