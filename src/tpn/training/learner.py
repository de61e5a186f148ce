"""The gradients of a training step: computed alone, or together with other processes."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from tpn.episodes.sampler import Learnable
from tpn.episodes.task import TrainingTask
from tpn.methods._method import Learned, Method
from tpn.training.distributed import ALONE, Processes, noticing_loss
from tpn.training.stopping import Stopped, StopRequest


class Learner:
    """Computes the gradients of a training step: alone, or together with other processes."""

    def __init__(
        self,
        method: Method,
        scaler: GradScaler | None = None,
        processes: Processes = ALONE,
        seed: int = 0,
        request: StopRequest | None = None,
    ) -> None:
        self.method, self.processes, self._seed = method, processes, seed
        self._scaler = scaler or GradScaler(enabled=False)
        self._request = request or StopRequest()
        self._agreed: int | None = None
        self._together: DistributedDataParallel | None = None
        if not processes.alone:
            start = processes.by_first(lambda: {name: value.cpu() for name, value in method.state_dict().items()})
            method.load_state_dict(start)
            if type(method).learn is Method.learn:
                self._together = averaging(_Loss(method))

    @property
    def signal(self) -> int | None:
        """The signal to stop that has come to this process or, as all know after a step, to another."""
        return self._agreed or self._request.signal

    def raise_if_asked(self) -> None:
        """Stop if a signal came, and if others train too, only if all of them know that it came."""
        if self.processes.alone:
            self._request.raise_if_asked()
        elif self._agreed is not None:
            raise Stopped

    def seed(self, episode: int) -> None:
        """Make the step from this episode on repeatable."""
        self.processes.seed(self._seed, episode)

    def share(self, drawn: list[Any]) -> list[Any]:
        """Return the draws of a step that this process learns from."""
        return self.processes.share(drawn)

    def learn(self, task: Learnable) -> Learned:
        """Add the gradients of one step, averaged over the processes, each of which has its share of the task.

        Returns the loss and accuracy of all of them, and lets them agree on whether to stop.
        """
        if self.processes.alone:
            return self.method.learn(task, self._backward)
        with self._counting_for_all():
            learned = self._learn_locally(task) if self._together is None else self._learn_together(task)
        self.processes.average(list(running_statistics(self.method)))
        figures = self.processes.gather(learned.loss, learned.accuracy, float(self._request.signal or 0))
        loss, accuracy, _ = figures.mean(0).tolist()
        self._agreed = int(figures[:, 2].max()) or None
        return Learned(loss, accuracy)

    def _learn_together(self, task: Any) -> Learned:
        """One loss and one backward pass, during which gradients are exchanged as soon as they are there."""
        assert self._together is not None
        with noticing_loss():
            loss, scores = self._together(task)
            self._backward(loss)
        return Learned.of(loss, scores, task.query_labels)

    def _learn_locally(self, task: Learnable) -> Learned:
        """As the method learns by itself, and then average its gradients. Where no process has one, none has."""
        learned = self.method.learn(task, self._backward)
        learning = [parameter for parameter in self.method.parameters() if parameter.requires_grad]
        found = self.processes.gather(*(float(parameter.grad is not None) for parameter in learning)).amax(0)
        gradients = []
        for parameter, anywhere in zip(learning, found.tolist(), strict=True):
            if anywhere:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                gradients.append(parameter.grad)
        self.processes.average(gradients)
        return learned

    def _backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    @contextmanager
    def _counting_for_all(self) -> Iterator[None]:
        """Let what the method counts grow as if it had seen the episodes of all processes, which are equally many."""
        counts = [buffer for buffer in self.method.buffers() if not buffer.is_floating_point()]
        before = [count.clone() for count in counts]
        yield
        for count, start in zip(counts, before, strict=True):
            count += (self.processes.count - 1) * (count - start)


class _Loss(nn.Module):
    """A method's loss as the forward pass of a module, as DistributedDataParallel wants it."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method
        self.unused = nn.Parameter(torch.zeros((), device=method.device))  # torch complains if it looks for one in vain

    def forward(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        loss, scores = self.method.loss(task)
        return loss, scores.detach()


def averaging(loss: _Loss) -> DistributedDataParallel:
    """The same module, whose gradients are averaged over the processes while they are computed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`broadcast_buffers`", FutureWarning)  # older versions know no other name
        return DistributedDataParallel(loss, broadcast_buffers=False, find_unused_parameters=True)


def running_statistics(method: Method) -> Iterator[Tensor]:
    """The means and variances that batch normalisation has gathered."""
    for layer in method.modules():
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.running_var is not None:
            yield from (layer.running_mean, layer.running_var)
