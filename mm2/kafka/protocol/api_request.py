"""Requests defined by tables of fields (`schema`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mm2.kafka.protocol.raw_request import DeferredResponse, RawRequest, version_for
from mm2.kafka.protocol.schema import Decoder, Encoder, Table, decoder, encoder

_BULK_BYTES = 1 << 16  # decoding this many takes about 10 ms of CPU
_NEVER = 1 << 15


class ApiRequest:
    """One request. Subclasses define its API and the result of `parse` for a response.

    ``versions`` are those to use, ascending, which brokers support from release ``kafka`` on; from ``first_flexible``
    on they are flexible (KIP-482). ``bulk``: responses can have so many rows that a large one is decoded in a worker
    thread, where the interpreter yields to the event loop every 5 ms. (Fetch responses have few rows.)
    """

    API_KEY: ClassVar[int]
    _versions: ClassVar[Sequence[int]]
    _first_flexible: ClassVar[int]
    _bulk: ClassVar[bool]
    _request: ClassVar[Table]
    _response: ClassVar[Table]
    KAFKA: str
    _name: ClassVar[str]
    _codecs: ClassVar[dict[int, tuple[Encoder, Decoder]]]

    def __init_subclass__(
        cls,
        *,
        api_key: int,
        versions: Sequence[int],
        request: Table,
        response: Table,
        first_flexible: int = _NEVER,
        bulk: bool = False,
        kafka: str = "0.11",
    ) -> None:
        cls.API_KEY, cls._versions, cls._first_flexible, cls._bulk = api_key, versions, first_flexible, bulk
        cls._request, cls._response, cls.KAFKA = request, response, kafka
        cls._name = cls.__name__.removesuffix("Request")
        cls._codecs = {}

    def __init__(self, *values: Any) -> None:
        """``values`` are the request's fields."""
        self._values = values

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """Encode the request in the highest version that both sides support. Raises NotSupported."""
        version = version_for(versions, self.API_KEY, self._name, self.usable_versions(), kafka=self.KAFKA)
        flexible = version >= self._first_flexible
        codec = self._codecs.get(version)
        if codec is None:
            codec = self._codecs[version] = (
                encoder(self._request, version, flexible=flexible),
                decoder(self._response, version, flexible=flexible),
            )
        body = bytearray()
        codec[0](body, self.values(version))
        return RawRequest(self.API_KEY, version, bytes(body), self._decode, flexible=flexible)

    def usable_versions(self) -> Sequence[int]:
        """Return those of the API's ``versions`` that can express this request."""
        return self._versions

    def values(self, version: int) -> Sequence[Any]:
        """Return the request's fields for this version."""
        del version  # most requests have the same values in all versions
        return self._values

    def parse(self, *fields: Any) -> Any:
        """Return the result for the sender of a response with these fields."""
        return fields

    def _decode(self, data: bytes, at: int, version: int) -> Any:
        _, decode = self._codecs[version]

        def result() -> Any:
            fields, _ = decode(data, at)
            return self.parse(*fields)

        return DeferredResponse(result) if self._bulk and len(data) > _BULK_BYTES else result()
