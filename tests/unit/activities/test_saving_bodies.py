"""Bodies of results on their way to a file: unzipped, whole, or an error."""

import gzip

import httpx2
import pytest
from groupage.activities.providers.openai_files import save_body
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError


class Stream(httpx2.AsyncByteStream):
    def __init__(self, *chunks):
        self.chunks = chunks

    async def __aiter__(self):
        for chunk in self.chunks:
            yield chunk

    async def aclose(self):
        return


@pytest.mark.parametrize("cut", [0, 4, 20])
async def test_RP_04_a_gzip_body_is_unzipped_and_a_cut_one_refused(tmp_path, cut):
    content = b'{"a":"\xe2\x80\xa8"}\n' * 50
    packed = gzip.compress(content)
    sent = packed[: len(packed) - cut]
    response = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Stream(sent[:15], sent[15:]))
    if cut:
        with pytest.raises(ProviderError, match="ends early"):
            await save_body(response, tmp_path / "f", "download")
    else:
        assert await save_body(response, tmp_path / "f", "download") == len(content)
        assert (tmp_path / "f").read_bytes() == content


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("padding", [b"", b"\0" * 3])
async def test_RP_04_a_gzip_body_of_several_members_is_unzipped_to_its_end(tmp_path, size, padding):
    lines = [b"%d\n" % n for n in range(9)]
    packed = b"".join(gzip.compress(b"".join(lines[at : at + 3])) for at in (0, 3, 6)) + padding

    def response(sent):
        chunks = (sent[at : at + size] for at in range(0, len(sent), size))
        return httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Stream(*chunks))

    assert await save_body(response(packed), tmp_path / "f", "download") == 18
    assert (tmp_path / "f").read_bytes() == b"".join(lines)
    with pytest.raises(ProviderError, match="ends early"):
        await save_body(response(packed[: -len(padding) - 4]), tmp_path / "f", "download")
    with pytest.raises(ProviderError, match="damaged"):
        await save_body(response(packed + b"more"), tmp_path / "f", "download")


async def test_RP_04_fewer_bytes_than_promised_are_an_error(tmp_path):
    response = httpx2.Response(200, headers={"content-length": "10"}, stream=Stream(b"12345"))
    with pytest.raises(ProviderError, match="5 of 10 bytes") as failure:
        await save_body(response, tmp_path / "f", "download")
    assert failure.value.error_class is ErrorClass.transient
