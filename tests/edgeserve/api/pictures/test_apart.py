"""Pictures decoded in children: the right pixels, the right errors, and nothing kept."""

from __future__ import annotations

import contextvars
import gc
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from PIL import Image, features
from support import bombs
from support.cases import each
from support.heic import PHOTO

from edgeserve import clients
from edgeserve.api.limits import Limits
from edgeserve.api.pictures.apart import CHILD, PictureFilesApart
from edgeserve.api.pictures.reader import PictureFilesHere
from edgeserve.clients import Client
from edgeserve.errors import Busy, Cancelled, InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.memory.traffic import Own, own
from edgeserve.messages import ImagePart
from edgeserve.models import catalog
from edgeserve.processes.launcher import make_launcher
from edgeserve.system import pages
from edgeserve.units import MB

SHARED = (CHILD, catalog.PICTURES_LOADED)


@pytest.fixture(scope="module")
def files() -> Iterator[PictureFilesApart]:
    made = PictureFilesApart(Children(make_launcher(SHARED)), catalog.PICTURES)
    yield made
    made.close()


def made(form: str, width: int = 30, height: int = 20) -> bytes:
    out = BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(out, form)
    return out.getvalue()


def read(
    files: PictureFilesApart, data: bytes, limits: Limits | None = None, client: str = "", mine: Own | None = None
) -> ImagePart:
    asking = contextvars.copy_context()
    asking.run(own.set, mine or Own())
    asking.run(clients.current.set, Client(address=client))
    return asking.run(files.read, data, limits or Limits(), "image", Leash())


@pytest.mark.slow
def test_a_photo_with_too_many_pixels_comes_smaller(files: PictureFilesApart) -> None:
    picture = read(files, made("JPEG", 300, 200), Limits(max_image_pixels=20_000))
    assert (picture.size, picture.pixels) == ((150, 100), 15_000)
    rows = bytes(picture.data)
    assert rows[0] < 16
    assert rows[-1] > 240, "the gradient from black to white, whole"


@pytest.mark.slow
def test_a_confined_child_reads_heic(files: PictureFilesApart) -> None:
    picture = read(files, PHOTO)
    assert picture.size == (96, 64)
    assert bytes(picture.data[:3])[2] > 200, "blue"


@pytest.mark.skipif(not features.check("avif"), reason="Pillow has no libavif")
def test_a_confined_child_reads_avif(files: PictureFilesApart) -> None:
    picture = read(files, made("AVIF", 96, 64))
    assert picture.size == (96, 64)


@pytest.mark.parametrize(("form", "width"), [("PNG", 30), ("PNG", 900), ("BMP", 30), ("GIF", 30), ("WEBP", 30)])
def test_a_child_gives_the_pixels_of_the_file(files: PictureFilesApart, form: str, width: int) -> None:
    data = made(form, width, width)
    picture = read(files, data)
    assert (picture.size, picture.pixels, picture.param) == ((width, width), width * width, "image")
    expected = Image.open(BytesIO(data)).convert("RGB").tobytes()
    loss = 2 * (form == "WEBP")  # decoders round colours in their own way
    assert max(abs(one - other) for one, other in zip(bytes(picture.data), expected, strict=True)) <= loss


REFUSED = {
    "empty": b"",
    "words": b"words",
    "narrow": made("PNG", 402, 2),
    "cut": made("PNG")[:-40],
    "too large": made("PNG", 200, 200),
    "bomb": bombs.png(8),
}


@each("name", REFUSED)
def test_a_client_reads_the_same_error(files: PictureFilesApart, name: str) -> None:
    raised = []
    for one in (files, PictureFilesHere()):
        with pytest.raises(InvalidRequest) as error:
            one.read(REFUSED[name], Limits(max_image_pixels=10_000), "image", Leash())
        raised.append((error.type, error.value.message, error.value.param))
    assert raised[0] == raised[1]


def test_a_picture_that_only_the_decoder_refuses_has_its_field(files: PictureFilesApart) -> None:
    rows = zlib.compress((b"\x09" + bytes(12)) * 4)  # PNG has the filters 0 to 4
    header = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    data = bombs.PNG + bombs.chunk(b"IHDR", header) + bombs.chunk(b"IDAT", rows) + bombs.chunk(b"IEND")
    with pytest.raises(UnsupportedMedia, match="image is damaged or of a kind that is not read: the decoder"):
        read(files, data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("png", UnsupportedMedia), ("deep png", TooLarge), ("jpeg", UnsupportedMedia)]
)
def test_a_bomb_is_refused_and_the_server_does_not_grow(
    files: PictureFilesApart, name: str, kind: type[InvalidRequest]
) -> None:
    data = bombs.PICTURES[name]()
    read(files, made("PNG"))  # so that what the first picture needs is there
    before = pages.private_bytes()
    with ThreadPoolExecutor(8) as pool:
        errors = [asked.exception() for asked in [pool.submit(read, files, data) for _ in range(8)]]
    assert [type(error) for error in errors] == [kind] * 8
    assert pages.private_bytes() - before < 5 * MB


def test_pictures_held_are_limited_and_given_back(files: PictureFilesApart) -> None:
    limits = Limits(max_image_pixels=600)
    held = [read(files, made("PNG"), limits, "greedy") for _ in range(3)]
    with pytest.raises(Busy, match="the requests being served hold 0 MB of pictures, 0 MB of them for you"):
        read(files, made("PNG"), limits, "greedy")
    held.append(read(files, made("PNG"), limits, "other"))
    assert files.held == 4 * 1800
    with pytest.raises(Busy, match="try again when some are done"):
        read(files, made("GIF"), limits, "third")
    held.pop()
    gc.collect()
    assert files.held == 3 * 1800
    held.append(read(files, made("BMP"), limits, "third"))
    del held
    gc.collect()
    assert files.held == 0
    assert not files._own


def test_pictures_count_as_bytes_of_their_request(files: PictureFilesApart) -> None:
    """They counted nowhere: others were refused as if the engines had taken the memory."""
    mine = Own(lambda: 7)
    before, picture = files._traffic.held, read(files, made("PNG"), mine=mine)
    assert (mine.held, files._traffic.held - before) == (1807, 1800)
    picture.release()
    assert (mine.held, files._traffic.held - before) == (7, 0)


@pytest.mark.slow
@each("width", [30, 900])
def test_a_picture_that_was_read_is_given_back_at_once(files: PictureFilesApart, width: int) -> None:
    picture = read(files, made("PNG", width, width))
    assert files.held == 3 * width * width
    picture.release()
    assert files.held == 0


@pytest.mark.slow
def test_a_client_that_left_gets_no_picture(files: PictureFilesApart) -> None:
    leash = Leash()
    leash.cut()
    with pytest.raises(Cancelled):
        files.read(made("PNG"), Limits(), "image", leash)
