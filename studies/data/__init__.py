"""The data of the studies: manifests, splits and folds."""
