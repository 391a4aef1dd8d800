"""Peak memory of a model's device, for the benchmarks."""

import resource
from collections.abc import Callable
from pathlib import Path


class Memory:
    """Largest memory on the model's device: a GPU's beside what is on it now, or the process's on a CPU."""

    def __init__(self, device: str) -> None:
        self._device, self._before = device, 0
        if self._on_gpu:
            import torch

            torch.cuda.synchronize(device)
            self._before = torch.cuda.memory_allocated(device)

    @property
    def _on_gpu(self) -> bool:
        return self._device != "cpu"

    def reset(self) -> None:
        """Forget earlier peaks."""
        if self._on_gpu:
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            Path("/proc/self/clear_refs").write_text("5")  # the largest resident memory becomes the present one

    @property
    def resident(self) -> int:
        """Return the bytes that `peak` holds before anything is computed: those of the process, 0 for a GPU."""
        if self._on_gpu:
            return 0
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    @property
    def peak(self) -> int:
        """Return the largest number of bytes."""
        if self._on_gpu:
            import torch

            return torch.cuda.max_memory_allocated(self._device) - self._before
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def taken_by(self, action: Callable[[], object]) -> int:
        """Run ``action`` and return the bytes that it took at most."""
        self.reset()
        before = self.resident
        action()
        return max(0, self.peak - before)
