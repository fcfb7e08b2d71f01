"""What is known of a run and was seen of it: the View of a panel; notices, paces, layouts."""
