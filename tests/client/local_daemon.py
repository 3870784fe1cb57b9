"""A daemon of a test's own, which may be killed and started again. Needs HONE_BIN and HONE_KERNELS."""

import json
import os
import pathlib
import subprocess
import time

BIN = pathlib.Path(os.environ["HONE_BIN"])


class LocalDaemon:
    """Keeps its socket, cache and log in ``directory``. ``options`` are honed's."""

    def __init__(self, directory, *options):
        self.endpoint = f"unix:{directory}/s"
        self.directory = directory
        self.options = options
        self.start()

    def start(self):
        with open(f"{self.directory}/log", "a") as log:
            self.process = subprocess.Popen(
                [
                    str(BIN / "honed"),
                    *("--listen", self.endpoint, "--cache-dir", f"{self.directory}/cache"),
                    *("--kernels", os.environ["HONE_KERNELS"], "--compile-timeout", "5m"),
                    *self.options,
                ],
                stderr=log,
            )
        while self.process.poll() is None and not os.path.exists(f"{self.directory}/s"):
            time.sleep(0.01)
        if self.process.poll() is not None:
            raise RuntimeError(pathlib.Path(f"{self.directory}/log").read_text())
        self.hone("--wait", "60", "status")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def hone(self, *arguments):
        """What `hone ARGUMENTS` prints; an error says what it said."""
        done = subprocess.run(
            [str(BIN / "hone"), "--endpoint", self.endpoint, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"hone {' '.join(arguments)}: {done.returncode}: {done.stderr}")
        return done.stdout

    def counters(self):
        return json.loads(self.hone("-o", "json", "status"))["counters"]
