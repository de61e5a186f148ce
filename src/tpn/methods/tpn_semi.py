"""Transductive Propagation Network without transduction: the semi-supervised variant."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task, TrainingTask
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods.tpn import TPN


@register_method
class TPNSemi(TPN):
    """Liu et al., "Learning to Propagate Labels: Transductive Propagation Network for Few-shot Learning", ICLR 2019:
    TPN-semi.

    As TPN, but labels propagate over the support and the unlabelled images, and each query is classified independently:
    its graph contains no other query. The graphs of all queries of an episode, which differ only in the node of the
    query, are built and solved as one batch.

    https://arxiv.org/abs/1805.10002
    """

    info = Info(
        name="tpn-semi",
        paper="Liu et al., Learning to Propagate Labels: Transductive Propagation Network, ICLR 2019",
        transduction="no",
        unlabelled="needs",
    )

    def spread_for_each(
        self, inputs: Float[Tensor, "node feature"], task: Task, episode: int
    ) -> Float[Tensor, "query node2 way"]:
        """Return F* of the graph of each query of an embedded episode: support, unlabelled images, and the query."""
        W = self.weights(inputs)
        first, last = task.n_support, task.n_support + task.n_query
        known = torch.cat([torch.arange(first), torch.arange(last, len(inputs))]).to(inputs.device)
        own = F.pad(W[first:last][:, known], (0, 1), value=1.0)  # the weight of a node's edge to itself is 1
        graphs = W[known][:, known].expand(task.n_query, -1, -1)
        graphs = torch.cat([torch.cat([graphs, own[:, None, :-1]], dim=1), own[..., None]], dim=2)
        labels = task.support_labels[episode].expand(task.n_query, -1)
        return self.spread(graphs, labels, task.way)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return torch.stack(
            [self.spread_for_each(inputs, task, index)[:, -1] for index, inputs in enumerate(task.inputs)]
        )

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """Return the cross-entropy over queries and support, whose loss is averaged over the graphs, and the scores."""
        embedded, losses, scores = self.training_task(task), [], []
        for index, inputs in enumerate(embedded.inputs):
            spread = self.spread_for_each(inputs, embedded, index)
            scores.append(spread[:, -1])
            loss = F.cross_entropy(scores[-1], embedded.query_labels[index])
            if self.config.loss_over == "support+query":
                labels = embedded.support_labels[index].repeat(task.n_query)
                support = F.cross_entropy(spread[:, : task.n_support].flatten(0, 1), labels)
                loss = (task.n_query * loss + task.n_support * support) / (task.n_query + task.n_support)
            losses.append(loss)
        episodes = len(task.inputs)
        return torch.stack(losses).mean() + self.base_class_loss(embedded, episodes), torch.stack(scores[:episodes])

    def graph(self, task: Task) -> None:
        """Return None: there is a graph for each query."""
