"""Reptile with queries that share batch statistics."""

from dataclasses import replace

from tpn.methods._adaptation import Labels, Query, Scores, Support
from tpn.methods._registry import register_method
from tpn.methods.reptile import Reptile


@register_method
class ReptileBN(Reptile):
    """Nichol et al., "On First-Order Meta-Learning Algorithms", 2018, in its transductive form.

    Trained as `reptile`; in testing, all queries of an episode are classified in one batch, whose statistics batch
    normalisation uses: through them, queries share information. A run of `reptile` can be tested this way without
    training again: `tpn evaluate RUN --as reptile-bn`.

    https://arxiv.org/abs/1803.02999
    """

    info = replace(Reptile.info, name="reptile-bn", transduction="bn")

    def classify(self, support: Support, labels: Labels, query: Query) -> Scores:
        """Classify all queries in one batch."""
        return self.run(self.adapted(support, labels), query)[0]
