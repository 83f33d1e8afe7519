"""Other programs' models: read into our parameters, and written from them."""
