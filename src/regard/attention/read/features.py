"""The read of feature-wise weights."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RequestError
from regard.native.dropout import dropout

__all__ = ["FeatureSum", "check_features"]


class FeatureSum(nn.Module):
    r"""Each feature of the values under its own weights: :math:`c_{id} = \sum_j w_{ijd}\, v_{jd}`.

    Args:
        dropout: probability of dropping a feature's weight in training, as in `WeightedSum`; the
            paper has none. All weights are then stored.

    Shapes:
        weights (*batch, Q, K, D), value (*batch, K, D) to context (*batch, Q, D)

    Raises:
        RequestError: if weights and values have different numbers of features.

    Source: Shen et al. 2018 (DiSAN), section 3.1, :math:`s = \sum_i P_{\cdot i} \odot x_i`.
    """

    per_feature = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(
        self,
        weights: Float[Tensor, "*batch query key feature"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Average each feature separately."""
        check_features(weights.shape[-1], value.shape[-1])
        if self.dropout and self.training:
            weights = dropout(weights, self.dropout)
        return (weights.to(value.dtype) * value.unsqueeze(-3)).sum(-2)

    def extra_repr(self) -> str:
        """Say the dropout where there is some."""
        return f"dropout={self.dropout}" if self.dropout else ""


def check_features(features: int, value_dim: int) -> None:
    """Refuse weights and values of different sizes."""
    if features != value_dim:
        raise RequestError(
            f"FeatureSum expected values with as many features as the weights, got {value_dim} "
            f"and {features}; build the feature-wise score with features={value_dim}"
        )
