"""The read of feature-wise weights."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RequestError

__all__ = ["FeatureSum", "check_features"]


class FeatureSum(nn.Module):
    r"""Each feature of the values under its own weights: :math:`c_{id} = \sum_j w_{ijd}\, v_{jd}`.

    Shapes:
        weights (*batch, Q, K, D), value (*batch, K, D) to context (*batch, Q, D)

    Raises:
        RequestError: when the weights have another number of features than the values.

    Source: Shen et al. 2018 (DiSAN), section 3.1, :math:`s = \sum_i P_{\cdot i} \odot x_i`.
    """

    per_feature = True

    def forward(
        self,
        weights: Float[Tensor, "*batch query key feature"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Average every feature by itself."""
        check_features(weights.shape[-1], value.shape[-1])
        return (weights.to(value.dtype) * value.unsqueeze(-3)).sum(-2)


def check_features(features: int, value_dim: int) -> None:
    """Refuse weights and values of different sizes with a sentence."""
    if features != value_dim:
        raise RequestError(
            f"FeatureSum expected values with as many features as the weights, came {value_dim} "
            f"and {features}; build the feature-wise score with features={value_dim}"
        )
