"""All targets, by name."""

from input_targets import INPUTS

TARGETS = {target.name: target for target in INPUTS}
