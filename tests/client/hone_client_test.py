#!/usr/bin/env python3
"""The Python package against a real daemon on the CPU reference device.

    HONE_BIN=DIR HONE_KERNELS=DIR PYTHONPATH=DIR python3 tests/client/hone_client_test.py

deploy/test.sh runs it on what deploy/wheel.sh built. Needs numpy, which speaks DLPack.
"""

import asyncio
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import hone_client
from hone_client import aio, errors
from local_daemon import BIN, LocalDaemon
from tls_relay import TlsRelay, make_identity


class HoneClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.daemon = LocalDaemon(cls.directory.name, "--device", "cpu")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.kill()
        cls.directory.cleanup()

    def setUp(self):
        self.client = self.connect()

    def connect(self):
        return hone_client.connect(self.daemon.endpoint, enable_cpu_device=True)

    def kernel(self, template, **params):
        return self.client.kernel(template, architecture="cpu", max_wait=600, **params)

    def rmsnorm(self, cols=256, dtype="f32"):
        return self.kernel("rmsnorm", T=dtype, rows=64, cols=cols)

    def test_results_are_right_at_sizes_that_were_not_asked_for(self):
        kernel = self.rmsnorm()
        w = np.random.rand(256).astype(np.float32)
        for rows in (0, 1, 7, 64, 1000):
            x = np.random.randn(rows, 256).astype(np.float32)
            y = np.empty_like(x)
            self.assertIs(kernel(x, w, out=y, eps=1e-5), y)
            expected = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        self.assertEqual(kernel.source, "DEFAULT")
        self.assertIn("THREADS_PER_ROW", kernel.config)
        self.assertIs(kernel.is_stale, False)

    def test_a_dtype_may_be_given_as_libraries_name_it(self):
        for dtype in ("f16", "float16", np.float16, np.dtype("float16")):
            kernel = self.kernel("copy_1d", T=dtype, n=100)
            x = np.arange(100, dtype=np.float16)
            np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)

    def test_what_is_only_read_may_be_read_only(self):
        kernel = self.rmsnorm()
        x, w = np.random.randn(4, 256).astype(np.float32), np.ones(256, np.float32)
        expected = kernel(x, w, out=np.empty_like(x), eps=1e-5)
        x.setflags(write=False)
        w.setflags(write=False)
        np.testing.assert_array_equal(kernel(x, w, out=np.empty_like(x), eps=1e-5), expected)
        y = np.empty_like(x)
        y.setflags(write=False)
        with self.assertRaisesRegex(ValueError, "'y' is read-only, and the kernel writes it"):
            kernel(x, w, out=y, eps=1e-5)

    def test_what_is_wrong_with_an_argument_is_said_before_the_launch(self):
        kernel = self.rmsnorm()
        x = np.zeros((4, 256), np.float32)
        w = np.zeros(256, np.float32)
        y = np.empty_like(x)
        wrong = [
            (TypeError, "scalar 'eps' is missing", lambda: kernel(x, w, out=y)),
            (TypeError, "array 'weight' is missing", lambda: kernel(x, out=y, eps=1)),
            (TypeError, "'weight' is of float64, the kernel takes F32",
             lambda: kernel(x, w.astype(np.float64), out=y, eps=1)),
            (ValueError, "'x' has 1 dimensions, the kernel takes 2",
             lambda: kernel(w, w, out=y, eps=1)),
            (ValueError, r"size 'rows' is 4 in dimension 0 of 'y', but 3",
             lambda: kernel(x[:3], w, out=y, eps=1)),
            (errors.InvalidArgumentError, r"'weight' has shape \[255\]",
             lambda: kernel(x, w[1:], out=y, eps=1)),
            (ValueError, "size 'rows' is given as 9, the arrays say 4",
             lambda: kernel(x, w, out=y, eps=1, rows=9)),
            (errors.FailedPreconditionError, "buffer 'x' has stride",
             lambda: kernel(np.asfortranarray(x), w, out=y, eps=1)),
            (TypeError, "takes no 'epsilon'", lambda: kernel(x, w, out=y, epsilon=1)),
            (TypeError, "3 arrays are given by position", lambda: kernel(x, w, y, eps=1)),
            (TypeError, "'x' is given twice", lambda: kernel(x, w, x=x, out=y, eps=1)),
            (TypeError, "is no array", lambda: kernel(x, 3.0, out=y, eps=1)),
            (TypeError, "stream .* is neither", lambda: kernel(x, w, out=y, eps=1, stream="s")),
        ]  # fmt: skip
        kernel.prepare()
        for kind, text, call in wrong:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()
        kernel(x, w, out=y, eps=1)

    def test_what_the_daemon_refuses_comes_with_its_code(self):
        with self.assertRaises(errors.NotFoundError) as raised:
            self.kernel("no_such_template").prepare()
        self.assertEqual(raised.exception.code, "NOT_FOUND")
        with self.assertRaisesRegex(ValueError, 'params.T: "F99" is not one of'):
            self.kernel("copy_1d", T="F99", n=1).prepare()
        with self.assertRaisesRegex(TypeError, "neither a size, a name nor a flag"):
            self.kernel("copy_1d", T=[], n=1)
        with self.assertRaisesRegex(TypeError, "made by Client.kernel"):
            hone_client.Kernel()
        client = hone_client.connect(f"unix:{self.directory.name}/none", connect_timeout=0.1)
        with self.assertRaisesRegex(ConnectionError, "start the daemon with 'honed'"):
            client.kernel("copy_1d", n=1, architecture="cpu").prepare()

    # scenario P45
    def test_calls_go_on_while_the_daemon_is_away(self):
        kernel = self.kernel("copy_1d", T="f32", n=64).prepare()
        x = np.random.rand(64).astype(np.float32)
        self.daemon.kill()
        try:
            np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)
        finally:
            self.daemon.start()
        another = self.kernel("copy_1d", T="f32", n=1 << 20)
        np.testing.assert_array_equal(another(x, out=np.zeros_like(x)), x)

    # scenario P45
    def test_a_pack_answers_while_the_daemon_is_away(self):
        # What is tuned here would answer the other tests, too.
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        daemon = LocalDaemon(directory.name, "--device", "cpu")
        self.addCleanup(daemon.kill)
        daemon.hone("tune", "copy_1d", "T=F32", "n=4096",
                    "--config", "XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0")  # fmt: skip
        pack = pathlib.Path(directory.name) / "pack"
        # The command leaves out what runs on the CPU; this program of the tests does not.
        exporter = BIN.parent / "tests" / "client" / "export_host_pack"
        subprocess.run([str(exporter), daemon.endpoint, str(pack)], check=True)
        daemon.kill()
        client = hone_client.connect(daemon.endpoint, enable_cpu_device=True, pack=pack)
        kernel = client.kernel("copy_1d", T="f32", n=4096, architecture="cpu", max_wait=600)
        self.assertIsNone(kernel.from_pack)
        x = np.random.rand(5000).astype(np.float32)
        np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)
        self.assertEqual((kernel.source, kernel.generation), ("TUNED", 0))
        self.assertIs(kernel.from_pack, True)
        self.assertIn("start the daemon", client.daemon_error)
        missing = client.kernel("copy_1d", T="u8", n=1, architecture="cpu")
        with self.assertRaisesRegex(errors.NotFoundError, "no kernel .*no hone daemon"):
            missing.prepare()

        daemon.start()
        deadline = time.monotonic() + 300
        while kernel.from_pack and time.monotonic() < deadline:
            client.refresh()
        self.assertIs(kernel.from_pack, False)
        self.assertGreater(kernel.generation, 0)
        np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)
        self.assertIsNone(client.daemon_error)
        with self.assertRaisesRegex(errors.NotFoundError, "no_such_pack"):
            hone_client.connect(daemon.endpoint, pack=f"{pack}.no_such_pack")

    # scenario P44
    def test_a_forked_child_connects_anew(self):
        kernel = self.kernel("copy_1d", T="f32", n=64).prepare()
        x = np.random.rand(64).astype(np.float32)
        child = os.fork()
        if child == 0:
            another = self.kernel("copy_1d", T="f32", n=1 << 21)
            ok = (another(x, out=np.zeros_like(x)) == x).all()
            ok = ok and (kernel(x, out=np.zeros_like(x)) == x).all()
            os._exit(0 if ok else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)

    # Python's own ssl module is in this process, too.
    def test_a_daemon_behind_tls_is_asked_as_one_on_a_socket(self):
        if shutil.which("openssl") is None:
            self.skipTest("there is no program openssl to make a certificate with")
        ours, theirs = f"{self.directory.name}/ours", f"{self.directory.name}/theirs"
        for directory in (ours, theirs):
            os.makedirs(directory)
        certificate, key = make_identity(ours, "localhost")
        foreign, _ = make_identity(theirs, "localhost")
        relay = TlsRelay(self.daemon.endpoint.partition(":")[2], certificate, key)
        self.addCleanup(relay.close)

        def prepared(host, **options):
            client = hone_client.connect(
                f"{host}:{relay.port}", enable_cpu_device=True, connect_timeout=5, **options
            )
            return client.kernel("copy_1d", T="f32", n=64, architecture="cpu").prepare()

        kernel = prepared("localhost", tls_ca_file=pathlib.Path(certificate))
        x = np.random.rand(64).astype(np.float32)
        np.testing.assert_array_equal(kernel(x, out=np.zeros_like(x)), x)
        os.environ["HONE_TLS_CA_FILE"] = certificate
        try:
            prepared("localhost")
        finally:
            del os.environ["HONE_TLS_CA_FILE"]
        wrong = [
            (errors.FailedPreconditionError, "issued by nobody", "localhost", foreign),
            (errors.FailedPreconditionError, "not for '127.0.0.1'", "127.0.0.1", certificate),
            (ValueError, "/nowhere/ca.pem", "localhost", "/nowhere/ca.pem"),
            (ConnectionError, "tls_ca_file", "localhost", None),
        ]
        for kind, text, host, ca_file in wrong:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                prepared(host, tls_ca_file=ca_file)

    def test_kernels_are_prepared_without_blocking_an_event_loop(self):
        kernels = [self.kernel("copy_1d", T=t, n=1 << 9) for t in ("f32", "f16", "bf16", "u8")]
        asyncio.run(aio.prepare(kernels, concurrency=2))
        self.assertEqual([k.source for k in kernels], ["DEFAULT"] * 4)
        with self.assertRaises(errors.NotFoundError):
            asyncio.run(aio.prepare([self.kernel("no_such_template")]))

    def test_threads_share_a_kernel(self):
        kernel = self.kernel("copy_1d", T="f32", n=1 << 10)
        failures = []

        def work():
            x = np.random.rand(333).astype(np.float32)
            if not (kernel(x, out=np.zeros_like(x)) == x).all():
                failures.append(x)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_launches_are_recorded_where_the_environment_says(self):
        captures = f"{self.directory.name}/captures"
        program = (
            "import sys, numpy as np, hone_client\n"
            "client = hone_client.connect(sys.argv[1], enable_cpu_device=True)\n"
            "kernel = client.kernel('copy_1d', T='f32', n=64, architecture='cpu', max_wait=600)\n"
            "x = np.arange(5000, dtype=np.float32)\n"
            "for _ in range(3):\n"
            "    kernel(x, out=np.zeros_like(x))\n"
            "print(client.capture_status)\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program, self.daemon.endpoint],
            env={**os.environ, "HONE_CAPTURE": captures},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertIn(f"recording into {captures}", ran.stdout)
        listed = self.daemon.hone("tune", "--from", captures, "--list")
        self.assertRegex(listed, r"n=5000 +cpu +3 ")
        self.assertEqual(self.client.capture_status, "")

    def test_a_host_with_its_own_grpc_and_protobuf_is_left_alone(self):
        program = (
            "import ctypes, sys\n"
            "for name in ('libprotobuf.so.32', 'libgrpc++.so.1.51', 'libabsl_time.so.20220623'):\n"
            "    ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)\n"
            "import numpy as np, hone_client\n"
            "client = hone_client.connect(sys.argv[1], enable_cpu_device=True)\n"
            "kernel = client.kernel('copy_1d', T='f32', n=64, architecture='cpu', max_wait=600)\n"
            "x = np.arange(64, dtype=np.float32)\n"
            "assert (kernel(x, out=np.zeros_like(x)) == x).all()\n"
        )
        try:
            ctypes.CDLL("libgrpc++.so.1.51")
        except OSError as missing:
            self.skipTest(str(missing))
        subprocess.run([sys.executable, "-c", program, self.daemon.endpoint], check=True)


if __name__ == "__main__":
    unittest.main()
