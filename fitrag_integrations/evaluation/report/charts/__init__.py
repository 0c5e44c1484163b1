"""The drawings of a report, as SVG in the classes that the page's style sheet colours."""
