"""What a run leaves behind: an encoder and a head over old and new categories."""

from newfound.model.model import Encoder, Model, load_model

__all__ = ["Encoder", "Model", "load_model"]
