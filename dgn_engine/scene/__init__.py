"""What a panel shows, as plain data, and what screen and paper share of it. Free of Qt."""
