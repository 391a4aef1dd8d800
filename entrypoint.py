"""The container's command; see ``python entrypoint.py --help``."""

from pan_scdg.cli import main

if __name__ == "__main__":
    main()
