"""A training loop of one's own: it computes what the command's run does, and its folder is read as that run's."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import crosstalk
import numpy

TINY = {"model": "lm", "tokenizer": "bytes", "d_model": 16, "heads": 2, "d_ff": 24, "layers": 1, "input_length": 16,
        "batch": 4, "steps": 6}
OTHERS = {"t5": {"layers": 1}, "bert": {"layers": 1, "vocabulary": 300}, "albert": {"layers": 2, "embedding_size": 8}}


def train(model, steps, dataset=None, optimizer=None):
    optimizer = optimizer or crosstalk.Optimizer(model)
    losses = []
    for step, batch in zip(range(steps), crosstalk.Batches(dataset or crosstalk.Dataset(model))):
        loss = model.loss(batch, step=step)
        optimizer.step(loss.backward())
        losses.append(float(loss))
    return losses, optimizer


class LoopTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_it_has_the_bits_of_a_training(self):
        for name, more in {"lm": {"dropout": 0.1, "optimizer": "adamw", "clip": 0.5}, **OTHERS}.items():
            options = {**TINY, "model": name, **more}
            with crosstalk.Training(self.folder / name, **options) as training:
                expected = [metrics["loss"] for metrics in training]
            model = crosstalk.Model.new(**options)
            losses, _ = train(model, 6)
            numpy.testing.assert_allclose(losses, expected, rtol=1e-6, err_msg=name)  # the loss is float32
            for parameter, array in crosstalk.Model(self.folder / name).parameters.items():
                numpy.testing.assert_array_equal(model.parameters[parameter], array, name + ": " + parameter)

    def test_a_saved_model_is_a_folder_that_commands_read(self):
        model = crosstalk.Model.new(**TINY)
        _, optimizer = train(model, 2)
        model.save(self.folder / "mine", optimizer)
        train(model, 2, optimizer=optimizer)
        model.save(self.folder / "mine", optimizer)
        text = model.generate("It was", max_length=9, temperature=0)
        again = crosstalk.Model(self.folder / "mine")
        self.assertEqual(again.generate("It was", max_length=9, temperature=0), text)

        def command(*words):
            return subprocess.run([os.environ["CROSSTALK_BINARY"], *map(str, words)], capture_output=True, text=True)

        generated = command("generate", self.folder / "mine", "--text", "It was", "--max-length", 9, "--temperature", 0)
        self.assertEqual(generated.stdout.strip(), text.strip(), generated.stderr)
        for words in (("show", self.folder / "mine"), ("eval", "--run", self.folder / "mine"),
                      ("train", "--init-from", self.folder / "mine", "--optimizer-start", "carried", "--optimizer",
                       "adafactor", "--steps", 1, "--out", self.folder / "next")):
            done = command(*words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        model.save(self.folder / "plain")
        model.save(self.folder / "plain")
        other = crosstalk.Model.new(**TINY, seed=2)
        other.load(self.folder / "plain")
        for name, array in other.parameters.items():
            numpy.testing.assert_array_equal(array, model.parameters[name])

    def test_a_model_in_double_and_one_with_frozen_parameters(self):
        crosstalk.Model.new(**TINY).save(self.folder / "mine")
        model = crosstalk.Model(self.folder / "mine", dtype="float64")
        losses, _ = train(model, 2)
        self.assertLess(losses[1], losses[0])
        with self.assertRaisesRegex(crosstalk.UsageError, "in float64, and a folder keeps float32"):
            model.save(self.folder / "double")
        model = crosstalk.Model.new(**TINY, frozen="embedding")
        before = model.parameters["embedding.table"].copy()
        train(model, 2)
        numpy.testing.assert_array_equal(model.parameters["embedding.table"], before)
        with self.assertRaisesRegex(crosstalk.UsageError, "embedding.table is frozen"):
            crosstalk.Optimizer(model).step({"embedding.table": before})

    def test_what_must_not_be_overwritten_is_refused(self):
        model = crosstalk.Model.new(**TINY)
        _, optimizer = train(model, 2)
        model.save(self.folder / "mine", optimizer)
        with self.assertRaisesRegex(crosstalk.UsageError, "holds a checkpoint of step 2"):
            model.save(self.folder / "mine")
        crosstalk.Training(self.folder / "run", **TINY).close()
        with self.assertRaisesRegex(crosstalk.UsageError, "a training's run"):
            model.save(self.folder / "run", optimizer)
        with self.assertRaisesRegex(crosstalk.UsageError, r"not a run's \(.*choose a new folder"):
            model.save(self.folder)
        (name, array), *_ = model.parameters.items()
        array.flat[0] = numpy.nan
        with self.assertRaisesRegex(crosstalk.NumericalError, name):
            model.save(self.folder / "nan")
        self.assertFalse((self.folder / "nan").exists())

    def test_texts_and_arrays_are_learnt(self):
        model = crosstalk.Model.new(**TINY, optimizer="adamw", learning_rate=0.01)
        dataset = crosstalk.Dataset(model, ["one two three four five six seven eight. "] * 40)
        losses, _ = train(model, 40, dataset)
        self.assertLess(losses[-1], 0.7 * losses[0])
        held_out = [float(model.loss(batch, training=False, record=False))
                    for batch in crosstalk.Batches(dataset, part="held-out", batch=2)]
        self.assertEqual(len(held_out), crosstalk.Batches(dataset, part="held-out", batch=2).size)
        self.assertLess(numpy.mean(held_out), 0.7 * losses[0])

        (self.folder / "lines.jsonl").write_text('{"content": "one two three four five six"}\n' * 40)
        lines = crosstalk.Dataset(model, self.folder / "lines.jsonl", text_field="content")
        self.assertIn("one", model.decode(crosstalk.Batches(lines)[0]["inputs"].ravel()))

        model = crosstalk.Model.new(**{**TINY, "tokenizer": "none", "vocabulary": 40}, optimizer="adamw", learning_rate=0.01)
        ids = 3 + numpy.arange(2000) % 7
        dataset = crosstalk.Dataset(model, ids)
        batch = crosstalk.Batches(dataset, batch=2, input_length=8)[0]
        numpy.testing.assert_array_equal(batch["inputs"][:, 1:], batch["targets"][:, :-1])
        losses, _ = train(model, 40, dataset)
        self.assertLess(losses[-1], 0.5 * losses[0])
        rows = numpy.stack([ids[i:i + 16] for i in range(4)])
        with_labels = model.forward(input_ids=rows, labels=rows)
        self.assertLess(float(with_labels), 0.5 * losses[0])
        self.assertEqual(set(with_labels.backward("loss")), set(model.parameters))
        model.save(self.folder / "ids")
        self.assertEqual(crosstalk.Model(self.folder / "ids").search(rows[:1, :8], max_length=3)[0][0]["ids"],
                         list(rows[0, 8:11]))
        for refused, says in ((numpy.array([3, 40]), "40 at place 1"), (numpy.array([3, 0, 4]), "0 at place 1 is padding"),
                              (numpy.array([3, 4]), "too short"), ("novel.txt", "no tokenizer"), (["text"], "no tokenizer")):
            with self.assertRaisesRegex(crosstalk.Error, says):
                crosstalk.Batches(crosstalk.Dataset(model, refused))

    def test_an_optimizer_goes_on_from_its_state(self):
        options = {**TINY, "optimizer": "adamw"}
        straight, cut = crosstalk.Model.new(**options), crosstalk.Model.new(**options)
        train(straight, 4)
        batches = crosstalk.Batches(crosstalk.Dataset(cut))
        optimizer = crosstalk.Optimizer(cut)
        for step in range(4):
            if step == 2:
                numpy.savez(self.folder / "state.npz", **optimizer.state)
                optimizer = crosstalk.Optimizer(cut)
                with numpy.load(self.folder / "state.npz") as state:
                    optimizer.load(state)
            done = optimizer.step(cut.loss(batches[step]).backward())
        self.assertEqual((done["step"], optimizer.description["step"]), (4, 4))
        for name, array in cut.parameters.items():
            numpy.testing.assert_array_equal(array, straight.parameters[name])

    def test_a_layer_has_an_optimizer(self):
        layer = crosstalk.Attention(d_model=8, heads=2, attention="talking")
        optimizer = crosstalk.Optimizer(layer, optimizer="adamw", schedule="constant", warmup=0, learning_rate=0.01, clip=1)
        X, losses = numpy.random.default_rng(1).standard_normal((2, 5, 8)).astype("float32"), []
        for _ in range(20):
            forward = layer.forward(X)
            losses.append((forward["Y"] ** 2).mean())
            metrics = optimizer.step(forward.backward("Y", 2 * forward["Y"] / forward["Y"].size))
        self.assertLess(losses[-1], 0.9 * losses[0])
        self.assertEqual(metrics["learning_rate"], 0.01)
        before = layer.parameters["P_l"].copy()
        gradients = {"P_l": numpy.ones((2, 2), "float32")}
        optimizer.step(gradients, learning_rate=0)
        numpy.testing.assert_array_equal(layer.parameters["P_l"], before)
        for refused, error, says in (
                ({"P_l": numpy.nan * gradients["P_l"]}, crosstalk.NumericalError, r"P_l\[0\] = nan"),
                ({"P_L": gradients["P_l"]}, crosstalk.UsageError, "there is no parameter"),
                ({"P_l": numpy.ones((2, 2))}, crosstalk.UsageError, "P_l is float64")):
            with self.assertRaisesRegex(error, says):
                optimizer.step(refused)
        numpy.testing.assert_array_equal(layer.parameters["P_l"], before)

    def test_options_that_are_not_known_or_not_read_are_named(self):
        model = crosstalk.Model.new(**TINY)
        for refused, field in ((lambda: crosstalk.Model.new(modell="lm"), "modell"),
                               (lambda: crosstalk.Model.new(model="lm", heads=3, d_model=16, tokenizer="bytes"), "key_size"),
                               (lambda: crosstalk.Model.new(**TINY, init_from="x"), "init_from"),
                               (lambda: crosstalk.Optimizer(model, batch=3), "batch"),
                               (lambda: crosstalk.Optimizer(model, learning_rate=-1), "learning_rate"),
                               (lambda: crosstalk.Optimizer(model, learning_rate=numpy.float64("nan")), "learning_rate"),
                               (lambda: crosstalk.Optimizer(model, optimizer="adafactor", weight_decay=0.1), "weight_decay"),
                               (lambda: crosstalk.Batches(crosstalk.Dataset(model), part="test"), "part"),
                               (lambda: crosstalk.Batches(crosstalk.Dataset(model), input_length=17), "input_length"),
                               (lambda: crosstalk.Dataset(model, steps=3), "steps")):
            with self.assertRaises(crosstalk.UsageError) as raised:
                refused()
            self.assertEqual(raised.exception.field, field)

    def test_threads_are_as_before_after_a_with(self):
        model = crosstalk.Model.new(**TINY)
        with crosstalk.threads(1):
            with crosstalk.threads(2):
                one, _ = train(model, 2)
        two, _ = train(crosstalk.Model.new(**TINY), 2)
        self.assertEqual(one, two)

    def test_a_model_of_another_kind_is_not_loaded_in_part(self):
        model, other = crosstalk.Model.new(**TINY), str(self.folder / "other")
        before = {name: array.copy() for name, array in model.parameters.items()}
        for options in ({"layers": 2}, {"attention": "multihead"}, {"d_ff": 32}, {"tokenizer": "none", "vocabulary": 300}):
            crosstalk.Model.new(**{**TINY, "seed": 2, **options}).save(other)
            with self.assertRaises(crosstalk.UsageError):
                model.load(other)
            for name, array in model.parameters.items():
                numpy.testing.assert_array_equal(array, before[name])
        letters = {**TINY, "tokenizer": "characters", "vocabulary": 16}
        (self.folder / "digits.txt").write_text("0123456789 #$%&* " * 300)
        crosstalk.Model.new(**letters, data=self.folder / "digits.txt").save(other)
        with self.assertRaisesRegex(crosstalk.UsageError, "its tokenizer gives other ids"):
            crosstalk.Model.new(**letters).load(other)

    def test_slips_are_answered_at_once(self):
        model = crosstalk.Model.new(**{**TINY, "tokenizer": "characters"})
        with self.assertWarnsRegex(UserWarning, "unknown to the tokenizer"):
            (self.folder / "digits.txt").write_text("0123456789 #$%&* " * 300)
            crosstalk.Dataset(model, self.folder / "digits.txt")
        batches = crosstalk.Batches(crosstalk.Dataset(model))
        optimizer, loss = crosstalk.Optimizer(model), model.loss(batches[0])
        state = {name: array.copy() for name, array in optimizer.state.items()}
        broken = {name: array * numpy.float32("nan") if array.dtype == "float32" else array for name, array in state.items()}
        ids = numpy.full((1, 4), 5)
        for slip in (lambda: model.loss(batches), lambda: model.loss({"input_ids": ids, "labels": ids}),
                     lambda: optimizer.step(loss), lambda: batches[2**64], lambda: batches[1.5],
                     lambda: crosstalk.set_threads(2**32 + 1), lambda: crosstalk.set_threads("2")):
            with self.assertRaises(crosstalk.UsageError):
                slip()
        with self.assertRaises(crosstalk.NumericalError):
            optimizer.load(broken)
        optimizer.load(state)
