"""What screen and paper share: places, ticks, ramps and words of a scene. Free of Qt."""
