"""The chat: view models that fold engine events, and the widgets that show them."""
