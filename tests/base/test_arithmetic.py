"""Norms that cannot overflow, and bits that do not follow the number of threads."""

import math
import sys
from decimal import Decimal

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mixfree.base.arithmetic import dot, norm, one_thread
from tests.helpers import run_python


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1.0, 1e200, 1e308])
@pytest.mark.parametrize("size", [3, 20_000])
def test_norm_at_every_scale(scale, size):
    v = np.full(size, scale)
    expected = Decimal(scale) * Decimal(size).sqrt()
    if expected > Decimal(sys.float_info.max):
        assert norm(v) == math.inf
    else:
        tolerance = max(1e-12, float(Decimal(math.ulp(0.0)) / expected))
        assert float(abs(Decimal(norm(v)) / expected - 1)) <= tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norm_of_what_is_not_finite(dtype):
    assert np.isnan(norm(np.array([1.0, np.nan], dtype)))
    assert norm(np.array([1.0, -np.inf], dtype)) == np.inf
    assert norm(np.zeros(3, dtype)) == 0.0
    assert norm(np.zeros(0, dtype)) == 0.0


def test_dot_is_the_sum_of_all_products():
    a, b = np.random.default_rng(1).standard_normal((2, 20_011))
    assert dot(a, b) == pytest.approx(math.fsum((a * b).tolist()), rel=1e-12)


@pytest.mark.parametrize("name", ["MAG", "Ladder"])
def test_bits_do_not_follow_the_number_of_threads(name):
    code = (
        "import numpy as np, mixfree as mf\n"
        "g = np.random.default_rng(0).standard_normal(200_003)\n"
        f"opt = mf.{name}(np.zeros(200_003), domain=mf.Ball(1.0))\n"
        "for _ in range(20): opt.tell(g + opt.x)\n"
        "print(opt.x.tobytes().hex()[:4000], opt.state_dict()['step'])"
    )
    outputs = {
        run_python("-c", code, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads).stdout
        for threads in ("1", "2", "4")
    }
    assert len(outputs) == 1 and outputs != {""}


def test_narrow_methods_use_one_thread_and_give_back_the_others():
    """Catches threads that stay limited after an error, and wide problems left with one."""

    class Asked:
        def __init__(self, columns):
            self.columns = columns

        @one_thread
        def threads(self, fails=False):
            if fails:
                raise ValueError("asked to fail")
            return threads()

    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()  # none on macOS, whose BLAS cannot be limited
        assert Asked(3).threads() == {1 for _ in before}
        assert Asked(3000).threads() == before
        with pytest.raises(ValueError, match="asked to fail"):
            Asked(3).threads(fails=True)
        assert threads() == before
