"""What is chosen where nobody chose: method, recipe, image size, epochs."""
