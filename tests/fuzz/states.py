"""Everything with a state that can be loaded: how to make one, use it and read its state."""

import functools

import numpy as np
from scipy.sparse import csr_array

import mixfree as mf
from tests.helpers import make

COLUMNS = 3


@functools.cache
def data(rows=48, columns=COLUMNS):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, columns))
    return x, x @ np.arange(1.0, 1.0 + columns) + 0.1 * rng.standard_normal(rows)


class Subject:
    """One kind of object: ``new()`` makes it, ``use(it)`` lets it learn, with its state read."""

    loads = "load_state_dict"

    def __init__(self, new, use):
        self.new, self._use = new, use

    def use(self, it):
        return self._use(it)

    def state(self, it):
        return it.state_dict()

    def load(self, it, state):
        it.load_state_dict(state)
        return it


class Made(Subject):
    """A class whose objects are made from a state."""

    def __init__(self, new, use, load, state=lambda it: it.state_dict()):
        super().__init__(new, use)
        self._load, self._state = load, state

    def state(self, it):
        return self._state(it)

    def load(self, it, state):
        return self._load(state)


def _tell(opt):
    x, _ = data(24)
    for row in x:
        try:
            for sample in opt.offer(row):
                opt.tell(opt.x - sample)
        except (RuntimeError, TypeError) as error:
            # A state in the middle of a sample, or of other samples: the caller's own affair.
            raise ValueError(str(error)) from error
    return opt.average


def _optimizer(name, memory=0):
    def new():
        opt = make(name, np.zeros(COLUMNS), seed=3)
        if memory:
            opt.remember(memory)
        return opt

    return new


def _learn(rows=16, sparse=False, targets=None):
    def use(it):
        x, y = data()
        y = y if targets is None else targets(y)
        x, y = x[:rows], y[:rows]
        if sparse:
            x = csr_array(np.where(np.abs(x) < 0.7, 0.0, x))
        getattr(it, "advance", getattr(it, "partial_fit", None))(x, y)
        if hasattr(it, "predict"):
            it.predict(x)
        return it.average if hasattr(it, "average") else getattr(it, "weights", None)

    return use


def _signs(y):
    return np.where(y > 0, 1.0, -1.0)


def _classes(y):
    return np.digitize(y, [-1.0, 1.0]).astype(float)


def linear():
    """Learners of linear models."""
    from mixfree.linear import Logistic, Softmax, Squared
    from mixfree.linear.learner_for import learner_for
    from mixfree.linear.losses import Huber
    from mixfree.linear.scaling import RunningScale
    from mixfree.linear.sparse import SparseLinear

    def learner(loss, **parameters):
        return lambda: learner_for(loss, COLUMNS, **parameters)

    def standardise(scale):
        rows = data()[0]
        while len(rows):
            piece = scale.take(rows, np.empty_like(rows))
            rows = rows[len(piece) :]
            if scale.due:
                scale.change(rows[0])

    signs, classes = _learn(targets=_signs), _learn(targets=_classes)
    found = {
        "scale": Subject(lambda: RunningScale(COLUMNS, centred=True), standardise),
        "learner-mag": Subject(learner(Squared(), method="mag"), _learn()),
        "learner-memory": Subject(learner(Squared(), method="adagrad", memory=8), _learn()),
        "learner-replay": Subject(
            learner(Logistic(), method="sgd-er", options={"mixing_time": 3}), signs
        ),
        "choosing": Subject(learner(Squared(), method="ladder"), _learn()),
        "exact": Subject(learner(Squared()), _learn()),
        "exact-radius": Subject(learner(Squared(), radius=1.0), _learn()),
        "exact-drift": Subject(learner(Squared(), half_life="auto"), _learn()),
        "exact-logistic": Subject(learner(Logistic(), memory=64), signs),
        "exact-softmax": Subject(learner(Softmax(3), memory=64), classes),
        "exact-huber": Subject(learner(Huber(), memory=64), _learn()),
    }
    for name in ("sgd", "mag", "ladder"):
        found[f"sparse-{name}"] = Subject(
            lambda name=name: SparseLinear(make(name, np.zeros(COLUMNS)), Squared()),
            _learn(sparse=True),
        )
        found[f"learner-sparse-{name}"] = Subject(
            learner(Squared(), method=name, memory=0), _learn(sparse=True)
        )
    return found


def estimators():
    """What scikit-learn sees."""
    from mixfree.sklearn import StreamClassifier, StreamRegressor

    def classify(it):
        x, y = data()
        it.partial_fit(x, _classes(y).astype(int), classes=[0, 1, 2])
        return it.predict_proba(x)

    def forget(it):
        """Without a first row there is no state to save, and none to be changed."""
        return it.state_dict() if hasattr(it, "_learner") else {}

    found = {
        "regressor": Subject(StreamRegressor, _learn()),
        "regressor-mag": Subject(lambda: StreamRegressor(method="mag"), _learn()),
        "classifier": Subject(StreamClassifier, classify),
    }
    for subject in found.values():
        subject.state = forget
    return found


def td():
    from mixfree.td import TDLearner

    def learn(it):
        for t in range(12):
            it.update(t % 2, 1.0, (t + 1) % 2, terminated=t % 5 == 4)
        return it.value(0)

    return {
        "td-lstd": Subject(lambda: TDLearner(np.eye(2), 0.5, lam=0.5), learn),
        "td-mag": Subject(lambda: TDLearner(np.eye(2), 0.5, 9.0, method="mag"), learn),
    }


def streams():
    """The parts of a model file, each made from its state."""
    import pyarrow

    from mixfree.streams import FitPlan, StreamFit
    from mixfree.streams.columns import Category, Number, Time
    from mixfree.streams.encoder import Encoder
    from mixfree.streams.facts import Facts
    from mixfree.streams.read_record import ReadRecord
    from mixfree.streams.report import lines
    from mixfree.streams.reservoir import Reservoir
    from mixfree.streams.source import Piece

    x, y = data(64)
    when = np.datetime64("2024-01-01", "us") + np.arange(64) * np.timedelta64(1, "h")
    texts = np.array(["sun", "rain", "snow"])[np.arange(64) % 3]
    batch = pyarrow.record_batch({"a": x[:, 0], "sky": texts, "when": when, "y": y})
    columns = [Number("a"), Category("sky", ("rain", "sun"), 2), Time("when")]

    def encoder():
        return Encoder(columns, Number("y"), None, "mean")

    def has_columns(encoder):
        """As a source does it."""
        for name in encoder.needs:
            if name not in batch.schema.names:
                raise ValueError(f"there is no column {name!r}")

    def encode(it):
        has_columns(it)
        piece = Piece("d.csv", sum(it.left_out.values()), batch)
        it.encode(piece)
        return it.encode_for_prediction(piece)[0]

    def fit(**options):
        return lambda: StreamFit(FitPlan("y", "squared", **options), encoder())

    def learn(it):
        has_columns(it.encoder)
        it.learn(Piece("d.csv", it.read, batch))
        facts = Facts(it)
        list(lines(facts))
        facts.plain()
        it.encoder.encode_for_prediction(Piece("d.csv", 0, batch))
        return it.learner.weights

    steps = {"parameters": {"method": "mag"}}
    return {
        "encoder": Made(encoder, encode, Encoder.from_state),
        "reservoir": Made(lambda: Reservoir(8), lambda it: it.add(x, y), Reservoir.from_state),
        "read": Made(
            ReadRecord, lambda it: it.add(Piece("d.csv", it.rows, batch)), ReadRecord.from_state
        ),
        "fit": Made(fit(), learn, StreamFit.from_state),
        "fit-steps": Made(fit(**steps), learn, StreamFit.from_state),
    }


def torch():
    import torch

    from mixfree.torch import MAG, MLMC, Ladder, Memory

    def weights():
        return [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(1))]

    def step(it):
        params = [p for group in it.param_groups for p in group["params"]]
        for t in range(6):
            for p in params:
                p.grad = p.detach() + t
            try:
                it.step()
            except (RuntimeError, TypeError, KeyError, ArithmeticError) as error:
                if not hasattr(it, "optimizer"):
                    raise
                raise ValueError("torch's optimiser inside does not look at its state") from error
        return params[0].detach().numpy()

    class Torch(Subject):
        def state(self, it):
            return _arrays(it.state_dict())

        def load(self, it, state):
            it.load_state_dict(_tensors(state))
            return it

    found = {
        "torch-mag": Torch(lambda: MAG(weights()), step),
        "torch-mlmc": Torch(lambda: MLMC(torch.optim.SGD(weights(), 0.1, momentum=0.9)), step),
        "torch-ladder": Torch(lambda: Ladder(weights()), step),
        "torch-memory": Torch(lambda: Memory(4), lambda it: it.mix(torch.arange(6.0))),
    }
    return found


def _arrays(value):
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {key: _arrays(each) for key, each in value.items()}
    return type(value)(map(_arrays, value)) if isinstance(value, list | tuple) else value


def _tensors(value):
    import torch

    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "U" else torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {key: _tensors(each) for key, each in value.items()}
    return type(value)(map(_tensors, value)) if isinstance(value, list | tuple) else value


def optimizers():
    found = {f"optimizer-{name}": Subject(_optimizer(name), _tell) for name in mf.methods()}
    found["optimizer-memory"] = Subject(_optimizer("mag", 8), _tell)
    return found


ROOMS = (optimizers, linear, estimators, td, streams, torch)
