import numpy as np
import pytest
from scipy.signal import lfilter

from mixfree.chains import autocorrelation_time, random_chain
from mixfree.chains.autocorrelation import autocorrelation


def autoregression(phi: float, samples: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(samples + 1000)
    return lfilter([1.0], [1.0, -phi], noise)[1000:]


@pytest.mark.parametrize("width", [2.0, 5.0])
def test_the_window_is_the_first_of_enough_times(width):
    """Catches a window that is one lag longer."""
    series = autoregression(0.6, 500, 0)
    found = autocorrelation_time(series, width)
    rho = autocorrelation(series)
    scale = [1 + 2 * np.abs(rho[1 : lag + 1]).sum() for lag in range(500)]
    window = next(lag for lag in range(500) if lag >= width * scale[lag])
    assert found.window == window
    assert found.value == pytest.approx(1 + 2 * rho[1 : window + 1].sum())


def test_the_standard_error_is_the_spread():
    values = [autocorrelation_time(autoregression(0.8, 20_000, seed)) for seed in range(200)]
    for time in values:
        sokal = time.value * np.sqrt(2 * (2 * time.window + 1) / 20_000)
        assert time.standard_error == pytest.approx(sokal, rel=1e-12)
    spread = np.std([time.value for time in values])
    claimed = np.mean([time.standard_error for time in values])
    # 200 runs know the spread to 5 %.
    assert abs(claimed / spread - 1) < 4 * 0.05, claimed / spread


def test_it_agrees_with_the_asymptotic_variance_of_a_chain():
    chain = random_chain(5, seed=2)
    f = np.array([0.0, 1.0, 3.0, -1.0, 2.0])
    mu = chain.stationary
    exact = chain.asymptotic_variance(f) / (mu @ f**2 - (mu @ f) ** 2)
    time = autocorrelation_time(f[chain.simulate(500_000, seed=1)])
    assert abs(time.value - exact) < 4 * time.standard_error
    assert time.effective_samples == pytest.approx(500_000 / time.value)
    assert float(time) == time.value


@pytest.mark.parametrize(
    ("series", "least", "most", "warning"),
    [
        (np.full(1000, -0.1), np.nan, np.nan, "the same"),
        (np.arange(1000.0), 300, 1000, "about 1 correlation times"),
        (np.tile([1.0, -1.0], 500), 0, 0.1, ""),
    ],
)
def test_series_that_tell_little_have_a_warning(series, least, most, warning):
    time = autocorrelation_time(series)
    assert least < time.value < most or np.isnan([time.value, least]).all()
    assert warning in time.warning


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([1.0], "1 samples"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        ([1.0, np.nan, 2.0], r"series\[1\] = nan"),
    ],
)
def test_wrong_series(series, message):
    with pytest.raises(ValueError, match=message):
        autocorrelation_time(series)
    with pytest.raises(ValueError, match="window must be positive and finite, not 0"):
        autocorrelation_time([1.0, 2.0, 0.0], window=0)
