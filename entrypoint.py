"""The container's command; see ``python entrypoint.py --help``."""

import _signal  # ``signal`` takes a while to import, and the kernel drops what process 1 has no handler for
import os


def _stop(_number: int, _frame: object) -> None:
    """End before anything has begun."""
    os.write(2, b"stopped: run the same command again to continue.\n")
    os._exit(3)


if __name__ == "__main__":
    _signal.signal(_signal.SIGTERM, _stop)

    from pan_scdg.cli import main

    main()
