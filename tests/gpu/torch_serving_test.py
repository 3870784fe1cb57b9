#!/usr/bin/env python3
"""A serving process on the GPU: PyTorch's tensors and graphs, a daemon that comes and goes.

    HONE_BIN=DIR HONE_KERNELS=DIR PYTHONPATH=DIR python3 tests/gpu/torch_serving_test.py

Needs a GPU, PyTorch and the hone_client wheel.
"""

import importlib.util
import pathlib
import sys
import tempfile
import threading
import time
import unittest

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client"))

import hone_client
from hone_client import errors
from local_daemon import LocalDaemon

TIMEOUT_S = 60


class Interface:
    """A tensor for those who know the CUDA array interface only."""

    def __init__(self, tensor):
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class Capsule:
    """A tensor for those who know DLPack's Python protocol only."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class TorchServingTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.daemon = LocalDaemon(self.directory.name, "--device", "cuda")
        torch.zeros(1, device="cuda")  # whose context the kernels are for
        self.client = hone_client.connect(self.daemon.endpoint)

    def tearDown(self):
        self.daemon.kill()
        self.directory.cleanup()

    def rmsnorm(self, cols=4096):
        return self.client.kernel("rmsnorm", T="bf16", rows=64, cols=cols)

    def inputs(self, rows, cols=4096):
        x = torch.randn(rows, cols, dtype=torch.bfloat16, device="cuda")
        w = torch.rand(cols, dtype=torch.bfloat16, device="cuda")
        return x, w

    def expect(self, y, x, w):
        expected = torch.nn.functional.rms_norm(x.float(), (x.shape[1],), w.float(), 1e-6)
        torch.testing.assert_close(y.float(), expected, atol=1e-3, rtol=1.6e-2)

    def until(self, condition, what):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what} did not come within {TIMEOUT_S} s")
            time.sleep(0.01)

    def tune(self):
        """Makes another config than the untuned one the winner."""
        before = self.client.latest_generation
        self.daemon.hone("tune", "rmsnorm", "T=BF16", "rows=64", "cols=4096",
                         "--config", "THREADS_PER_ROW=256 ROWS_PER_BLOCK=1 VEC=8 KEEP=1")  # fmt: skip
        self.until(lambda: self.client.latest_generation > before, "a new generation")

    def test_other_sizes_and_offsets_need_no_daemon_after_a_tune(self):
        self.daemon.hone("tune", "copy_1d", "T=F32", "n=67108864", "--evaluations", "12")
        kernel = self.client.kernel("copy_1d", T="f32", n=1 << 26).prepare()
        self.assertEqual(kernel.source, "TUNED")
        self.daemon.kill()
        memory = torch.randn((1 << 26) + 8, device="cuda")
        for n in (1 << 26, (1 << 26) + 1, 12_345_678, 1, 0):
            for offset in (0, 1, 2, 4):
                src = memory[offset : offset + n]
                out = torch.full((n + 4,), 7.0, device="cuda")
                kernel(src, out=out[1 : n + 1])
                self.assertTrue(torch.equal(out[1 : n + 1], src), (n, offset))
                self.assertEqual([out[0].item(), *out[n + 1 :].tolist()], [7.0] * 4)

    # scenario P45
    def test_a_serving_loop_outlives_the_daemon_and_is_upgraded_when_it_is_back(self):
        kernel = self.rmsnorm().prepare()
        untuned = kernel.config
        x, w = self.inputs(100)
        launches, failures, stop = [0], [], threading.Event()

        def serve():
            torch.cuda.set_device(0)
            try:
                while not stop.is_set():
                    y = kernel(x, w, out=torch.empty_like(x), eps=1e-6)
                    self.expect(y, x, w)
                    launches[0] += 1
            except Exception as failure:  # whatever it is, the test fails by it
                failures.append(failure)

        def until_more_launches():
            seen = launches[0]
            self.until(lambda: launches[0] > seen + 50 or failures, "launches")

        server = threading.Thread(target=serve)
        server.start()
        try:
            until_more_launches()
            self.daemon.kill()
            until_more_launches()
            self.daemon.start()
            until_more_launches()
            self.tune()
            self.assertEqual(kernel.config, untuned)
            self.assertEqual(self.client.refresh(), 1)
            self.assertNotEqual(kernel.config, untuned)
            until_more_launches()
        finally:
            stop.set()
            server.join()
        self.assertEqual(failures, [])

    # scenario P49
    def test_a_graph_captured_before_a_refresh_replays_after_it(self):
        kernel = self.rmsnorm().prepare()
        untuned = kernel.config
        x, w = self.inputs(37)
        y = torch.empty_like(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(x, w, out=y, eps=1e-6)
        self.tune()
        self.assertEqual(self.client.refresh(), 1)
        self.assertNotEqual(kernel.config, untuned)
        for _ in range(3):
            x.normal_()
            graph.replay()
            self.expect(y, x, w)
            self.expect(kernel(x, w, out=torch.empty_like(x), eps=1e-6), x, w)

    # scenario P49
    def test_a_cold_kernel_is_refused_in_a_capture_which_stays_valid(self):
        kernel, cold = self.rmsnorm().prepare(), self.rmsnorm(1024)
        x, w = self.inputs(8)
        other_x, other_w = self.inputs(8, 1024)
        y, other_y = torch.empty_like(x), torch.empty_like(other_x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for stream in (None, torch.cuda.current_stream()):
                with self.assertRaisesRegex(errors.FailedPreconditionError, "before the capture"):
                    cold(other_x, other_w, out=other_y, eps=1e-6, stream=stream)
            kernel(x, w, out=y, eps=1e-6)
        self.assertIsNone(cold.source, "nothing was fetched")
        graph.replay()
        self.expect(y, x, w)
        self.expect(cold(other_x, other_w, out=other_y, eps=1e-6), other_x, other_w)

    # scenario P49
    def test_a_capture_survives_that_another_thread_prepares(self):
        kernel, cold = self.rmsnorm().prepare(), self.rmsnorm(2048)
        x, w = self.inputs(8)
        y = torch.empty_like(x)
        graph = torch.cuda.CUDAGraph()

        def prepare():
            torch.cuda.set_device(0)
            cold.prepare()

        with torch.cuda.graph(graph):  # in the global mode
            other = threading.Thread(target=prepare)
            other.start()
            other.join()
            kernel(x, w, out=y, eps=1e-6)
        self.assertEqual(cold.source, "DEFAULT")
        graph.replay()
        self.expect(y, x, w)

    def test_launches_are_ordered_by_the_stream_that_is_current_in_torch(self):
        kernel = self.rmsnorm().prepare()
        x, w = self.inputs(512)
        stream = torch.cuda.Stream()
        for explicit in (False, True):
            x.zero_()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                x.copy_(torch.ones_like(x))
            if explicit:
                y = kernel(x, w, out=torch.empty_like(x), eps=1e-6, stream=stream)
            else:
                with torch.cuda.stream(stream):
                    y = kernel(x, w, out=torch.empty_like(x), eps=1e-6)
            torch.cuda.synchronize()
            self.expect(y, torch.ones_like(x), w)

    def test_arrays_of_the_cuda_array_interface_and_of_dlpack_are_taken(self):
        kernel = self.rmsnorm()
        for wrap in (Interface, Capsule, lambda tensor: tensor):
            x = torch.randn(5, 4096, device="cuda", dtype=torch.float16)
            w = torch.rand(4096, device="cuda", dtype=torch.float16)
            y = torch.empty_like(x)
            half = self.client.kernel("rmsnorm", T="f16", rows=64, cols=4096)
            half(wrap(x), wrap(w), out=wrap(y), eps=1e-6)
            torch.cuda.synchronize()
            self.expect(y, x, w)
        x, w = self.inputs(4)
        with self.assertRaisesRegex(ValueError, "not on a GPU"):
            kernel(x.cpu(), w, out=torch.empty_like(x), eps=1e-6)

    @unittest.skipUnless(importlib.util.find_spec("cupy"), "needs CuPy")
    def test_cupy_arrays_and_streams(self):
        import cupy

        kernel = self.client.kernel("softmax", T="f32", rows=64, cols=1000)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            x = cupy.random.standard_normal((70, 1000), dtype=cupy.float32)
            y = cupy.full_like(x, 7)
        for given in (stream, stream.ptr):
            kernel(x, out=y, stream=given)
            stream.synchronize()
            powers = numpy.exp(x.get().astype(float))
            numpy.testing.assert_allclose(
                y.get(), powers / powers.sum(axis=1, keepdims=True), rtol=2e-5, atol=1e-7
            )
        # In CuPy's row-major order only.
        with self.assertRaisesRegex(errors.FailedPreconditionError, "has stride"):
            kernel(cupy.asfortranarray(x), out=y, stream=stream)
        chain = self.client.kernel("elementwise", f="swiglu", A="f16", rows=64, cols=256)
        a, b = (cupy.random.standard_normal((9, 256)).astype(cupy.float16) for _ in range(2))
        out = chain(a, b, out=cupy.empty_like(a))
        cupy.cuda.Device().synchronize()
        a, b = a.get().astype(float), b.get().astype(float)
        numpy.testing.assert_allclose(out.get(), a / (1 + numpy.exp(-a)) * b, rtol=2e-3, atol=1e-4)

    @unittest.skipIf(torch.cuda.device_count() < 2, "needs two GPUs")
    def test_two_gpus_in_one_process(self):
        kernel = self.rmsnorm().prepare()
        for device in (1, 0, 1):
            x, w = (each.to(f"cuda:{device}") for each in self.inputs(9))
            self.expect(kernel(x, w, out=torch.empty_like(x), eps=1e-6), x, w)
            self.assertEqual(torch.cuda.current_device(), 0, "it is left as it was")


if __name__ == "__main__":
    unittest.main()
