"""A run driven from Python is the command's run; and its model."""

import concurrent.futures
import json
import pathlib
import tempfile
import unittest

import crosstalk
import differences
import numpy

TINY = {"model": "lm", "tokenizer": "bytes", "d_model": 16, "heads": 2, "d_ff": 24, "layers": 1, "input_length": 16,
        "batch": 4, "steps": 6, "eval_every": 3, "eval_batches": 1}


class TrainingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_it_tells_its_steps_and_evaluations(self):
        evaluations = []  # tests/bits holds its weights against the command's
        training = crosstalk.Training(self.folder / "python", on_evaluation=evaluations.append, **TINY)
        self.assertEqual([metrics["step"] for metrics in training], [1, 2, 3, 4, 5, 6])
        self.assertEqual([evaluation["step"] for evaluation in evaluations], [3, 6])
        self.assertFalse(training.step())

    def test_it_stops_saves_and_goes_on(self):
        list(crosstalk.Training(self.folder / "whole", **TINY))
        asked = []
        training = crosstalk.Training(self.folder / "cut", stop=lambda: asked.append(1) or len(asked) > 30, **TINY)
        asked.clear()
        asked.extend([0] * 28)
        with self.assertRaises(crosstalk.Stopped):
            list(training)
        training.close()
        training = crosstalk.Training(self.folder / "cut", resume="auto")
        self.assertGreater(training.description["step"], 0)
        list(training)
        self.assertEqual((self.folder / "cut/model.safetensors").read_bytes(),
                         (self.folder / "whole/model.safetensors").read_bytes())

    def test_what_a_callback_raises_ends_the_run_with_a_checkpoint_and_goes_on_behind_it(self):
        def refuse(evaluation):
            raise KeyError("mine")

        training = crosstalk.Training(self.folder / "run", on_evaluation=refuse, **TINY)
        with self.assertRaisesRegex(KeyError, "mine"):
            list(training)
        self.assertEqual(training.description["step"], 3)
        training.save()
        self.assertTrue(list((self.folder / "run/checkpoints").iterdir()))

    def test_a_with_saves_the_steps_done(self):
        with self.assertRaises(KeyboardInterrupt):
            with crosstalk.Training(self.folder / "run", **TINY) as training:
                training.step()
                training.step()
                raise KeyboardInterrupt
        self.assertEqual(crosstalk.Training(self.folder / "run", resume="auto").description["step"], 2)

    def test_a_save_writes_what_is_in_memory(self):
        training = crosstalk.Training(self.folder / "run", **TINY)

        def saved():
            (name, array), *_ = training.model.parameters.items()
            array += 1
            training.save()
            return (crosstalk.Model(self.folder / "run").parameters[name] == array).all()

        self.assertTrue(saved() and saved(), "before the first step")
        list(training)
        self.assertTrue(saved(), "after the last one")
        checkpoint = max((self.folder / "run/checkpoints").iterdir())
        self.assertEqual((self.folder / "run/model.safetensors").read_bytes(),
                         (checkpoint / "model.safetensors").read_bytes())
        self.assertIsNone(json.loads((checkpoint / "state.json").read_text())["evaluation"], "is of other weights")
        before = checkpoint.stat().st_mtime_ns
        training.save()
        self.assertEqual(checkpoint.stat().st_mtime_ns, before, "nothing has changed")
        training.close()
        self.assertFalse(crosstalk.Training(self.folder / "run", resume="auto").step())

    def test_an_option_that_is_not_known_is_named(self):
        with self.assertRaises(crosstalk.UsageError) as raised:
            crosstalk.Training(self.folder / "run", d_modell=3)
        self.assertEqual(raised.exception.field, "d_modell")
        with self.assertRaisesRegex(crosstalk.UsageError, 'stps: .*; did you mean "steps"'):
            crosstalk.Training(self.folder / "run", stps=3)
        with self.assertRaises(crosstalk.DataError):
            crosstalk.Training(self.folder / "run", data=str(self.folder / "nothing.txt"))

    def test_a_path_is_not_cut_at_a_nul(self):
        one = str(self.folder / "one")
        for refused in (lambda: crosstalk.Training(one + "\0two", **TINY), lambda: crosstalk.Model(one + "\0two"),
                        lambda: crosstalk.Training(one, resume="auto\0two", **TINY),
                        lambda: crosstalk.Training(one, data=one + "\0two")):
            with self.assertRaisesRegex(crosstalk.UsageError, "NUL"):
                refused()
        self.assertEqual(list(self.folder.iterdir()), [])
        model = crosstalk.Training(self.folder / "run", **TINY, shards=2).model
        self.assertEqual(model.decode(model.encode("one\0two")), "one\0two")  # a text may hold one

    def test_its_model_can_be_asked_between_steps(self):
        training = crosstalk.Training(self.folder / "run", **TINY)
        model = training.model
        before = {name: array.copy() for name, array in model.parameters.items()}
        training.step()
        self.assertTrue(any((array != before[name]).any() for name, array in model.parameters.items()))
        self.assertIsInstance(model.generate("The", max_length=4), str)


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        with crosstalk.Training(cls.folder.name + "/run", **TINY) as training:
            list(training)
        cls.model = crosstalk.Model(cls.folder.name + "/run")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_texts_become_vectors(self):
        texts = ["one", "a fox", "one"]
        vectors = self.model.embed(texts, pooling="last", normalize=True)
        self.assertEqual((vectors.shape[0], vectors.dtype), (3, numpy.float32))
        numpy.testing.assert_array_equal(vectors[0], vectors[2])
        numpy.testing.assert_allclose((vectors ** 2).sum(1), 1, rtol=1e-6)
        numpy.testing.assert_array_equal(self.model.embed(texts[1], pooling="last", normalize=True)[0], vectors[1])
        self.assertFalse(numpy.array_equal(self.model.embed(texts), vectors))
        for wrong in (lambda: self.model.embed([]), lambda: self.model.embed(texts, pooling="sum")):
            with self.assertRaises(crosstalk.UsageError):
                wrong()

    def test_logits_and_loss_belong_together(self):
        ids = self.model.encode("a small fox")[None]
        labels = ids.astype("int64")
        labels[0, 3] = -100
        outputs = self.model(input_ids=ids, labels=labels)
        logits = outputs["logits"][0, :-1].astype("float64")  # of the token after each
        log_p = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
        nats = -log_p[numpy.arange(ids.shape[1] - 1), ids[0, 1:]]
        self.assertAlmostEqual(float(outputs["loss"]), numpy.delete(nats, 2).mean(), delta=1e-5)

    def test_gradients_are_those_of_differences(self):
        model = crosstalk.Model(self.folder.name + "/run", dtype="float64")
        ids = model.encode("a small fox")[None]
        gradients = model.forward(input_ids=ids, labels=ids).backward("loss")
        parameters = model.parameters
        self.assertEqual(set(gradients), set(parameters))
        differences.check(self, gradients, parameters, lambda: float(model(input_ids=ids, labels=ids)["loss"]), 1e-5)

    def test_generate_streams_and_stops(self):
        pieces = []
        text = self.model.generate("The", lambda piece, by_the_model: pieces.append((piece, by_the_model)), max_length=9,
                                   temperature=1, seed=3)
        self.assertEqual("".join(piece for piece, _ in pieces), text)
        self.assertEqual(pieces[0], ("The", False))
        some = self.model.generate("The", lambda piece, by_the_model: by_the_model, max_length=9, temperature=1, seed=3)
        self.assertTrue(text.startswith(some))
        self.assertLess(len(some), len(text))

        def refuse(piece, by_the_model):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.model.generate("The", refuse)

    def test_search_and_the_tokenizer(self):
        ids = self.model.encode("a fox")
        self.assertEqual(ids.dtype, numpy.dtype("int32"))
        self.assertEqual(self.model.decode(ids), "a fox")
        answers = self.model.search(numpy.stack([ids, ids]), beams=2, answers=2, max_length=3)
        self.assertEqual(answers[0], answers[1])
        self.assertGreaterEqual(answers[0][0]["score"], answers[0][1]["score"])

    def test_threads_may_use_it_at_once(self):
        ids = self.model.encode("a small fox")[None]
        expected = self.model(input_ids=ids)["logits"]
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for logits in threads.map(lambda _: self.model(input_ids=ids)["logits"], range(40)):
                numpy.testing.assert_array_equal(logits, expected)

    def test_what_holds_no_model_is_an_error_of_data(self):
        with self.assertRaisesRegex(crosstalk.DataError, "holds no run"):
            crosstalk.Model(self.folder.name)
        with self.assertRaisesRegex(crosstalk.DataError, "nothing: there is no such file or folder$"):
            crosstalk.Model(self.folder.name + "/nothing")

    def test_texts_are_str_or_utf_8(self):
        text = self.model.generate("Thé", max_length=4, temperature=0)
        self.assertEqual(self.model.generate("Thé".encode(), max_length=4, temperature=0), text)
        numpy.testing.assert_array_equal(self.model.encode("Thé".encode()), self.model.encode("Thé"))
        with self.assertRaisesRegex(crosstalk.UsageError, "prompt is no UTF-8 text: byte 2"):
            self.model.generate("Thé".encode("latin-1"))
        with self.assertRaisesRegex(TypeError, "a text is a str or UTF-8 bytes, not list"):
            self.model.generate([1, 2])
