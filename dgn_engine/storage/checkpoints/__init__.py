"""Reading weights that others wrote, safely, and writing our own, whole or not at all."""
