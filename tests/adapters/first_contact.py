"""Five pages about a river, a retriever over them, and what a new user's objects look like."""

QUESTION = "Who designed the bridge over the Tirva?"
PAGES = {
    "Bridge over the Tirva": "The bridge over the Tirva was opened in 1932. It was designed by "
    "Ilse Marbach, who had never built one before. Trams crossed it until 1968. Today it carries "
    "two lanes of cars and a cycle path.",
    "Ilse Marbach": "Ilse Marbach was an engineer from Graz. She studied in Vienna and built "
    "mostly grain silos. Her papers are kept in the city archive.",
    "Tirva": "The Tirva is a river of 84 kilometres. It rises below the Hohe Wand and ends in a "
    "lake. Otters came back to it in the nineties.",
    "Corran Head": "The lighthouse of Corran Head was built by Anna Vell in 1870. It stands on a "
    "rock of slate. The lamp was electrified in 1951.",
    "Ferry": "The ferry to Corran Head leaves at noon. On Sundays there is a second crossing at "
    "six. Bicycles travel free of charge.",
}
ROWS = [(f"page-{n}", title, text) for n, (title, text) in enumerate(PAGES.items())]
