"""A payload codec as a company may have one: what is sent to Temporal is not to be read there."""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING = b"binary/turned"


class Turned(PayloadCodec):
    """Turns every byte around. It hides nothing from who looks twice."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": ENCODING}, data=turned(each.SerializeToString())) for each in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        assert all(each.metadata["encoding"] == ENCODING for each in payloads)
        return [Payload.FromString(turned(each.data)) for each in payloads]


def turned(text: bytes) -> bytes:
    return bytes(255 - each for each in text)
