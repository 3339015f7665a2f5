"""The batches of an epoch, for one process and for many."""
import gluonops as gops
import pytest
from gluonops import train


def workers_of(count, devices):
    return [train.Workers(None, rank, count, devices) for rank in range(count)]


@pytest.mark.parametrize("images, size, workers, devices", [
    (100, 10, 1, 1), (100, 10, 2, 1), (101, 10, 2, 1), (7, 3, 2, 1), (41, 4, 3, 2), (60, 60, 4, 1)])
def test_each_worker_reads_its_own_shard(images, size, workers, devices):
    plans = [train.plan(images, size, 3, 5, worker) for worker in workers_of(workers, devices)]
    read = [index for plan in plans for indices, _ in plan for index in indices]
    assert sorted(read) == list(range(images))   # each image once, by one worker
    whole = train.plan(images, size * workers, 3, 5, train.Workers(devices=devices * workers))
    for i, (indices, count) in enumerate(whole):   # the parts of a batch are the batch of one process
        parts = [plan[i] for plan in plans]
        assert sorted(indices) == sorted(index for part, _ in parts for index in part)
        assert all(total == count == len(indices) for _, total in parts)
        assert all(len(part) >= devices for part, _ in parts)
    assert train.plan(images, size, 3, 6, workers_of(workers, devices)[0]) != plans[0]   # another order


def test_too_few_images():
    with pytest.raises(gops.OpError, match="a batch has 3 images for 4 devices; expected at least one image for each "
                       "device. Use larger batches"):
        train.plan(3, 8, 0, 0, train.Workers(None, 0, 2, 2))


@pytest.mark.parametrize("accumulate, kind, updates", [(1, "device", 5), (2, "device", 3), (2, "dist_async", 6)])
def test_updates(accumulate, kind, updates):
    count = 2 if kind == "dist_async" else 1
    workers = train.Workers(count=count, kind=kind)
    assert train.updates_per_epoch(20 * count, 4, workers, accumulate) == updates
