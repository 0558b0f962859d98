"""Random views of images: parameters are drawn apart from applying them."""
