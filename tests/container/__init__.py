"""Tests of the image; a package, so that the image goes when its last test ends and not with the process."""
