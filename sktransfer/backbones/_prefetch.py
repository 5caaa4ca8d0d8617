"""Batches in order, read ahead by threads while the network is busy with earlier ones."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

__all__ = ["iter_batches"]


def iter_batches(batches, batch_size, start=0, n_workers=0):
    """Give the batches of a data set one after the other.

    Parameters
    ----------
    batches : object with ``__len__`` and ``batch(rows)``
        The data.
    batch_size : int
        Rows per batch; the last one may have fewer.
    start : int, default=0
        The first row.
    n_workers : int, default=0
        Number of threads that read batches ahead, as many batches as there are threads; 0 reads
        each batch when it is asked for. Threads, because decoding and resizing leave Python's lock
        alone: they share the data, and no process has to be started.

    Yields
    ------
    rows : slice
        Which rows.
    batch : object
        What ``batches.batch(rows)`` gave.

    Notes
    -----
    Rows come in order whatever the threads do, and nothing is left running when the generator ends,
    fails or is closed. What goes wrong in a thread is done once more in the caller's own, so that
    the error is the one that is raised without threads, and can be interrupted.
    """
    n = len(batches)
    parts = (slice(first, min(first + batch_size, n)) for first in range(start, n, batch_size))
    if n_workers == 0:
        for rows in parts:
            yield rows, batches.batch(rows)
        return
    read = getattr(batches, "read", batches.batch)
    pool = ThreadPoolExecutor(n_workers, thread_name_prefix="sktransfer-read-ahead")
    waiting = deque()

    def read_next():
        rows = next(parts, None)
        if rows is not None:
            waiting.append((rows, pool.submit(read, rows)))

    try:
        for _ in range(n_workers):
            read_next()
        while waiting:
            rows, future = waiting.popleft()
            try:
                batch = future.result()
            except Exception:
                batch = batches.batch(rows)
            del future  # it would keep the batch while the network works on it
            read_next()
            yield rows, batch
            del batch
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
