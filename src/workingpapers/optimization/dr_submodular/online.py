r"""The online method for four kinds of feedback: ask for an action and a question, tell the answer.

=============  ==========================================  ==================  ================  ==================
feedback       what is observed                            rounds of a block   smoothing delta   regret, order of
=============  ==========================================  ==================  ================  ==================
gradient       a gradient at any point                     1                   0                 :math:`T^{1/2}`
semi-bandit    the gradient at the played point            :math:`T^{1/3}`     0                 :math:`T^{2/3}`
two-point      values at two points                        1                   :math:`T^{-1/2}`  :math:`T^{1/2}`
one-point      the value at any point                      1                   :math:`T^{-1/4}`  :math:`T^{3/4}`
bandit         the value of the played point               :math:`T^{1/5}`     :math:`T^{-1/5}`  :math:`T^{4/5}`
=============  ==========================================  ==================  ================  ==================

Where only the played point is observed, each block plays the question once, at a random round. Where only values are
observed, :math:`\nabla f(x)` is replaced by :math:`(d/\delta) f(x + \delta u) u`, u uniform on the sphere: the gradient
of the average of f over a ball of radius :math:`\delta`, which is DR-submodular too. From a single value the mean of
the earlier values is subtracted first: u has mean zero, so that the expectation stays, and most of the noise goes (our
addition). So that no question leaves K, the whole method then works on
:math:`\tilde f(v) = f(\delta 1 + (1 - 2\delta) v)` over :meth:`Polytope.inside`.

References:
    Y. Lu, H. Jadav, M. Pedramfar, R. Singh, V. Aggarwal, arXiv:2602.20578.
    M. Pedramfar, V. Aggarwal, arXiv:2405.00065 (the conversions of feedback).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.optimization.dr_submodular.learners import Learner, learner_of
from workingpapers.optimization.dr_submodular.polytope import Polytope
from workingpapers.optimization.dr_submodular.wrappers import Wrapper, wrapper_of


@dataclass(frozen=True)
class Feedback:
    """One kind of feedback; see the table of the module.

    Args:
        name: What it is called.
        kind: What answers a question: ``gradient`` or ``value``.
        played: Whether only the played point can be observed.
        block: Exponent of the length of a block.
        smoothing: Exponent of the radius delta, or None.
        exponent: Order of the regret.
    """

    name: str
    kind: str
    played: bool
    block: float
    smoothing: float | None
    exponent: float


FEEDBACK = {
    item.name: item
    for item in (
        Feedback("gradient", "gradient", False, 0.0, None, 1 / 2),
        Feedback("semi-bandit", "gradient", True, 1 / 3, None, 2 / 3),
        Feedback("two-point", "value", False, 0.0, -1 / 2, 1 / 2),
        Feedback("one-point", "value", False, 0.0, -1 / 4, 3 / 4),
        Feedback("bandit", "value", True, 1 / 5, -1 / 5, 4 / 5),
    )
}


@dataclass(frozen=True)
class Question:
    """What to do this round.

    Args:
        action: The point to play, shape (d,), in K.
        points: Points where feedback is wanted, shape (q, d), in K; (0, d) for none.
        kind: What to tell about them: ``gradient`` (q, d) or ``value`` (q,).
        base: The action of a round without exploration, shape (d,).
    """

    action: np.ndarray
    points: np.ndarray
    kind: str
    base: np.ndarray


class OnlineMaximizer:
    r"""Online maximisation of DR-submodular rewards over a down-closed polytope.

    Each round: ``question = learner.ask()``, play ``question.action``, then ``learner.tell(answer)`` with the gradients
    or values at ``question.points``. With the wrapper ``exponential``, gradient feedback and rewards that are
    non-negative on the unit box, for every comparator y in K and every sequence of rewards

    .. math:: \frac1e \sum_t f_t(y) - \mathbb E \sum_t f_t(x_t)
              \le \Bigl(1 - \frac1e\Bigr) \sqrt 2\, D\, \mathbb E \Bigl(\sum_t \|g_t\|^2\Bigr)^{1/2} = O(\sqrt T),

    D the diameter of K and g_t the scaled gradients, no longer than :math:`\|\nabla f_t\|`.

    Args:
        polytope: K.
        wrapper: ``exponential`` (non-monotone rewards), ``boosted`` (monotone), ``anchored`` or ``plain ascent``.
        learner: ``gradient``, ``fixed step``, ``separation`` or ``experts``; see :func:`~.learners.learner_of`.
        feedback: A name of the table of the module.
        horizon: Number of rounds T; needed for all but gradient feedback with the learner ``gradient``.
        gradient_bound: G, a bound of :math:`\|\nabla f_t\|_2`; only for the learners that need one, gradient or
            semi-bandit feedback.
        nodes: None for one random question a round (the paper's). A number asks for that many gradients at fixed
            quadrature nodes instead: no randomness, more calls; gradient feedback only.
        rng: Source of randomness.

    Raises:
        InputError: A name is unknown, or something that the choice needs is missing or does not go with it.

    References:
        Lu et al., arXiv:2602.20578.
    """

    def __init__(
        self,
        polytope: Polytope,
        *,
        wrapper: str | Wrapper = "exponential",
        learner: str = "gradient",
        feedback: str = "gradient",
        horizon: int | None = None,
        gradient_bound: float | None = None,
        nodes: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if feedback not in FEEDBACK:
            hint = near_match(feedback, FEEDBACK) or f"; choose one of {', '.join(FEEDBACK)}."
            raise InputError(f"The feedback is {feedback!r}{hint}")
        self.feedback = FEEDBACK[feedback]
        if horizon is not None and horizon < 1:
            raise InputError(f"The horizon is {horizon}; give at least 1 round.")
        if horizon is None and feedback != "gradient":
            raise InputError(f"The feedback {feedback!r} needs a horizon; give the number of rounds.")
        if nodes is not None and (feedback != "gradient" or nodes < 1):
            raise InputError(f"nodes is {nodes}; it goes with gradient feedback and a number of at least 1.")
        if gradient_bound is not None and self.feedback.kind == "value":
            raise InputError(
                f"gradient_bound is {gradient_bound:g}, which does not bound estimates from values; leave it out."
            )
        self.wrapper = wrapper_of(wrapper)
        self.rng = rng if rng is not None else np.random.default_rng(0)
        self.polytope = polytope
        rounds = 1 if horizon is None else horizon
        self.block = math.ceil(rounds**self.feedback.block)
        self.margin = 0.0
        if self.feedback.smoothing is not None:
            self.margin = min(rounds**self.feedback.smoothing, polytope.largest_margin / 2)
            if self.margin <= 1e-9:
                raise InputError(
                    "The polytope has no interior (some limit or capacity is 0), so that values cannot be compared in "
                    "all directions; remove those coordinates."
                )
        self.inner = polytope.inside(self.margin)
        updates = None if horizon is None else math.ceil(horizon / self.block)
        self.learner: Learner = learner_of(learner, self.inner, updates, gradient_bound)
        self.nodes = None if nodes is None else self.wrapper.nodes(nodes)
        self.calls = {"gradient": 0, "value": 0}
        self._round = 0
        self._seen, self._level = 0, 0.0
        self._exploring = 0
        self._pending: Question | None = None
        self._z: np.ndarray = np.zeros(0)
        self._directions: np.ndarray = np.zeros(0)

    @property
    def point(self) -> np.ndarray:
        """The learner's point w, shape (d,)."""
        return self.learner.point

    def ask(self) -> Question:
        """Return the action of this round and the points where feedback is wanted.

        Raises:
            InputError: The last question has not been answered.
        """
        if self._pending is not None:
            raise InputError("The last question is not answered yet; call tell before the next ask.")
        place = self._round % self.block
        if place == 0:
            self._exploring = int(self.rng.integers(self.block)) if self.block > 1 else 0
        w = self.point
        base = self._outer(self.wrapper.action(w))
        points = np.empty((0, len(w)))
        if place == self._exploring:
            draws = self.wrapper.quantile(self.rng.random(1)) if self.nodes is None else self.nodes[0]
            self._z = draws[:, None]
            points = self._outer(self.wrapper.query(w[None, :], self._z))
            if self.feedback.kind == "value":
                points = points + self.margin * self._directions_for(len(w))
        action = points[0] if self.feedback.played and len(points) else base
        self._pending = Question(action, points, self.feedback.kind, base)
        return self._pending

    def tell(self, answer: np.ndarray | float | None = None) -> None:
        """Take the gradients or values at the points of the last question, and learn.

        Args:
            answer: Shape (q, d) or (d,) for a gradient, (q,) or a number for a value; None where nothing was asked.

        Raises:
            InputError: Nothing was asked, or the answer has another shape, or a number in it is not finite.
        """
        question = self._pending
        if question is None:
            raise InputError("There is no question to answer; call ask before tell.")
        if len(question.points):
            self._learn(question, answer)
        elif answer is not None and np.size(answer):
            raise InputError("Nothing was asked this round; call tell without an answer.")
        self._pending = None
        self._round += 1

    def _learn(self, question: Question, answer: np.ndarray | float | None) -> None:
        wanted = question.points.shape if question.kind == "gradient" else question.points.shape[:1]
        given = np.asarray(math.nan if answer is None else answer, dtype=np.float64)
        if given.size != math.prod(wanted) or (given.ndim > 0 and given.shape[-1] != wanted[-1]):
            raise InputError(f"The answer has shape {given.shape}; give the {question.kind} with shape {wanted}.")
        if not np.isfinite(given).all():
            raise InputError(f"The answer holds {given[~np.isfinite(given)].flat[0]}; give finite numbers.")
        given = given.reshape(wanted)
        self.calls[question.kind] += wanted[0]
        self.learner.update(self._gain(given))

    def _gain(self, answer: np.ndarray) -> np.ndarray:
        gradients = answer if self.feedback.kind == "gradient" else self._estimate(answer)
        gains = gradients * self.wrapper.scale(self.point[None, :], self._z)
        return np.asarray(gains[0] if self.nodes is None else self.nodes[1] @ gains)

    def _estimate(self, values: np.ndarray) -> np.ndarray:
        """Return the estimated gradient of the shrunk problem from values, shape (1, d)."""
        scale = (1 - 2 * self.margin) * self._directions.shape[1] / self.margin
        above = values
        if len(values) == 1:
            above = values - (self._level if self._seen else 0.0)
            self._seen += 1
            self._level += (float(values[0]) - self._level) / self._seen
        return np.asarray(scale * (above @ self._directions / len(values)))[None, :]

    def _directions_for(self, dimension: int) -> np.ndarray:
        direction = self.rng.normal(size=dimension)
        direction /= np.linalg.norm(direction)
        both = (1, -1) if self.feedback.name == "two-point" else (1,)
        self._directions = np.outer(both, direction)
        return self._directions

    def _outer(self, v: np.ndarray) -> np.ndarray:
        return v if self.margin == 0 else np.asarray(self.margin + (1 - 2 * self.margin) * v)
