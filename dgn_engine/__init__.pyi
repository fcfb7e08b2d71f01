from dgn_engine.attaching.callbacks import hugging_face_callback as hugging_face_callback
from dgn_engine.attaching.callbacks import lightning_callback as lightning_callback
from dgn_engine.attaching.watcher import watch as watch

__version__: str
