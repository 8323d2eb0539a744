r"""A recurrent network that looks at one small part of a picture after the other.

Mnih, Heess, Graves and Kavukcuoglu, "Recurrent Models of Visual Attention", NIPS 2014, arXiv
1406.6247.

    ρ(x, l)                            k square patches about l, of g, 2g, 4g, … pixels, each g x g
    h_g = f(W_1 ρ),  h_l = f(W_2 l)    what is seen, and where                     (section 3, A, B)
    g_t = f(W_3 h_g + W_4 h_l)         a glimpse
    h_t = f(W_h h_{t-1} + W_g g_t)     the core, h_0 = 0; f is the rectifier
    l_{t+1} ~ N(W_l h_t, σ²)           where to look next
    p(y) = softmax(W_a h_T)            the answer, at the last glimpse alone
    b_t = w_b · h_t                    the baseline; h_t is a constant in it

A location (x, y) is (0, 0) in the middle of the picture, (-1, -1) in its upper left corner. What is
outside of the picture is zero. A sample is a constant: it is looked at where it was cut off at the
borders, and its log π is that of the sample itself. The loss (`losses.reinforce`) needs the
log-probabilities and the baselines of all locations but the first, which is no choice unless
`first` is "policy".

At test time nothing is drawn: the first path takes the mean of the policy, and further ones
(`paths`) the same numbers for every picture; their log-probabilities are averaged.

Shapes: pictures (B, C, H, W); logits (B, num_classes); extra: `locations` (B, T, 2), `log_probs`
and `baselines` (B, number of choices).

**Departs from the paper**: the mean of the policy may be squashed (`squash`), as later
implementations do. Whether the gradient of REINFORCE flows into the core is a setting (`gradient`);
the paper does not say. The LSTM core of the dynamic task is not here. Patches are resized by the
mean of blocks. Weights start as PyTorch's layers do.
"""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.declaring import Declaring
from regard.attention.recording import record_weights, scope
from regard.errors import RequestError, nearest
from regard.protocols import Inputs, Output, pictures_of

__all__ = ["RAM", "GlimpseNetwork", "GlimpseSensor", "gaussian_log_prob", "patches"]

SEED = 20140624
"""Of the numbers of the paths at test time."""


def patches(
    picture: Float[Tensor, "batch channels height width"],
    location: Float[Tensor, "batch 2"],
    side: int,
    scales: int = 1,
) -> Float[Tensor, "batch scales channels side side"]:
    """Square patches about a location, of `side`, 2 `side`, 4 `side`, … pixels, made equally small.

    A patch begins at the pixel nearest to where it should; what is outside of the picture is zero.

    Args:
        picture: to look at.
        location: (x, y), from -1 to 1.
        side: pixels of a patch.
        scales: how many patches.

    Example:
        >>> picture = torch.arange(16.0).view(1, 1, 4, 4)
        >>> patches(picture, torch.zeros(1, 2), 2)[0, 0, 0]
        tensor([[ 5.,  6.],
                [ 9., 10.]])
    """
    sizes = picture.new_tensor(picture.shape[:1:-1], dtype=location.dtype)  # (width, height)
    middle = sizes * (location + 1) / 2
    rows = torch.arange(len(picture), device=picture.device)[:, None, None]
    found = []
    for scale in range(scales):
        wide = side << scale
        start = (middle - wide / 2 + 0.5).floor().long()
        x, y = (start[:, i, None] + torch.arange(wide, device=picture.device) for i in (0, 1))
        high, long = picture.shape[2:]
        inside = ((y >= 0) & (y < high))[:, :, None] & ((x >= 0) & (x < long))[:, None]
        at = rows, slice(None), y.clamp(0, high - 1)[:, :, None], x.clamp(0, long - 1)[:, None]
        piece = picture[at].movedim(-1, 1) * inside[:, None]  # (B, C, wide, wide)
        found.append(F.avg_pool2d(piece, 1 << scale) if scale else piece)
    return torch.stack(found, 1)


def gaussian_log_prob(
    value: Float[Tensor, "*batch 2"], mean: Float[Tensor, "*batch 2"], sigma: float
) -> Float[Tensor, "*batch"]:
    r"""Log N(value; mean, σ² I) of two numbers; its gradient is (value - mean) / σ²."""
    each = -((value - mean) ** 2) / (2 * sigma**2) - math.log(sigma) - math.log(2 * math.pi) / 2
    return each.sum(-1)


class GlimpseSensor(Declaring):
    """Patches about a location as one vector; a watcher sees which pixels the smallest one had.

    Args:
        side: g, pixels of a patch.
        scales: k.

    Shapes:
        picture (B, C, H, W), location (B, 2) to (B, k * C * g * g)
    """

    def __init__(self, side: int, scales: int) -> None:
        super().__init__()
        self.side, self.scales = side, scales
        self.declare("region", None)

    def forward(self, picture: Tensor, location: Tensor) -> Float[Tensor, "batch size"]:
        """ρ(x, l)."""
        record_weights(self, lambda: self._seen(picture, location))
        return patches(picture, location, self.side, self.scales).flatten(1)

    def _seen(self, picture: Tensor, location: Tensor) -> Float[Tensor, "batch 1 pixels"]:
        """The share of each pixel in the smallest patch."""
        high, wide = picture.shape[2:]
        number = torch.arange(1, high * wide + 1, dtype=torch.float64, device=picture.device)
        own = number.view(1, 1, high, wide).expand(len(picture), -1, -1, -1)
        there = patches(own, location, self.side).flatten(1).long()
        seen = number.new_zeros(len(picture), high * wide + 1).scatter_(1, there, 1.0)[:, 1:]
        return (seen / seen.sum(1, keepdim=True).clamp_min(1))[:, None].float()


class GlimpseNetwork(nn.Module):
    """What is seen, and where, as one vector.

    Args:
        size: of ρ.
        hidden: units of each part.
        glimpse: of the vector.

    Shapes:
        seen (B, size), location (B, 2) to (B, glimpse)
    """

    def __init__(self, size: int, hidden: int, glimpse: int) -> None:
        super().__init__()
        self.seen, self.where = nn.Linear(size, hidden), nn.Linear(2, hidden)
        self.of_seen, self.of_where = nn.Linear(hidden, glimpse), nn.Linear(hidden, glimpse)

    def forward(self, seen: Tensor, location: Tensor) -> Float[Tensor, "batch glimpse"]:
        """g_t."""
        h_g, h_l = torch.relu(self.seen(seen)), torch.relu(self.where(location))
        return torch.relu(self.of_seen(h_g) + self.of_where(h_l))


SQUASH: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda mean: mean,
    "tanh": torch.tanh,
    "hardtanh": F.hardtanh,
}
"""What is done to the mean of the policy."""
GRADIENT: Mapping[str, Callable[[Tensor], Tensor]] = {
    "core": lambda state: state,
    "policy": Tensor.detach,
}
"""What REINFORCE trains: the core too, or the location network alone."""
FIRST = ("random", "center", "policy")
"""Where the first glimpse is: anywhere, in the middle, or where the policy says of a zero state."""


class RAM(nn.Module):
    """A `Classifier` that looks at a few glimpses of a picture, and chooses where.

    Args:
        in_channels: of the picture.
        num_classes: of the output.
        side: g, pixels of a glimpse each way.
        scales: k, patches of a glimpse.
        glimpses: T.
        hidden: units of each part of the glimpse network.
        glimpse: of what is made of both.
        core: units of the core.
        sigma: of the policy.
        first: one of `FIRST`.
        squash: of the mean of the policy, one of `SQUASH`.
        gradient: one of `GRADIENT`.
        policy: "learned", or "random": every location is drawn evenly, but a first one in the
            middle stays there; to compare with.
        paths: at test time, this many ways of looking are averaged.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        side: int = 8,
        scales: int = 1,
        glimpses: int = 6,
        hidden: int = 128,
        glimpse: int = 256,
        core: int = 256,
        sigma: float = 0.22,
        first: str = "random",
        squash: str = "none",
        gradient: str = "core",
        policy: str = "learned",
        paths: int = 1,
    ) -> None:
        super().__init__()
        for name, value, known in (
            ("first", first, FIRST),
            ("squash", squash, SQUASH),
            ("gradient", gradient, GRADIENT),
            ("policy", policy, ("learned", "random")),
        ):
            if value not in known:
                raise RequestError(f"RAM: {name} has no {value!r}: {nearest(value, known)}")
        if min(side, scales, glimpses, paths) < 1 or sigma <= 0:
            raise RequestError(
                "RAM expected side, scales, glimpses and paths of 1 or more and a sigma above 0, "
                f"got {side}, {scales}, {glimpses}, {paths} and {sigma:g}"
            )
        self.in_channels, self.num_classes = in_channels, num_classes
        self.glimpses, self.sigma, self.first, self.paths = glimpses, sigma, first, paths
        self.squash, self.gradient, self.policy = squash, gradient, policy
        self.sensor = GlimpseSensor(side, scales)
        self.network = GlimpseNetwork(scales * in_channels * side * side, hidden, glimpse)
        self.past, self.present = nn.Linear(core, core), nn.Linear(glimpse, core)
        self.locate, self.baseline = nn.Linear(core, 2), nn.Linear(core, 1)
        self.answer = nn.Linear(core, num_classes)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of pictures (B, C, H, W)."""
        picture = pictures_of(source, self.in_channels).to(self.answer.weight.dtype)
        if self.training or self.paths == 1:
            return self._looked(picture, self._numbers(picture, self.paths == 1))
        each = []
        for path, noise in enumerate(self._numbers(picture, False)):
            with scope("path", path):
                each.append(self._looked(picture, noise))
        logits = torch.stack([one.logits.log_softmax(-1) for one in each]).mean(0)
        return Output(logits, each[0].extra)

    def _looked(self, picture: Tensor, noise: Tensor) -> Output:
        """One way of looking.

        Args:
            noise: (T, B or 1, 2): of the first glimpse a place, of others what is added to the
                mean, in units of sigma; where locations are random, all are places.
        """
        count = len(picture)
        state = picture.new_zeros(count, self.past.in_features)
        locations, log_probs, baselines = [], list[Tensor](), list[Tensor]()
        for t in range(self.glimpses):
            if self.policy == "random" or (t == 0 and self.first != "policy"):
                sample = noise[t].expand(count, 2)
            else:
                mean = SQUASH[self.squash](self.locate(GRADIENT[self.gradient](state)))
                sample = (mean + self.sigma * noise[t]).detach()
                log_probs.append(gaussian_log_prob(sample, mean, self.sigma))
                baselines.append(self.baseline(state.detach())[:, 0])
            location = sample.clamp(-1, 1)
            locations.append(location)
            with scope("glimpse", t):
                seen = self.sensor(picture, location)
            glimpse = self.network(seen, location)
            state = torch.relu(self.past(state) + self.present(glimpse))
        extra = {"locations": torch.stack(locations, 1)}
        if log_probs:
            extra |= {
                "log_probs": torch.stack(log_probs, 1),
                "baselines": torch.stack(baselines, 1),
            }
        return Output(self.answer(state), extra)

    def _numbers(self, picture: Tensor, one: bool) -> Tensor:
        """What decides where is looked: in training drawn again, else always the same."""
        places = self.glimpses if self.policy == "random" else int(self.first == "random")
        if self.training:
            noise = torch.randn(
                self.glimpses, len(picture), 2, dtype=picture.dtype, device=picture.device
            )
            noise[:places] = torch.rand_like(noise[:places]) * 2 - 1
            if self.first == "center":
                noise[0] = 0.0
            return noise
        draw = torch.Generator().manual_seed(SEED)
        every = torch.randn(self.paths, self.glimpses, 1, 2, generator=draw)
        every[:, :places] = torch.rand(every[:, :places].shape, generator=draw) * 2 - 1
        # The first path takes what is likeliest: the mean, from the middle.
        every[0, : self.glimpses if self.policy == "learned" else 0] = 0.0
        if self.first == "center":
            every[:, 0] = 0.0
        every = every.to(picture)
        return every[0] if one else every
