from dgn_engine.attachment.callbacks import hugging_face_callback as hugging_face_callback
from dgn_engine.attachment.callbacks import lightning_callback as lightning_callback
from dgn_engine.attachment.watcher import watch as watch
from dgn_engine.config import DataConfig as DataConfig
from dgn_engine.config import GatingConfig as GatingConfig
from dgn_engine.config import NetConfig as NetConfig
from dgn_engine.config import RunConfig as RunConfig
from dgn_engine.config import TrainingConfig as TrainingConfig
from dgn_engine.data._torchvision import prepare_torchvision as prepare_torchvision
from dgn_engine.notebook.notebook_figure import figure as figure
from dgn_engine.notebook.notebook_report import open_report as open_report
from dgn_engine.notebook.notebook_run import open_run as open_run
from dgn_engine.notebook.notebook_run import train as train

__version__: str
