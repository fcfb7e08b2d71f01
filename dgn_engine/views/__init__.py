"""From a run's events and frames to the view that panels draw; notices, drawing pace, layouts."""
