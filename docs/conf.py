"""Settings of the documentation site; `make docs` builds it, without a network."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import reference

import tensormvc

project = "tensormvc"
author = "the tensormvc developers"
copyright = f"2026, {author}"
version = release = tensormvc.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "tutorials/at_build", "**/GALLERY_HEADER.rst", "api/backreferences"]
templates_path = ["_templates"]
smartquotes_action = "qe"  # quotes and ellipses; two hyphens stay two
default_role = "py:obj"  # so that `ESTMC` in a docstring is a link
nitpicky = False  # names of other projects have no page here, and there is no network to look them up
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has the types in words
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "groupwise"}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "tutorials/at_build"],
    "gallery_dirs": ["gallery", "tutorials/built"],
    "filename_pattern": r"examples/(plot|custom)_|at_build/",
    "ignore_pattern": r"order_matters\.py",
    "doc_module": ("tensormvc",),
    "reference_url": {"tensormvc": None},
    "backreferences_dir": "api/backreferences",
    "within_subsection_order": "reference.GalleryOrder",
    "default_thumb_file": str(Path(__file__).parent / "_static" / "extension.png"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # its page asks for scripts from elsewhere
    "remove_config_comments": True,
    "min_reported_time": 1,
    "plot_gallery": os.environ.get("TENSORMVC_GALLERY", "run") == "run",  # else the scripts are only shown
}

html_theme = "pydata_sphinx_theme"
html_title = f"tensormvc {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"priority": 100})]  # before those of the theme
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "tensormvc", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "alt_text": ""},
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": [],
}
html_sidebars = {"index": [], "install": [], "start": []}  # single pages, without a section around them


def setup(app):
    """Write the pages of the reference that come from the package itself, before Sphinx looks for pages."""
    app.connect("config-inited", lambda app, config: reference.write(Path(app.srcdir) / "api"))
    app.connect("autodoc-skip-member", reference.is_foreign)
