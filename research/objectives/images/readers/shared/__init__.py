"""What several readers of pictures share."""
