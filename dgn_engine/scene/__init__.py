"""Panel content as plain data, shared by the screen and by figures. Free of Qt."""
