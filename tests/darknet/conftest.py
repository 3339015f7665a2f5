"""Weights files, written once and not left behind: they are up to 200 MB."""
import shutil

import pytest
import recorded


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def weights(folder):
    """``weights(name, seed)`` is the path of the weights that the arrays of that name were recorded with."""
    return lambda name, seed: recorded.weights(name, seed, folder)
