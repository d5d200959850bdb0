"""People rate images: tasks, invitations, answers, and what an organiser sees of them."""
