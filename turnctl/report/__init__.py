"""A turn as a picture: from what is on record of it to HTML, SVG, Markdown, JSON and trace events.

``drawing`` makes a ``Picture`` of ``Facts``, which says what there is to draw and when; the writers draw it, each in
its own format. All of it is pure: no clock, no disk, no network.
"""
