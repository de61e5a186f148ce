"""Testing and comparing methods, and plotting the results."""
