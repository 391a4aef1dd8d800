"""The container's command; see ``python entrypoint.py --help``."""

import os
import signal


def _stop(_signal: int, _frame: object) -> None:
    """End before anything has begun: the kernel drops a signal that the first process of a container does not take."""
    os.write(2, b"error: stopped. Run the same command again to continue.\n")
    os._exit(3)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)

    from pan_scdg.cli import main

    main()
