"""What a run leaves behind: an encoder and a head over old and new categories."""

from newfound.model.encoder import Encoder
from newfound.model.model import Model, load_model

__all__ = ["Encoder", "Model", "load_model"]
