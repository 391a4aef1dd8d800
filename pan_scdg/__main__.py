"""``python -m pan_scdg``: the command line."""

from pan_scdg.cli import main

if __name__ == "__main__":
    main()
