"""crosstalk.torch, compared with PyTorch's own operations in double, and the examples with PyTorch."""

import contextlib
import copy
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
    from crosstalk.torch import TalkingHeadsAttention


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
            layer = TalkingHeadsAttention(16, 4, dtype=dtype)
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
        layer = TalkingHeadsAttention(4, 2, dtype="float64")
        X = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(layer, (X,)))

    def test_the_parameters_are_the_layers_own_memory(self):
        layer = TalkingHeadsAttention(16, 4)
        with torch.no_grad():
            layer.P_o.zero_()
        self.assertTrue((layer(torch.ones(1, 3, 16)) == 0).all())

    def test_a_call_computes_with_what_the_parameters_are_by_then(self):
        def replaced(layer):
            layer.P_l.data = 2 * layer.P_l.data

        def assigned(layer):
            layer.load_state_dict({name: 2 * p for name, p in layer.state_dict().items()}, assign=True)

        def transposed(layer):
            layer.P_w.data = layer.P_w.data.t()

        def saved(layer):
            file = io.BytesIO()
            torch.save(layer, file)
            file.seek(0)
            return torch.load(file, weights_only=False)

        for change in (lambda layer: layer.double().float(), lambda layer: layer.double(), replaced, assigned, transposed,
                       copy.deepcopy, saved):
            layer, X = TalkingHeadsAttention(16, 4), torch.randn(2, 5, 16)
            layer(X)
            layer = change(layer) or layer
            with torch.no_grad():
                layer.P_o.mul_(0.5)
            exact = {name: p.detach().double().requires_grad_() for name, p in layer.named_parameters()}
            X = X.to(layer.P_q.dtype).requires_grad_()
            for _ in range(2):  # the memory that was found is kept
                layer.zero_grad()
                Y = layer(X)
                torch.testing.assert_close(Y.double(), composed(exact, X.double()), rtol=0, atol=1e-5)
                Y.sum().backward()
            composed(exact, X.double()).sum().backward()
            for name, p in layer.named_parameters():
                torch.testing.assert_close(p.grad.double(), exact[name].grad, rtol=0, atol=1e-4, msg=name)

    def test_a_copy_is_another_layer(self):
        layer, X = TalkingHeadsAttention(16, 4), torch.randn(2, 5, 16)
        expected, other = layer(X), copy.deepcopy(layer)
        with torch.no_grad():
            other.P_o.zero_()
        self.assertTrue((other(X) == 0).all())
        torch.testing.assert_close(layer(X), expected, rtol=0, atol=0)

    def test_a_pass_keeps_the_values_that_it_computed_with(self):
        layer, X = TalkingHeadsAttention(8, 2), torch.randn(1, 3, 8)
        layer(X).sum().backward()
        expected = layer.P_q.grad.clone()
        layer.zero_grad()
        Y = layer(X)
        layer.P_q.data = 3 * layer.P_q.data
        layer(X)
        Y.sum().backward()
        torch.testing.assert_close(layer.P_q.grad, expected, rtol=0, atol=0)
        Y = layer(X)
        with torch.no_grad():
            layer.P_q.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            Y.sum().backward()

    def test_masks_memory_bias_and_parameters_of_others(self):
        layer = TalkingHeadsAttention(8, 2, dtype=torch.float64)
        X, M, bias = torch.randn(2, 3, 8).double(), torch.randn(2, 4, 8).double(), torch.randn(2, 3, 4).double()
        given = [one.requires_grad_() for one in (X, M, bias)]
        mask = torch.tensor([[True, True, False, True]] * 2)
        self.assertTrue(torch.autograd.gradcheck(lambda X, M, bias: layer(X, M, key_padding_mask=mask, bias=bias), given))
        doubled = {name: (2 * p).requires_grad_() for name, p in layer.state_dict().items()}
        Y = torch.func.functional_call(layer, doubled, (X,))
        torch.testing.assert_close(Y, composed(doubled, X), rtol=0, atol=1e-11)
        Y.sum().backward()
        self.assertIsNotNone(doubled["P_l"].grad)
        torch.testing.assert_close(layer(X), composed(dict(layer.named_parameters()), X), rtol=0, atol=1e-11)

    def test_errors_name_the_tensor(self):
        layer = TalkingHeadsAttention(8, 2)
        with self.assertRaisesRegex(crosstalk.UsageError, r"X: is bfloat16, .*X\.to\(torch.float32\)"):
            layer(torch.zeros(1, 3, 8, dtype=torch.bfloat16))
        with self.assertRaisesRegex(crosstalk.UsageError, "elements are bfloat16; there are float32"):
            crosstalk.Tensor(torch.zeros(3, dtype=torch.bfloat16))
        layer.P_l.data = torch.eye(3)
        with self.assertRaisesRegex(crosstalk.UsageError, r"P_l: has shape \[3, 3\], and must have \[2, 2\]"):
            layer(torch.zeros(1, 3, 8))
        with self.assertRaisesRegex(crosstalk.UsageError, "P_q: is bfloat16"):
            TalkingHeadsAttention(8, 2).bfloat16()(torch.zeros(1, 3, 8))
        mixed = TalkingHeadsAttention(8, 2)
        mixed.P_o.data = mixed.P_o.data.double()
        with self.assertRaisesRegex(crosstalk.UsageError, "P_o: is float64, and P_q float32"):
            mixed(torch.zeros(1, 3, 8))

    def test_dropout_and_first_values_follow_the_seed_of_pytorch(self):
        def once(seed):
            torch.manual_seed(seed)
            layer = TalkingHeadsAttention(8, 2, dropout_rate=0.5)
            return layer.P_q.detach().clone(), layer(torch.ones(1, 3, 8)), layer.eval()(torch.ones(1, 3, 8))

        for here, same, other in zip(once(1), once(1), once(2)):
            self.assertTrue(torch.equal(here, same) and not torch.equal(here, other))
        self.assertFalse(torch.equal(*once(1)[1:]))

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
