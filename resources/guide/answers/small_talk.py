"""What the guide says when people are just being people."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Small talk."""
    return [
        topic(
            "hello",
            "a greeting",
            ("hello|hi", "MLXR"),
            "Hello! I am MLXR's guide. What would you like to know about MLXR?",
            "Hi! Ask me anything about MLXR.",
        ),
        topic(
            "how_are_you",
            "how are you, how is it going",
            ("fine|well", "MLXR"),
            "I am fine, thank you. What would you like to know about MLXR?",
            "All is well here, thanks. What can I tell you about MLXR?",
        ),
        topic("thanks", "thank you", ("welcome|glad|pleasure",), "You are welcome!", "Glad to help!"),
        topic(
            "bye",
            "goodbye",
            ("bye|see you",),
            "Goodbye! Your chat is saved.",
            "See you soon! Your chat is saved.",
        ),
        topic(
            "joke",
            "tell me a joke, make me laugh",
            ("token",),
            f"Why did the token cross the page? Because the first {f.page_size} places were taken.",
        ),
        topic("compliment", "praise for the guide or MLXR", ("kind",), "That is kind of you, thank you!"),
        topic(
            "insult",
            "insults, frustration at the guide",
            ("sorry", "small"),
            "I am sorry that I did not help: I am only small. Try asking in other words, or open a bigger "
            "model.",
        ),
        topic(
            "acknowledge",
            "ok, yes, no, I see, cool, hmm",
            ("ask",),
            "All right. Just ask when you want to know something about MLXR.",
        ),
        topic(
            "are_you_there",
            "test, are you there, can you hear me",
            ("here",),
            "Yes, I am here and working. Ask me something about MLXR.",
        ),
        topic(
            "tell_more",
            "tell me more, explain further, with nothing named",
            ("short answers",),
            "I only have short answers. Ask about one thing, such as pages, models, shortcuts or files.",
        ),
        topic(
            "feelings",
            "do you like it, are you happy, bored, what is your favourite, do you love me",
            ("no feelings",),
            "I have no feelings or favourites: I am a small program that likes, so to speak, questions "
            "about MLXR.",
        ),
        topic(
            "sorry",
            "the user apologises",
            ("no harm|no need",),
            "No harm done! What would you like to know about MLXR?",
        ),
    ]
