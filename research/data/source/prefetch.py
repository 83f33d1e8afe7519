"""Prefetching of items by a thread."""

import queue
import threading
from collections.abc import Generator, Iterable


def prefetch(items: Iterable, depth: int = 2) -> Generator:
    """The same items, made ahead by a thread; at most `depth` of them are queued.

    An exception in the thread is raised here instead of the item. The thread ends
    when the generator is closed.
    """
    made: queue.Queue = queue.Queue(depth)
    closed = threading.Event()

    def put(item) -> bool:
        while not closed.is_set():
            try:
                made.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make_items() -> None:
        try:
            if all(put((item, None)) for item in items):
                put((None, StopIteration()))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=make_items, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        closed.set()
        thread.join()
