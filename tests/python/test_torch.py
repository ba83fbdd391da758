"""The examples with PyTorch: talking_heads_torch.py, whose layer is compared with PyTorch's own operations in double,
and small_models_torch.py."""

import contextlib
import io
import os
import re
import sys
import unittest

import crosstalk
import numpy

sys.path.insert(0, os.environ["CROSSTALK_SOURCE"] + "/examples")
try:
    import torch
except ImportError:
    torch = None
else:
    import small_models_torch
    import talking_heads_torch


def composed(p, X):
    """Talking-heads attention in PyTorch's operations; see test_attention.py."""
    Q, K, V = (torch.einsum("bnd,dhk->bhnk", X, p[name]) for name in ("P_q", "P_k", "P_v"))
    L = torch.einsum("bhnk,bhmk,hg->bgnm", Q, K, p["P_l"])
    U = torch.einsum("bhnm,hg->bgnm", torch.softmax(L, -1), p["P_w"])
    return torch.einsum("bhnm,bhmv,hvd->bnd", U, V, p["P_o"])


@unittest.skipIf(torch is None, "there is no torch here")
class TorchTest(unittest.TestCase):
    def test_values_and_gradients_are_pytorchs_own(self):
        for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 1e-4)):
            layer = talking_heads_torch.TalkingHeads(16, 4, dtype=str(dtype).split(".")[1])
            X = torch.tensor(numpy.random.default_rng(1).standard_normal((2, 7, 16)), dtype=dtype, requires_grad=True)
            dY = torch.tensor(numpy.random.default_rng(2).standard_normal((2, 7, 16)), dtype=dtype)
            Y = layer(X)
            Y.backward(dY)
            exact = {name: p.detach().double().requires_grad_() for name, p in layer.named_parameters()}
            expected_X = X.detach().double().requires_grad_()
            expected = composed(exact, expected_X)
            expected.backward(dY.double())
            torch.testing.assert_close(Y.double(), expected, rtol=0, atol=tolerance)
            torch.testing.assert_close(X.grad.double(), expected_X.grad, rtol=0, atol=tolerance)
            for name, p in layer.named_parameters():
                torch.testing.assert_close(p.grad.double(), exact[name].grad, rtol=0, atol=tolerance, msg=name)

    def test_gradcheck_agrees(self):
        layer = talking_heads_torch.TalkingHeads(4, 2, dtype="float64")
        X = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(layer, (X,)))

    def test_the_parameters_are_the_layers_own_memory(self):
        layer = talking_heads_torch.TalkingHeads(16, 4)
        with torch.no_grad():
            layer.P_o.zero_()
        self.assertTrue((layer.layer(numpy.ones((1, 3, 16), "float32")) == 0).all())

    def test_a_tensor_is_read_where_it_is(self):
        X = torch.zeros(2, 3)
        tensor = crosstalk.Tensor(X)
        X[1, 2] = 5
        self.assertEqual(tensor.numpy()[1, 2], 5)
        back = torch.from_dlpack(tensor)
        back[0, 0] = 7
        self.assertEqual(X[0, 0], 7)

    def test_the_example_learns(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            talking_heads_torch.main()
        errors = [float(error) for error in re.findall(r"error ([0-9.]+)", output.getvalue())]
        self.assertLess(errors[-1], 0.2 * errors[0], output.getvalue())


@unittest.skipIf(torch is None, "there is no torch here")
class SmallModelsTest(unittest.TestCase):
    def test_heads_that_are_mixed_by_the_identity_are_multi_head(self):
        losses = []
        for kind in ("multihead", "talking"):
            torch.manual_seed(0)
            model = small_models_torch.LanguageModel(16, 2, 4, 8, kind)
            torch.manual_seed(1)
            losses.append(model(*torch.randint(small_models_torch.VOCABULARY, (2, 3, 8))))
        torch.testing.assert_close(losses[0], losses[1])

    def test_the_sizes_are_those_of_bench(self):
        with open(os.environ["CROSSTALK_SOURCE"] + "/tools/lab/bench/step.cc") as source:
            rows = re.findall(r"{(\.d_model = [^}]*, \.batch = \d+)}", source.read())
        self.assertEqual([tuple(map(int, re.findall(r"\d+", row))) for row in rows], small_models_torch.SIZES)

    def test_a_row_has_the_times_on_one_thread_and_on_all(self):
        output, threads = io.StringIO(), torch.get_num_threads()
        try:
            with contextlib.redirect_stdout(output):
                small_models_torch.main(["--filter", "small-16", "--seconds", "0"])
        finally:
            torch.set_num_threads(threads)
        rows = re.findall(r"^(small-\S+) +([0-9.]+) +([0-9.]+)$", output.getvalue(), re.MULTILINE)
        self.assertEqual([row[0] for row in rows], ["small-16-multihead", "small-16-talking"], output.getvalue())
        self.assertTrue(all(float(time) > 0 for row in rows for time in row[1:]), output.getvalue())
