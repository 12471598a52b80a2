"""Leaving out the update of a step whose loss or gradient norm stands out from the last ones."""

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.errors import UsageError

ROUNDING = 1e-6
"""Smallest standard deviation, over the mean: in a constant series the last bit is no spike."""


class SpikeSkip:
    """Says on the device whether an update is to be left out; hand it to ``guarded_step``.

    ::

        skipping = SpikeSkip(window=128, sigmas=6.0, device=norm.device)
        skip = skipping.skip(loss, norm)
        guarded_step(optimizer, found_inf=torch.maximum(found_inf, skip), grad_divisor=divisor)

    A step is left out if its loss or its gradient norm exceeds the mean of the last ``window``
    values by more than ``sigmas`` standard deviations (Bessel's, of those values, without its own).
    One-sided: a sudden fall is welcome. Nothing is judged before half a window is filled. A NaN or
    infinity is left out at any time. The rule is that of the skip-step of OLMo-core and MaxText.

    Where it departs from them: there the value of a skipped step enters the window too, so that
    one spike widens the bounds for the next ``window`` steps (``skipped_enter=True``). Here it does
    not. A level that rises for good would then be left out for ever; therefore the ``most``-th skip
    among ``window`` steps says that the level is a new one: the window starts anew, and its next
    half is not judged. So of any window/2 steps with finite values at most ``most`` are left out.
    What stays high that long is for the detector to report, not for this to hide.

    Skipping is never a cure and hides a cause: it loses the tokens of the step, and what made the
    parameters sensitive to them stays.

    Args:
        window: values that a step is compared with; at least 4.
        sigmas: standard deviations.
        device: where the history lives: that of loss and norm.
        most: skips among ``window`` steps that make the level a new one. Default: an eighth of the
            window, at least 4.
        skipped_enter: whether finite values of skipped steps enter the window.
        above: also leave out steps whose loss is above this, as the team of Tanuki-38B tried,
            within the same bounds: half a window first, ``most`` of a window. None = off.

    Attributes:
        limits: the bounds of the last step, (2,) fp32, loss and norm; infinite where none is
            judged.
        values: the window, (2, window) fp32, a ring.
        count: values entered since it started, 0-d int64.
        left_out: which of the last finite steps were skipped, (window,) bool, a ring.
        steps: finite steps, 0-d int64.

    Raises:
        UsageError: if the window is too short or ``most`` does not fit it.
    """

    def __init__(
        self,
        window: int = 128,
        sigmas: float = 6.0,
        device: torch.device | str = "cpu",
        *,
        most: int | None = None,
        skipped_enter: bool = False,
        above: float | None = None,
    ) -> None:
        if window < 4:
            raise UsageError(f"a window of {window} steps has no standard deviation: use 4 or more")
        self.window, self.sigmas = window, sigmas
        self.most = max(4, window // 8) if most is None else most
        if not 1 <= self.most <= window:
            raise UsageError(f"most = {most} skips among {window} steps: use 1 to {window}")
        self.skipped_enter, self.above = skipped_enter, above
        self.values = torch.zeros((2, window), dtype=torch.float32, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self.left_out = torch.zeros(window, dtype=torch.bool, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.limits = torch.full((2,), torch.inf, dtype=torch.float32, device=device)
        self._places = torch.arange(window, device=device)

    @torch.no_grad()
    def skip(self, loss: Tensor, norm: Tensor) -> Tensor:
        """Judge a step and take it in.

        Args:
            loss: of the whole batch, 0-d; the same on every rank, or ranks would part.
            norm: global L2 norm of the unscaled gradient before clipping, 0-d.

        Returns:
            0-d fp32: 1 = leave this update out.
        """
        step = torch.stack((loss.detach().float(), norm.detach().float()))  # (2,)
        finite = step.isfinite().all()
        judging = self.count >= self.window // 2
        self.limits.copy_(torch.where(judging, self._bounds(), torch.inf))
        out = finite & (step > self.limits).any()
        self._take_in(step, finite, out)
        return (out | ~finite).float()

    def _bounds(self) -> Tensor:
        """Mean and sigmas standard deviations of the window, (2,); and ``above`` for the loss."""
        filled = self._places < self.count
        number = filled.sum()
        values = self.values.to(torch.float64)  # in which no square of a float32 overflows
        mean = torch.where(filled, values, 0.0).sum(1) / number
        off = torch.where(filled, values - mean[:, None], 0.0)
        spread = (off.square().sum(1) / (number - 1)).sqrt()
        bounds = (mean + self.sigmas * torch.maximum(spread, ROUNDING * mean.abs())).float()
        if self.above is not None:
            bounds[0].clamp_(max=self.above)
        return bounds

    def _take_in(self, step: Tensor, finite: Tensor, out: Tensor) -> None:
        """Enter the step; a step that is not finite leaves no trace."""
        enters = finite if self.skipped_enter else finite & ~out
        here = enters & (self._places == self.count % self.window)
        self.values.copy_(torch.where(here, step[:, None], self.values))
        here = finite & (self._places == self.steps % self.window)
        left_out = torch.where(here, out, self.left_out)
        anew = finite & (left_out.sum() >= self.most)
        self.left_out.copy_(left_out & ~anew)
        self.steps.add_(finite)
        self.count.copy_(torch.where(anew, 0, self.count + enters))

    def state_dict(self) -> dict[str, Tensor]:
        """All state; the tensors themselves."""
        names = ("values", "count", "left_out", "steps")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the state of :meth:`state_dict`.

        Raises:
            UsageError: if it was saved with another window, or is none.
        """
        own = self.state_dict()
        if own.keys() != state.keys():
            raise UsageError(
                f"no state of skipping spikes: expected {', '.join(own)}, got "
                f"{', '.join(state) or 'nothing'}; start the window anew by leaving it out"
            )
        saved = state["values"].shape[-1]
        if saved != self.window:
            raise UsageError(
                f"the saved window has {saved} steps, optimizer.skip_window = {self.window}: "
                f"resume with {saved}, or start the window anew by leaving its state out"
            )
        for name, value in own.items():
            value.copy_(state[name])
