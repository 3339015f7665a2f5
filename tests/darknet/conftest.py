"""Weights files, written once and not left behind: they are up to 200 MB. And the cfgs that Darknet ships."""
import shutil
import tarfile

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


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """The folder of the cfgs that both programs ship."""
    folder = tmp_path_factory.mktemp("shipped")
    with tarfile.open(recorded.FOLDER / "shipped.tar.xz") as archive:
        for member in archive.getmembers():
            if member.isfile():
                (folder / member.name).parent.mkdir(exist_ok=True)
                (folder / member.name).write_bytes(archive.extractfile(member).read())
    return folder
