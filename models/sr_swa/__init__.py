"""Sparse-reference sliding-window attention: the decoding mechanism, ignorant of any one model.

Read ``context.py`` first: it assembles what a step attends to. ``continuous.py`` is the loop around it.
"""

from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder, continuous_decode
from models.sr_swa.controller import ContextController, MemoryWatermark
from models.sr_swa.gate import need_cross_page_context
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.state import ReferenceState, load_state, state_bytes
from models.sr_swa.memory.store import SparseReferenceStore
from models.sr_swa.memory.tail import OutputTail
from models.sr_swa.memory.window import SlidingWindow
from models.sr_swa.meter import PageMeter
from models.sr_swa.pages import Decoding, EncodedLine, EncodedPage, FailedPage, PageImage
from models.sr_swa.protocol import OcrModel

__all__ = [
    "AttentionContext",
    "ContextController",
    "ContinuousDecoder",
    "Decoding",
    "EncodedLine",
    "EncodedPage",
    "FailedPage",
    "Geometry",
    "KVBlock",
    "MemoryWatermark",
    "OcrModel",
    "OutputTail",
    "PageImage",
    "PageMeter",
    "ReferenceState",
    "SlidingWindow",
    "SparseReferenceStore",
    "continuous_decode",
    "load_state",
    "need_cross_page_context",
    "state_bytes",
]
