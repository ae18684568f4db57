"""How much this process grows while something is done."""

import threading

import psutil


class Peak:
    """Samples the resident size every few milliseconds; `mb` is the growth since it began."""

    def __enter__(self):
        self._process = psutil.Process()
        self._start = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.003):
            self._peak = max(self._peak, self._process.memory_info().rss)

    @property
    def mb(self):
        return (self._peak - self._start) / 1e6
