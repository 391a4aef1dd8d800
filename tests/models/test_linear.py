"""Linear layers that oneDNN computes, against those of torch."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from pan_scdg.models.linear import use_onednn

pytestmark = pytest.mark.skipif(
    "AVX" not in torch.backends.cpu.get_cpu_capability(), reason="this processor has no AVX instructions"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (2, 5), (3000,)])
@torch.inference_mode()
def test_layers_at_every_depth_give_what_they_gave(rows: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(24, 40, bias=bias), nn.Sequential(nn.LayerNorm(40), nn.Linear(40, 16, bias=bias)))
    inputs = torch.randn(*rows, 24)
    expected = deepcopy(model).double()(inputs.double())
    use_onednn(model)
    assert [name for name, _ in model.named_parameters() if "weight" in name] == ["1.0.weight"]  # kept once
    torch.testing.assert_close(model(inputs), expected.float(), rtol=1e-5, atol=1e-5)


def test_other_layers_are_left_alone() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    model = nn.Sequential(Doubled(3, 4), nn.Linear(4, 4).bfloat16())
    use_onednn(model)
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert torch.equal(model[0](torch.ones(3)), Doubled.forward(model[0], torch.ones(3)))
