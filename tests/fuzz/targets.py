"""All targets, by name."""

from index_targets import INDEXES
from input_targets import INPUTS
from model_targets import MODELS
from output_targets import OUTPUTS

TARGETS = {target.name: target for target in (*INPUTS, *OUTPUTS, *INDEXES, *MODELS)}
