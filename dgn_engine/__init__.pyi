from dgn_engine.attachment.callbacks import hugging_face_callback as hugging_face_callback
from dgn_engine.attachment.callbacks import lightning_callback as lightning_callback
from dgn_engine.attachment.watcher import watch as watch

__version__: str
